"""stream_analytics, live: M of each timeline, the greatest time it has seen, before each event of a batch.

A timeline is an input partition, with ``over`` one tuple of keys inside it. Its M goes on from batch to batch.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from pipelines.live.state.columns import Column, Mask, Numbers, numbered, starts_of_runs
from pipelines.live.values import all_same
from pipelines.live.windows.assign import NEVER

Latest = dict[Hashable, int]
"""M for each tuple of ``over`` (all else: one, ``()``) in one input partition."""


@dataclass(frozen=True, slots=True)
class Timelines:
    """The timelines of a batch's events: the event's ``number``, and by number what is known and under which key."""

    number: Numbers
    latest: list[Latest]
    keys: list[Hashable]

    @classmethod
    def of(cls, partition: Numbers, over: list[Column], latest: dict[int, Latest]) -> Timelines:
        """Those of events in arrival order; ``latest`` by partition is what :meth:`pass_by` writes to."""
        number, keys = numbered([Column.full(partition), *over], len(partition))
        return cls(number, [latest[key[0]] for key in keys], [all_same(key[1:]) for key in keys])

    def pass_by(self, times: Numbers, seen: Mask) -> Numbers:
        """M before each event, :data:`NEVER` where there is none yet; after it, M is its time if that is greater.
        What is not ``seen`` leaves M as it is."""
        order = np.argsort(self.number, kind="stable")
        starts = starts_of_runs(self.number[order])
        carried = [latest.get(key, NEVER) for latest, key in zip(self.latest, self.keys, strict=True)]
        own = np.where(seen, times, NEVER)[order]
        before = np.empty_like(own)
        before[1:] = own[:-1]
        before[starts] = carried
        bounds = [*starts.tolist(), len(own)]
        for number, (begin, end) in enumerate(pairwise(bounds)):
            before[begin:end] = np.maximum.accumulate(before[begin:end])
            after = int(max(before[end - 1], own[end - 1]))
            if after != NEVER:
                self.latest[number][self.keys[number]] = after
        result = np.empty_like(before)
        result[order] = before
        return result
