"""What ``tailrace doctor`` finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that was checked: is it fit, what was found, and what to do if it is not."""

    name: str
    fit: bool
    seen: str
    remedy: str = ""
    required: bool = True
