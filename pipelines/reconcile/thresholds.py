"""How much two results may differ before a person has to look at them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.core.errors import UsageError
from pipelines.reconcile.differences import Differences, TableDifferences


@dataclass(frozen=True, slots=True)
class Thresholds:
    """``windows_percent``: of the windows, or rows, of each output; ``aggregate_percent``: of each column's total.

    Both are percentages that a difference may reach; :class:`UsageError` if one is negative.
    """

    windows_percent: float = 1.0
    aggregate_percent: float = 5.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            percent = getattr(self, name)
            if not percent >= 0:
                raise UsageError(f"{percent} is not a percentage", key=name, hint="give a number from 0 on")

    def exceeded(self, found: Differences) -> list[str]:
        """A sentence for each threshold that the outputs exceed. Verdicts are not looked at."""
        return [sentence for one in found.outputs for sentence in self._of(one)]

    def _of(self, one: TableDifferences) -> Iterator[str]:
        share = 100 * one.differing / one.rows if one.rows else 0.0
        if share > self.windows_percent:
            yield (
                f"{one.table}: {one.differing} of {one.rows} rows differ, {share:.3g} %, which is more than"
                f" {self.windows_percent:g} %"
            )
        for name, (before, now) in one.totals.items():
            percent = _percent(before or 0.0, now or 0.0)
            if percent > self.aggregate_percent:
                yield (
                    f"{one.table}: the total of {name} goes from {before or 0:.10g} to {now or 0:.10g}, by"
                    f" {percent:.3g} %, which is more than {self.aggregate_percent:g} %"
                )


def _percent(before: float, now: float) -> float:
    """By how much a total changes; without bound where it was zero or is no number on one side."""
    if before == now or (math.isnan(before) and math.isnan(now)):
        return 0.0
    percent = 100 * abs(now - before) / abs(before) if before else math.inf
    return math.inf if math.isnan(percent) else percent
