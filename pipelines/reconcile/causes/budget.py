"""The bounds of the search for causes: counts and no times, so that a busy machine finds the same causes."""

from __future__ import annotations

from dataclasses import dataclass

ROWS = 400
"""Differing rows that are examined one by one."""
ARRIVALS_OF_A_ROW = 2_000_000
ARRIVALS_OF_ALL_ROWS = 10_000_000
"""Arrivals recomputed for one row, and for all of them."""
ARRIVALS_OF_A_SEARCH = 1_000_000
"""Arrivals recomputed for one kind of changed settings at one window end."""
SAMPLES = 12
"""Differing window ends that changed settings are tried at, at first."""
THRESHOLDS = 600
PAIRS = 1_500
"""Tolerances that are tried at values where a verdict changes, and pairs of settings."""
READ_AS_A_WHOLE = 20_000
"""Arrivals up to which a window that depends on its whole log is recomputed from all of it."""
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
