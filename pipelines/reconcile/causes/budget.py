"""How much a search for a cause may recompute: a count and no time, so that a busy machine finds the same causes."""

from __future__ import annotations

from dataclasses import dataclass

_VALUES_OF_AN_ARRIVAL = 100
"""An arrival takes about as long to recompute as so many values take to aggregate."""


@dataclass
class Budget:
    """``arrivals`` that a search may recompute, and how many it has; an arrival counts each time."""

    arrivals: int
    recomputed: int = 0

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is to be recomputed."""
        return self.recomputed >= self.arrivals

    def recompute(self, arrivals: int) -> None:
        """Count one recomputation of so many arrivals."""
        self.recomputed += arrivals

    def aggregate(self, values: int) -> None:
        """Count values that are aggregated without a recomputation."""
        self.recomputed += values // _VALUES_OF_AN_ARRIVAL + 1
