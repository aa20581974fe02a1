"""The live run without Spark: the state of one job between two batches, and what a batch does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job, Profile
from pipelines.live.atlas import AtlasPolicy
from pipelines.live.ordering import OrderingPolicy
from pipelines.live.query import Query
from pipelines.live.state.arrivals import LogOutOfOrder, Partitions
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message, PendingCommits
from pipelines.live.state.output import Output, WindowResult
from pipelines.live.state.rows import FOREVER, Counted
from pipelines.live.stream_analytics.ordering import StreamAnalyticsPolicy
from pipelines.live.stream_insight import StreamInsightPolicy

POLICIES: dict[Profile, Callable[[CompiledJob, Partitions], OrderingPolicy]] = {
    "stream_analytics": StreamAnalyticsPolicy,
    "atlas": AtlasPolicy,
    "stream_insight": StreamInsightPolicy,
}


@dataclass(slots=True)
class LiveEngine:
    """The state of one job.

    A batch goes down through it: messages make whole commits, the ordering policy decides which rows count, the query
    puts those into windows, and windows that are final are emitted.

    ``unreleased`` are windows that are final, but that ``end_of_log: hold`` does not emit yet. ``end_given``: what the
    end of the log gives was given, and nothing has come since. ``failed`` is an error after which nothing goes on.
    """

    compiled: CompiledJob
    policy: OrderingPolicy
    query: Query
    pending: PendingCommits = field(default_factory=PendingCommits)
    unreleased: list[WindowResult] = field(default_factory=list)
    end_given: bool = False
    failed: TailraceError | LogOutOfOrder | None = None

    @classmethod
    def new(cls, job: Job) -> LiveEngine:
        """Nothing has come yet."""
        compiled = CompiledJob(job)
        policy = POLICIES[job.profile](compiled, Partitions(compiled))
        return cls(compiled, policy, Query.new(compiled, [policy.buffer(*one) for one in compiled.windows]))

    def step(self, messages: Sequence[Message]) -> Output:
        """Take the messages of a batch and give all that is final. After an error there is nothing but that error."""
        output = Output(error=self.failed)
        if self.failed is not None:
            return output
        try:
            self.pending.receive(messages)
            verdicts = []
            for commit in self.pending.completed():
                self.policy.partitions.known = self.pending.partitions
                self.policy.partitions.punctuations_us = self.pending.punctuations_us
                verdicts.append(self._count(*self.policy.decide(commit)))
            if verdicts:
                output.decide(verdicts)
                output.windows = self._close()
                self.end_given = False
        except (TailraceError, LogOutOfOrder) as error:
            output.error = self.failed = error
        return output

    @property
    def reached_end(self) -> bool:
        """Has everything come, and is it time for :meth:`finish`?"""
        return self.failed is None and self.pending.until_end and self.pending.caught_up and not self.end_given

    def finish(self, output: Output) -> None:
        """Add what the end of the log gives, as provisional rows. The engine cannot go on after it: save it before."""
        output.at_end = output.advanced = True
        flush = self.compiled.job.end_of_log == "flush"
        try:
            output.provisional_verdicts = self._count(*self.policy.decide_rest())
            output.provisional_windows = self._close()
            rest = [*self.unreleased, *self.query.close(dict.fromkeys(self.compiled.sources, FOREVER))]
            output.provisional_windows += [one for one in rest if flush or self.policy.emits_at_end(one)]
        except (TailraceError, LogOutOfOrder) as error:
            output.error = error

    def _count(self, verdicts: pa.Table, counted: Mapping[str, Counted]) -> pa.Table:
        """Hand the rows that count to the query; gives the verdicts."""
        for name, rows in counted.items():
            self.query.add(name, rows)
        return verdicts

    def _close(self) -> list[WindowResult]:
        """The windows that are final now and may be emitted."""
        final = self.unreleased + self.query.close({name: self.policy.bound(name) for name in self.compiled.sources})
        emitted: list[WindowResult] = []
        self.unreleased = []
        for one in final:
            (emitted if self.policy.emits(one) else self.unreleased).append(one)
        return emitted
