"""A cause that a difference may have. Each is found in the file, or folder, of its name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

UNEXPLAINED = "unexplained"
"""The only cause that is not proved: of the others a recomputation gives the live run's row, or the rows show it."""


@dataclass(frozen=True)
class Cause:
    """A cause, a sentence, and the details behind it as JSON-ready data."""

    name: str
    sentence: str
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def evidence(self) -> str:
        """The column ``evidence``: a JSON object whose ``says`` is the sentence."""
        return json.dumps({"says": self.sentence, **self.details}, ensure_ascii=False)
