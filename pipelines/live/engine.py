"""The live run without Spark: the state of one job between two batches, and what a batch does to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job, Profile
from pipelines.live.atlas import AtlasPolicy
from pipelines.live.ordering import OrderingPolicy
from pipelines.live.query import WindowQuery
from pipelines.live.state.arrivals import LogOutOfOrder, Partitions
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message, PendingCommits
from pipelines.live.state.output import Output
from pipelines.live.state.rows import Counted
from pipelines.live.steps.slices import SlicedRows
from pipelines.live.stream_analytics.ordering import StreamAnalyticsPolicy
from pipelines.live.stream_insight import StreamInsightPolicy

POLICIES: dict[Profile, Callable[[CompiledJob, Partitions], OrderingPolicy]] = {
    "stream_analytics": StreamAnalyticsPolicy,
    "atlas": AtlasPolicy,
    "stream_insight": StreamInsightPolicy,
}


class LiveQuery(Protocol):
    """What happens to the rows that count, and its state."""

    def add(self, name: str, counted: Counted) -> None:
        """Take rows of one input that count."""

    def emit(self, policy: OrderingPolicy, output: Output) -> None:
        """Add what is final now to the output, once."""

    def finish(self, policy: OrderingPolicy, output: Output) -> None:
        """Add what the end of the log gives, as provisional. The query cannot go on after it."""


@dataclass(slots=True)
class LiveEngine:
    """The state of one job.

    A batch goes down through it: messages make whole commits, the ordering policy decides which rows count, and the
    query makes results of those. ``end_given``: what the end of the log gives was given, and nothing has come since.
    ``failed`` is an error after which nothing goes on.
    """

    compiled: CompiledJob
    policy: OrderingPolicy
    query: LiveQuery
    pending: PendingCommits = field(default_factory=PendingCommits)
    end_given: bool = False
    failed: TailraceError | LogOutOfOrder | None = None

    @classmethod
    def new(cls, job: Job) -> LiveEngine:
        """Nothing has come yet."""
        compiled = CompiledJob(job)
        policy = POLICIES[job.profile](compiled, Partitions(compiled))
        query = WindowQuery.new(compiled, policy) if job.steps is None else SlicedRows.new(compiled)
        return cls(compiled, policy, query)

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
                self.query.emit(self.policy, output)
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
        try:
            output.provisional_verdicts = self._count(*self.policy.decide_rest())
            self.query.finish(self.policy, output)
        except (TailraceError, LogOutOfOrder) as error:
            output.error = error

    def _count(self, verdicts: pa.Table, counted: Mapping[str, Counted]) -> pa.Table:
        """Hand the rows that count to the query; gives the verdicts."""
        for name, rows in counted.items():
            self.query.add(name, rows)
        return verdicts
