"""Which days' results still are what a replay would give now, which are not and why, and which day to replay next.

Decided from the run ledger and the logs' own commits: no Spark, and no data but the tail of a log; of a job whose plan
carries something in, what its summary lacks as well (see :mod:`pipelines.lakehouse.cache.summaries`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.intervals import days_of, inside
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import DAY, MILLISECOND, day_of, format_instant, from_datetime, to_datetime
from pipelines.lakehouse.arrival_log import log_files
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.log_changes import Change, changes_since, last_change
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.plan.extent import job_extent
from pipelines.plan.read_range import reach_of
from pipelines.quality.conservation import Share, shares
from pipelines.replay.builder import LogReads

ALIVE_US = DAY
"""A partition that said nothing in the last day of its log counts as gone: nobody waits for it."""
NAMED = 5
"""How many reasons a stale day names."""


@dataclass(frozen=True, slots=True)
class StaleDay:
    """One UTC output day whose results a replay would compute from something else now.

    ``runs`` wrote them; ``why`` holds the first few reasons in sentences, ``versions`` the logs' versions now.
    """

    day: date
    runs: tuple[str, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The newest day that no later arrival can change; ``day`` None: there is none, and ``why`` says why."""

    day: date | None
    why: str


def day_range(day: date) -> OutputRange:
    """The UTC day as an output range."""
    day_us = day_of(day) * DAY
    return OutputRange(day_us, day_us + DAY)


def versions_now(lakehouse: Lakehouse, job: Job) -> dict[str, int]:
    """The newest version of each arrival log that is there at which rows changed, by table."""
    logs = {arrivals_table(part.name): lakehouse.open(arrivals_table(part.name)) for part in job.inputs}
    return {name: last_change(log) for name, log in logs.items() if log is not None}


def is_replayed(lakehouse: Lakehouse, job: Job, day: date) -> bool:
    """Whether successful replays have written the whole day."""
    return not shares(_replays(lakehouse, job), day_range(day))[1]


