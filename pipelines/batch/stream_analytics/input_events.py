"""One input's events, with the time that feeds its watermarks, before any watermark is known."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import ARRIVAL_US, IS_PUNCTUATION, MAX_BEFORE_US, PARTITION, within
from pipelines.batch.logs import Log
from pipelines.batch.stream_analytics.policy import with_time
from pipelines.batch.stream_analytics.timelines import LATEST_US, timelines
from pipelines.core.expressions import quoted
from pipelines.core.model import OutputRange, StreamAnalyticsOrdering
from pipelines.plan.initial_state import InitialState


@dataclass(frozen=True)
class InputEvents:
    """An input with an event time. ``keep_all``: verdicts of events that simply count are asked for as well."""

    log: Log
    policy: StreamAnalyticsOrdering
    output: OutputRange
    initial_state: InitialState | None
    keep_all: bool

    @cached_property
    def rows(self) -> DataFrame:
        """Every row, punctuations too, normalised and with TIME_US."""
        return with_time(self.log.rows(), self.policy)

    @cached_property
    def timed(self) -> DataFrame:
        """The events of :attr:`rows`."""
        return self.rows.filter(~F.col(IS_PUNCTUATION))

    def timed_of(self, arrivals: DataFrame) -> DataFrame:
        """The events of some of the log's arrivals, as :attr:`timed` has them."""
        return with_time(self.log.normalised(arrivals), self.policy).filter(~F.col(IS_PUNCTUATION))

    @property
    def timeline(self) -> tuple[str, ...]:
        """The columns that name a timeline (S6)."""
        return (PARTITION, *self.log.source.over)

    @property
    def in_range(self) -> Column:
        """Whether an event arrived in the output range."""
        return within(ARRIVAL_US, self.output)

    @cached_property
    def greatest_before_us(self) -> int | None:
        """The greatest time that any timeline had seen before the read range."""
        before = () if self.initial_state is None else self.initial_state.before
        return max((one.time_us for one in before if one.time_us is not None), default=None)

    def after_initial_state(self, scanned: DataFrame) -> DataFrame:
        """MAX_BEFORE_US raised to what the event's timeline had seen before the read range."""
        if self.initial_state is None or self.greatest_before_us is None:
            return scanned
        before = {name: f"__before_{name}" for name in self.timeline}
        seen = timelines(scanned.sparkSession, self.log.source, self.initial_state.before).withColumnsRenamed(before)
        same = [F.col(quoted(name)).eqNullSafe(F.col(quoted(renamed))) for name, renamed in before.items()]
        # greatest passes over nulls
        greatest = F.greatest(F.col(MAX_BEFORE_US), F.col(LATEST_US))
        joined = scanned.join(F.broadcast(seen), same, "left").withColumn(MAX_BEFORE_US, greatest)
        return joined.drop(LATEST_US, *before.values())
