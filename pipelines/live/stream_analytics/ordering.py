"""The ordering policy of stream_analytics, live (S1 to S8), and what may still come.

A timeline's next event counts at ``max(M - out_of_order, ts, arrival - late_arrival)`` or is dropped, so what a
partition may still bring counts at or after ``max(M - out_of_order, last arrival - late_arrival)``. Windows are final
up to the least of these over all partitions.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.core.model import Grid, Session, SimpleWindow, StreamAnalyticsOrdering
from pipelines.live.ordering import Decided
from pipelines.live.query import WindowBuffer
from pipelines.live.state.arrivals import Partitions
from pipelines.live.state.batches import Batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit
from pipelines.live.state.output import VERDICTS, WindowResult
from pipelines.live.state.rows import NEVER, CountedBatch
from pipelines.live.stream_analytics.end_of_log import is_released, is_released_for_good
from pipelines.live.stream_analytics.timelines import LatestTimes
from pipelines.live.stream_analytics.verdicts import judge
from pipelines.live.windows.by_column import ColumnBuffer
from pipelines.live.windows.end_aligned import EndAlignedBuffer, SessionBuffer


@dataclass(slots=True)
class StreamAnalyticsPolicy:
    """Each input partition is a timeline, or one for each tuple of ``over`` (S6): no row waits for another partition.

    ``latest`` has M of every timeline, by input and partition.
    """

    compiled: CompiledJob
    partitions: Partitions
    latest: LatestTimes = field(default_factory=dict)

    def decide(self, commit: Commit) -> Decided:
        """See :meth:`OrderingPolicy.decide`. Punctuations move nothing in this profile."""
        batch = Batch.of(self.compiled, commit)
        for first, last in batch.ends():
            self.partitions.follow(batch.input, first, last)
        events = batch.take(~batch.columns["punctuation"].present)
        judged = judge(self.compiled.job, events, self.latest)
        if not self.compiled.reads(batch.input):
            return Decided(judged.table(events), {})
        counts = judged.counts
        if "passes" in events.columns:
            counts &= events.columns["passes"].data.astype(bool)
        counted = CountedBatch(self.compiled, events.take(counts), judged.system[counts])
        return Decided(judged.table(events), {batch.input: counted})

    def decide_rest(self) -> Decided:
        """See :meth:`OrderingPolicy.decide_rest`."""
        return Decided(VERDICTS.empty_table(), {})

    def bound(self, name: str) -> int:
        """See :meth:`OrderingPolicy.bound`."""
        return min((self._bound(name, partition) for partition in self.partitions.of(name)), default=NEVER)

    def _bound(self, name: str, partition: int) -> int:
        last = self.partitions.last.get((name, partition))
        if last is None:
            return NEVER
        part, ordering = self.compiled.job.input(name), self.compiled.job.ordering(name)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        if part.timestamp_by is None:
            return last[0]
        late_us = ordering.late_arrival_us
        by_arrival = NEVER if late_us is None else last[0] - late_us
        if part.over:
            return by_arrival
        return max(by_arrival, self.latest.get((name, partition), {}).get((), NEVER) - ordering.out_of_order_us)

    def buffer(self, window_id: str | None, window: SimpleWindow) -> WindowBuffer:
        """See :meth:`OrderingPolicy.buffer`."""
        if isinstance(window, Grid):
            return ColumnBuffer(self.compiled, window_id, window)
        kind = SessionBuffer if isinstance(window, Session) else EndAlignedBuffer
        return kind(self.compiled, window_id, window)

    def emits(self, result: WindowResult) -> bool:
        """See :meth:`OrderingPolicy.emits` (S15)."""
        if self.compiled.job.end_of_log == "flush":
            return True
        return self.emits_at_end(result) and is_released_for_good(self.compiled, self.partitions, result)

    def emits_at_end(self, result: WindowResult) -> bool:
        """See :meth:`OrderingPolicy.emits_at_end` (S15)."""
        return is_released(self.compiled, self.partitions, self.latest, result)