def stale_days(lakehouse: Lakehouse, job: Job) -> list[StaleDay]:
    """The days, oldest first, that were replayed and are stale now.

    A result is stale if the job means something else than when its run wrote it, or if rows were added to a log, or
    taken out of it, after the version that its run read, at arrival times inside the read range of what that run wrote
    of the day. Where a run knew its results to be settled, what arrived after the log's end of then is outside of it.
    Days on which nothing was replayed are not stale.
    """
    span = _span(lakehouse, job)
    if span is None:
        return []
    runs = _replays(lakehouse, job)
    started_us = {run["run_id"]: from_datetime(run["started_at"]) for run in runs}
    prints = {run["run_id"]: run["job_fingerprint"] for run in runs}
    settled_us = {run["run_id"]: from_datetime(run["end_of_log"]) for run in runs if run["settled"]}
    found: dict[date, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    logs: LogReads | None = None
    for share in shares(runs, span)[0]:
        if prints[share.run_id] != job.fingerprint:
            why = f"the job file changed: fingerprint {prints[share.run_id][:12]} then, {job.fingerprint[:12]} now"
            for day, _ in _days(share, span):
                found[day][share.run_id].append(why)
            continue
        changes = _changes(lakehouse, job, share, started_us[share.run_id])
        if not changes:
            continue
        logs = logs or LogReads(job, lakehouse)
        for day, part in _days(share, span):
            read = logs.that_matter(part)
            ends_us = [us for us in (read.to_us, settled_us.get(share.run_id)) if us is not None]
            touching = [change for change in changes if change.touches(read.from_us, min(ends_us, default=None))]
            if touching:
                found[day][share.run_id] += _sentences(touching)
    return [
        StaleDay(day, tuple(by_run), tuple(dict.fromkeys(why for run in by_run.values() for why in run))[:NAMED])
        for day, by_run in sorted(found.items())
    ]


def newest_settled_day(lakehouse: Lakehouse, job: Job) -> Settled:
    """The newest UTC day that nothing changes any more, whatever living partitions still bring.

    Inside a partition arrival times never fall, so what arrived before the slowest one's last word is complete: the
    plan's own rule is asked whether that alone settles a day. A partition that was silent for :data:`ALIVE_US` at the
    end of its log is not waited for; where it holds a watermark back, it goes on holding it.
    """
    slowest: tuple[int, str] | None = None
    for part in job.inputs:
        ends_us = living_partitions(lakehouse, part.name)
        if not ends_us:
            return Settled(None, f"the log of {part.name} is empty")
        place, end_us = min(ends_us.items(), key=lambda item: item[1])
        if slowest is None or end_us < slowest[0]:
            slowest = (end_us, f"{part.name}/{place}")
    assert slowest is not None, "a job has an input"
    told = f"the slowest partition, {slowest[1]}, last spoke at {format_instant(slowest[0])}"
    first_us = _first_us(lakehouse, job)
    assert first_us is not None, "a living partition has an arrival"
    # a plan knows the log's end to the millisecond only, and must not say otherwise
    complete_us = slowest[0] // MILLISECOND * MILLISECOND
    logs = LogReads(job, lakehouse, complete_us=complete_us)
    last_us = complete_us // DAY * DAY
    midnights_us = range(last_us, first_us - (reach_of(job).after_us or 0), -DAY)
    newest = bisect_left(midnights_us, True, key=lambda to_us: logs.unsettled(to_us) is None)
    if newest == len(midnights_us):
        why = logs.unsettled(midnights_us[-1] if midnights_us else last_us)
        return Settled(None, f"no day is settled: {why or told}")
    return Settled(to_datetime(midnights_us[newest] - DAY).date(), told)


def living_partitions(lakehouse: Lakehouse, input_name: str) -> dict[int | None, int]:
    """The last arrival, in microseconds, of each input partition that spoke in the last day of the log.

    Reads the partition and time columns of the files of that day. None is the partition of punctuations for all.
    """
    log = lakehouse.open(arrivals_table(input_name))
    ends_us = [file.last_us for file in log_files(log) if file.last_us is not None] if log is not None else []
    if log is None or not ends_us:
        return {}
    # a file's end is rounded up to the millisecond, so the true end lies at most that much before it
    from_us = max(ends_us) - ALIVE_US
    rows = log.to_pyarrow_dataset().to_table(
        columns=["input_partition", "arrival_time"],
        filter=(pc.field("arrival_time") >= pa.scalar(from_us, TIMESTAMP))
        & (pc.field("arrival_date") >= pa.scalar(from_us // DAY, pa.int32()).cast(pa.date32())),
    )
    rows = rows.set_column(1, "arrival_time", rows["arrival_time"].cast(pa.int64()))
    last = rows.group_by("input_partition").aggregate([("arrival_time", "max")])
    return {row["input_partition"]: row["arrival_time_max"] for row in last.to_pylist()}


def _replays(lakehouse: Lakehouse, job: Job) -> list[dict[str, Any]]:
    return [run for run in runs_of(lakehouse, job.name) if run["kind"] == "replay"]


def _changes(lakehouse: Lakehouse, job: Job, share: Share, started_us: int) -> list[Change]:
    found = []
    for part in job.inputs:
        name = arrivals_table(part.name)
        log, version = lakehouse.open(name), share.read.get(name)
        if log is None:
            continue
        if version is None or version > log.version():
            told = f"run {share.run_id} read another table than {name} is now"
            found.append(Change(log.version(), None, None, None, told))
        else:
            found += changes_since(log, version, started_us)
    return found


def _sentences(changes: Sequence[Change]) -> list[str]:
    rows: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        rows[change.what].append(change)
    return [_sentence(what, held) for what, held in rows.items()]


def _sentence(what: str, held: Sequence[Change]) -> str:
    firsts = [change.first_us for change in held if change.first_us is not None]
    lasts = [change.last_us for change in held if change.last_us is not None]
    if len(firsts) < len(held) or len(lasts) < len(held):
        return f"arrivals {what}"
    last_us = max(lasts) // 1000 * 1000
    return f"arrivals of {format_instant(min(firsts))} to {format_instant(last_us)} {what}"


def _days(share: Share, span: OutputRange) -> list[tuple[date, OutputRange]]:
    """The days that a run wrote last, each with the part of it that this run wrote."""
    return [day for part in inside(share.owns, span) for day in days_of(part)]


def _span(lakehouse: Lakehouse, job: Job) -> OutputRange | None:
    """Whole days that hold every result the logs can give; None where there is no arrival."""
    first_us, last_us = _first_us(lakehouse, job), _last_us(lakehouse, job)
    if first_us is None or last_us is None:
        return None
    late_us = reach_of(job).after_us
    before_us = DAY if late_us is None else late_us
    after_us = job_extent(job).back_us or DAY
    return OutputRange((first_us - before_us) // DAY * DAY, ((last_us + after_us) // DAY + 1) * DAY)


def _first_us(lakehouse: Lakehouse, job: Job) -> int | None:
    firsts = [file.first_us for file in _files(lakehouse, job) if file.first_us is not None]
    return min(firsts) if firsts else None


def _last_us(lakehouse: Lakehouse, job: Job) -> int | None:
    lasts = [file.last_us for file in _files(lakehouse, job) if file.last_us is not None]
    return max(lasts) if lasts else None


def _files(lakehouse: Lakehouse, job: Job) -> list[Any]:
    logs = [lakehouse.open(arrivals_table(part.name)) for part in job.inputs]
    return [file for log in logs if log is not None for file in log_files(log)]


def summary(stale: Sequence[StaleDay]) -> Mapping[str, list[str]]:
    """Reasons by day, JSON-ready."""
    return {day.day.isoformat(): list(day.why) for day in stale}
