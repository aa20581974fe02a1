"""M of each timeline of stream_analytics, live: the greatest time it has seen, before each event of a batch (S5, S6).

A timeline is an input partition, with ``over`` one tuple of keys inside it. Its M goes on from batch to batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from pipelines.core.values import grouping_key
from pipelines.live.state.columns import Column, Mask, Numbers, numbered, starts_of_runs
from pipelines.live.state.rows import NEVER

LatestByKey = dict[Any, int]
"""M in microseconds for each tuple of ``over`` (without ``over`` one, ``()``) in one input partition."""
LatestTimes = dict[tuple[str, int], LatestByKey]
"""The same by input and partition."""


@dataclass(frozen=True, slots=True)
class Timelines:
    """The timelines of a batch's events: ``number`` of each event; by number the ``keys`` in ``latest``."""

    number: Numbers
    latest: list[LatestByKey]
    keys: list[Any]

    @classmethod
    def of(cls, name: str, partition: Numbers, over: list[Column], latest: LatestTimes) -> Timelines:
        """Those of events in arrival order; :meth:`advance` writes to ``latest``."""
        number, found = numbered([Column.full(partition), *over], len(partition))
        by_number = [latest.setdefault((name, one[0]), {}) for one in found]
        return cls(number, by_number, [grouping_key(one[1:]) for one in found])

    def advance(self, times: Numbers, seen: Mask) -> Numbers:
        """M before each event, :data:`NEVER` where there is none yet. After an event that is ``seen``, M is the
        greater of M and its time."""
        order = np.argsort(self.number, kind="stable")
        starts = starts_of_runs(self.number[order])
        own = np.where(seen, times, NEVER)[order]
        before = np.empty_like(own)
        before[1:] = own[:-1]
        before[starts] = [latest.get(key, NEVER) for latest, key in zip(self.latest, self.keys, strict=True)]
        for number, (begin, end) in enumerate(pairwise([*starts.tolist(), len(own)])):
            before[begin:end] = np.maximum.accumulate(before[begin:end])
            after = int(max(before[end - 1], own[end - 1]))
            if after != NEVER:
                self.latest[number][self.keys[number]] = after
        result = np.empty_like(before)
        result[order] = before
        return result
