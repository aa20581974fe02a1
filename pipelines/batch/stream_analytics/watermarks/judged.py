"""What every strategy of finding watermarks gives: one input's events, judged."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US, VERDICT_COLUMNS
from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.policy import is_exception, with_verdict


class JudgedEvents(Protocol):
    """One input's events, each judged by the watermark that its timeline had before it (S2 to S5)."""

    @property
    def counting(self) -> DataFrame:
        """The events that count, with SYSTEM_US, ARRIVAL_ORDER and the payload at least."""
        ...

    @property
    def verdicts(self) -> DataFrame:
        """VERDICT_COLUMNS of the events; where :attr:`events_in_range` is a number, some that simply count may lack."""
        ...

    @property
    def events_in_range(self) -> int | None:
        """How many events arrived in the output range, where verdicts may lack some."""
        ...

    @property
    def shared(self) -> DataFrame | None:
        """What verdicts and counting events are both made of, where making it twice is costly."""
        ...


class ExactlyJudged(JudgedEvents, Protocol):
    """Events whose SYSTEM_US is exact, not only right to the cell of a grid."""

    @property
    def kept_verdicts(self) -> DataFrame:
        """:attr:`verdicts` without the events that simply count, unless these are asked for."""
        ...


@dataclass(frozen=True)
class AtArrival:
    """Events that count when they arrive (S8), with their verdicts. A :class:`JudgedEvents`."""

    counting: DataFrame
    events_in_range: None = None
    shared: None = None

    @property
    def verdicts(self) -> DataFrame:
        """All of them."""
        return self.counting.select(*VERDICT_COLUMNS)


@dataclass(frozen=True)
class EveryEvent:
    """Every event is judged: ``scanned`` holds them all with MAX_BEFORE_US. An :class:`ExactlyJudged`."""

    events: InputEvents
    scanned: DataFrame

    @cached_property
    def _judged(self) -> DataFrame:
        return with_verdict(self.scanned, self.events.policy)

    @property
    def counting(self) -> DataFrame:
        """Those that have a system timestamp."""
        return self._judged.filter(F.col(SYSTEM_US).isNotNull())

    @property
    def verdicts(self) -> DataFrame:
        """All of them."""
        return self._judged.select(*VERDICT_COLUMNS)

    @property
    def kept_verdicts(self) -> DataFrame:
        """Found before they are put together, which saves that for most events."""
        if self.events.keep_all:
            return self.verdicts
        exceptions = self.scanned.filter(is_exception(self.events.policy))
        return with_verdict(exceptions, self.events.policy).select(*VERDICT_COLUMNS)

    @property
    def events_in_range(self) -> int | None:
        """None: verdicts lack no event."""
        return None

    @property
    def shared(self) -> DataFrame | None:
        """None: scanning again costs less than keeping all events."""
        return None
