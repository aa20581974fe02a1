"""The ordering policy of stream_analytics, live (S1 to S8), and what may still come.

A timeline's next event counts at ``max(M - out_of_order, ts, arrival - late_arrival)`` or is dropped, so what a
partition may still bring counts at or after ``max(M - out_of_order, last arrival - late_arrival)``. Windows are final
up to the least of these over all partitions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from pipelines.core.model import Grid, Input, Session, SimpleWindow, StreamAnalyticsOrdering
from pipelines.core.values import grouping_key
from pipelines.live.ordering import Decided, OrderingPolicy
from pipelines.live.state.arrivals import Partitions
from pipelines.live.state.batches import Batch
from pipelines.live.state.columns import present
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit
from pipelines.live.state.output import VERDICTS, WindowResult
from pipelines.live.state.rows import FOREVER, NEVER, CountedBatch
from pipelines.live.stream_analytics.verdicts import LatestTimes, judge
from pipelines.live.windows.buffers import WindowBuffer
from pipelines.live.windows.by_column import ColumnBuffer
from pipelines.live.windows.end_aligned import EndAlignedBuffer, SessionBuffer


@dataclass
class StreamAnalyticsPolicy(OrderingPolicy):
    """The state of the policy: ``latest`` has M of every timeline.

    A timeline lies inside one input partition (S6), so no row waits for another partition.
    """

    compiled: CompiledJob
    partitions: Partitions
    latest: LatestTimes = field(default_factory=dict)

    def decide(self, commit: Commit) -> Decided:
        batch = Batch.of(self.compiled, commit)
        for first, last in batch.ends():
            self.partitions.follow(commit.input, first, last)
        # punctuations move nothing in this profile
        events = batch.filter(~present(batch.rows["punctuation"]))
        judged = judge(self.compiled.job, events, self.latest)
        if not self.compiled.reads(commit.input):
            return Decided(judged.table(events), {})
        counts = judged.counts
        if "passes" in events.rows.column_names:
            counts = counts & events.rows["passes"].to_numpy()
        counted = CountedBatch(self.compiled, events.filter(counts), judged.system[counts])
        return Decided(judged.table(events), {commit.input: counted})

    def decide_rest(self) -> Decided:
        return Decided(VERDICTS.empty_table(), {})

    def bound(self, name: str) -> int:
        return min((self._bound(name, partition) for partition in self.partitions.of(name)), default=NEVER)

    def _bound(self, name: str, partition: int) -> int:
        (part, ordering), last_us = self._settings(name), self._last_arrival(name, partition)
        if part.timestamp_by is None:
            return last_us
        by_arrival = NEVER if ordering.late_arrival_us is None else last_us - ordering.late_arrival_us
        if part.over:
            return by_arrival
        return max(by_arrival, self.latest.get((name, partition), {}).get((), NEVER) - ordering.out_of_order_us)

    def buffer(self, window_id: str | None, window: SimpleWindow) -> WindowBuffer:
        if isinstance(window, Grid):
            return ColumnBuffer(self.compiled, window_id, window)
        kind = SessionBuffer if isinstance(window, Session) else EndAlignedBuffer
        return kind(self.compiled, window_id, window)

    # -- end_of_log: hold (S15) ---------------------------------------------------------------------------------------

    def emits(self, result: WindowResult) -> bool:
        if self.compiled.job.end_of_log == "flush":
            return True
        return self.emits_at_end(result) and all(
            result.end_us < self._earliest_new_timeline(name) for name in self.compiled.sources
        )

    def emits_at_end(self, result: WindowResult) -> bool:
        group_by = self.compiled.job.window_query.group_by
        columns = [self._shared_name(*column.rpartition(".")[::2]) for column in group_by]
        return self.settled(result.end_us, dict(zip(columns, map(grouping_key, result.values), strict=False)))

    def settled(self, end_us: int, group: Mapping[str, Hashable]) -> bool:
        """Whether ``end < M - out_of_order`` in each timeline that may have rows of the group: with ``over``, in those
        whose keys do not differ from the group keys."""
        for name in self.compiled.sources:
            part, ordering = self._settings(name)
            back_us = 0 if part.timestamp_by is None else ordering.out_of_order_us
            over = [self._shared_name(name, column) for column in part.over]
            wanted = [(index, group[column]) for index, column in enumerate(over) if column in group]
            for partition in self.partitions.of(name):
                latest = self.latest.get((name, partition), {})
                if not part.over and not latest:
                    return False
                for key, time_us in latest.items():
                    if all(key[index] == value for index, value in wanted) and not end_us < time_us - back_us:
                        return False
        return True

    def released(self) -> int:
        released = FOREVER
        for name in self.compiled.sources:
            part, ordering = self._settings(name)
            back_us = 0 if part.timestamp_by is None else ordering.out_of_order_us
            for partition in self.partitions.of(name):
                latest = self.latest.get((name, partition), {})
                if not part.over and not latest:
                    return NEVER
                released = min([released, *(time_us - back_us for time_us in latest.values())])
            released = min(released, self._earliest_new_timeline(name))
        return released

    def _earliest_new_timeline(self, name: str) -> int:
        """No timeline that is still to begin has a lower ``M - out_of_order``."""
        part, ordering = self._settings(name)
        if not part.over:
            return FOREVER
        if ordering.late_arrival_us is None:
            return NEVER
        last_us = min((self._last_arrival(name, one) for one in self.partitions.of(name)), default=NEVER)
        return last_us - ordering.late_arrival_us - ordering.out_of_order_us

    def _shared_name(self, name: str, column: str) -> str:
        """One name for what an input's column means: columns that a join compares are one."""
        join = None if self.compiled.job.steps is not None else self.compiled.job.window_query.join
        if join is None or column.lower() in {on.lower() for on in join.on}:
            return column.lower()
        return f"{name}.{column}".lower()

    def _last_arrival(self, name: str, partition: int) -> int:
        last = self.partitions.last.get((name, partition))
        return NEVER if last is None else last[0]

    def _settings(self, name: str) -> tuple[Input, StreamAnalyticsOrdering]:
        ordering = self.compiled.job.ordering(name)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        return self.compiled.job.input(name), ordering
