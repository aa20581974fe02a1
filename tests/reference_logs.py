"""Short ways to write a job and its log in the tests of the reference engine."""

from __future__ import annotations

from dataclasses import asdict

from pipelines.core.model import Arrival, Decision, Job
from pipelines.core.time import format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.reference.engine import Outcome, run

DAY = "2026-01-01T"


def at(clock: str) -> int:
    """``12:07`` or ``12:07:00.5`` of the tests' day; a full instant is taken as it is."""
    return parse_instant(clock if "T" in clock else DAY + clock)


def clock(instant_us: int | None) -> str | None:
    """The instant as ``12:07``, with seconds only where there are any."""
    if instant_us is None:
        return None
    text = format_instant(instant_us).removeprefix(DAY).removesuffix("Z")
    return text.removesuffix(":00") if text.count(":") == 2 else text


def job(body: str) -> Job:
    """The job of a file's body; format and name are added."""
    return parse_job("tailrace: 1\njob: example\n" + body)


def event(arrival: str, sequence: int, partition: int = 0, input: str = "events", **payload: object) -> Arrival:
    return Arrival(input, partition, sequence, at(arrival), payload)


def punctuation(
    arrival: str, sequence: int, until: str, partition: int | None = 0, input: str = "events", cause: str = "idle"
) -> Arrival:
    return Arrival(input, partition, sequence, at(arrival), {}, at(until), cause)


def counts(outcome: Outcome, *columns: str) -> list[tuple[object, ...]]:
    """Per window: start, end, then the columns' values."""
    return [
        (clock(row.window_start_us), clock(row.window_end_us), *(row.values[name] for name in columns))
        for row in outcome.windows
    ]


def ruling(decision: Decision) -> tuple[str, tuple[str, ...], str | None]:
    """Verdict, reasons and system timestamp."""
    return decision.verdict, decision.reasons, clock(decision.system_timestamp_us)


__all__ = ["asdict", "at", "clock", "counts", "event", "job", "punctuation", "ruling", "run"]
