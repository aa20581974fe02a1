"""Which days are stale and why, and which day to replay next.

Decided from the run ledger and the commits of the logs, without Spark. Of the data only the last day of a log is read;
for a job that needs initial state, also the days that the log's summary lacks
(:mod:`pipelines.lakehouse.cache.summaries`).
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
from pipelines.core.model import Input, Job, OutputRange, Reference
from pipelines.core.time import DAY, MILLISECOND, day_of, format_instant, from_datetime, to_datetime
from pipelines.ingest.from_source import complete_until
from pipelines.lakehouse.arrival_log import log_files
from pipelines.lakehouse.layout import arrivals_table, references_table
from pipelines.lakehouse.log_changes import Change, LogChanges, changes_since_run, last_change, logs_of
from pipelines.lakehouse.owned_ranges import OwnedRange, owned_ranges
from pipelines.lakehouse.reference_data import open_reference, static_rows
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.plan.paths import job_extent
from pipelines.plan.read_range import reach_of
from pipelines.plan.snapshots import Lookup, lookups, snapshots_read
from pipelines.replay.builder import LogReads

ALIVE_US = DAY
"""An input partition without an arrival in the last day of its log is taken for ended."""
SAMPLE_REASONS = 5
"""How many reasons a stale day names."""


@dataclass(frozen=True, slots=True)
class StaleDay:
    """One UTC output day whose results a replay would compute from other arrivals or another job now.

    ``runs`` are the ids of the runs that wrote them; ``why`` contains the first :data:`SAMPLE_REASONS` reasons in
    sentences.
    """

    day: date
    runs: tuple[str, ...]
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Settled:
    """The newest day that no later arrival can change (None: there is none), and ``why``, in a sentence."""

    day: date | None
    why: str


def day_range(day: date) -> OutputRange:
    """The UTC day as an output range."""
    day_us = day_of(day) * DAY
    return OutputRange(day_us, day_us + DAY)


def versions_now(lakehouse: Lakehouse, job: Job) -> dict[str, int]:
    """The newest version at which rows changed, of each arrival log that is written, by table."""
    return {name: last_change(log) for name, log in logs_of(lakehouse, job).items()}


def is_replayed(lakehouse: Lakehouse, job: Job, day: date) -> bool:
    """Whether successful replays have written the whole day."""
    return not owned_ranges(_replays(lakehouse, job), day_range(day))[1]


def stale_days(lakehouse: Lakehouse, job: Job) -> list[StaleDay]:
    """The days, oldest first, that were replayed and are stale now.

    A result is stale if the job's fingerprint has changed since its run, if it would look up other reference data, or
    if rows were added to a log or removed from it, after the version that the run read, at arrival times inside the
    read range of the part of the day that the run wrote. If the run was settled, arrivals after the end that the log
    had then do not count. Days that were never replayed are not stale.
    """
    span = _span(lakehouse, job)
    if span is None:
        return []
    runs, job_fingerprint = _replays(lakehouse, job), job.fingerprint
    changed = {name: LogChanges(log) for name, log in logs_of(lakehouse, job).items()}
    found: dict[date, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    logs: LogReads | None = None
    for one in owned_ranges(runs, span)[0]:
        fingerprint = one.run["job_fingerprint"]
        if fingerprint != job_fingerprint:
            why = f"the job file changed: fingerprint {fingerprint[:12]} then, {job_fingerprint[:12]} now"
            for day, _ in _days(one, span):
                found[day][one.run_id].append(why)
            continue
        references = _new_references(lakehouse, job, one) if job.references else []
        for day, part in _days(one, span) if references else ():
            found_references = [reference.what for reference in references if reference.touches(part)]
            if found_references:
                found[day][one.run_id] += found_references
        settled_us = from_datetime(one.run["end_of_log"]) if one.run["settled"] else None
        changes = [change for _, change in changes_since_run(changed, one.run, settled_us)]
        if not changes:
            continue
        logs = logs or LogReads(job, lakehouse)
        for day, part in _days(one, span):
            read = logs.that_matter(part)
            ends_us = [us for us in (read.to_us, settled_us) if us is not None]
            touching = [change for change in changes if change.touches(read.from_us, min(ends_us, default=None))]
            if touching:
                found[day][one.run_id] += _sentences(touching)
    return [StaleDay(day, tuple(by_run), _first_reasons(by_run)) for day, by_run in sorted(found.items())]


def _first_reasons(by_run: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(why for reasons in by_run.values() for why in reasons))[:SAMPLE_REASONS]


def newest_settled_day(lakehouse: Lakehouse, job: Job) -> Settled:
    """The newest UTC day that no later arrival of a living partition can change.

    Inside a partition arrival times never fall, so the log is complete up to the last arrival of the slowest partition,
    or up to the time until which its source is known to have been silent: the plan's own rule decides whether the log
    up to there settles a day. A partition without an arrival in the last :data:`ALIVE_US` of its log is not waited for;
    if it delays a watermark, it still does.
    """
    slowest: tuple[int, str] | None = None
    for part in job.logs:
        ends_us = _complete_partitions(lakehouse, part)
        if not ends_us:
            return Settled(None, f"the log of {part.name} is empty")
        place, end_us = min(ends_us.items(), key=lambda item: item[1])
        if slowest is None or end_us < slowest[0]:
            slowest = (end_us, f"{part.name}/{place}")
    assert slowest is not None, "a job has an input"
    reason = f"the log has all of the slowest partition, {slowest[1]}, up to {format_instant(slowest[0])}"
    extent = _extent(lakehouse, job)
    assert extent is not None, "a living partition has an arrival"
    # a plan knows the log's end to the millisecond only, and both must agree
    complete_us = slowest[0] // MILLISECOND * MILLISECOND
    logs = LogReads(job, lakehouse, complete_us=complete_us)
    last_us = complete_us // DAY * DAY
    midnights_us = range(last_us, extent[0] - (reach_of(job).after_us or 0), -DAY)
    newest = bisect_left(midnights_us, True, key=lambda to_us: logs.unsettled(to_us) is None)
    if newest == len(midnights_us):
        why = logs.unsettled(midnights_us[-1] if midnights_us else last_us)
        return Settled(None, f"no day is settled: {why or reason}")
    return Settled(to_datetime(midnights_us[newest] - DAY).date(), reason)


def _complete_partitions(lakehouse: Lakehouse, part: Input) -> dict[int | None, int]:
    """Until when the log has all of each living partition: to its last arrival, or as far as the source was silent."""
    log, ends_us = lakehouse.open(arrivals_table(part.name)), living_partitions(lakehouse, part.name)
    silent_us = complete_until(part, log) if log is not None else {}
    return {place: max(us, us if place is None else silent_us.get(place, us)) for place, us in ends_us.items()}


def living_partitions(lakehouse: Lakehouse, input_name: str) -> dict[int | None, int]:
    """The last arrival, in microseconds, of each input partition with arrivals in the last day of the log.

    Reads two columns of that day's files. None is the partition of punctuations that apply to all partitions.
    """
    log = lakehouse.open(arrivals_table(input_name))
    ends_us = [file.last_us for file in log_files(log) if file.last_us is not None] if log is not None else []
    if log is None or not ends_us:
        return {}
    # the end of a file is rounded up to the millisecond, so the last arrival is at most that much earlier
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


@dataclass(frozen=True, slots=True)
class _NewReference:
    """Reference data that is not what a run read; ``then`` and ``now`` are its snapshots, none if it is static."""

    what: str
    lookup: Lookup | None
    then: tuple[int, ...]
    now: tuple[int, ...]

    def touches(self, part: OutputRange) -> bool:
        """Whether rows of ``part`` look up anything else now."""
        if self.lookup is None:
            return True
        times = self.lookup.times(part)
        return snapshots_read(times, self.then) != snapshots_read(times, self.now)


def _new_references(lakehouse: Lakehouse, job: Job, one: OwnedRange) -> list[_NewReference]:
    found = []
    by_name = {lookup.reference: lookup for lookup in lookups(job)}
    for reference in job.references:
        name = references_table(reference.name)
        table, version = lakehouse.open(name), one.run["versions_read"].get(name)
        if table is None or version is None or table.version() == version:
            continue
        if reference.effective is None and _is_as_before(lakehouse, reference, version):
            continue
        what = f"reference data {reference.name} was at version {version}, and is at {table.version()} now"
        lookup = by_name.get(reference.name)
        then, now = (
            () if lookup is None else tuple(open_reference(lakehouse, reference, number).snapshots)
            for number in (version, None)
        )
        found.append(_NewReference(what, lookup, then, now))
    return found


def _is_as_before(lakehouse: Lakehouse, reference: Reference, version: int) -> bool:
    """Whether a static set has the rows again that it had at ``version``, in the same order."""
    then, now = (static_rows(lakehouse, reference, number) for number in (version, None))
    return then is not None and now is not None and then.equals(now)


def _sentences(changes: Sequence[Change]) -> list[str]:
    by_kind: dict[str, list[Change]] = defaultdict(list)
    for change in changes:
        by_kind[change.what].append(change)
    return [_sentence(what, alike) for what, alike in by_kind.items()]


def _sentence(what: str, changes: Sequence[Change]) -> str:
    firsts = [change.first_us for change in changes if change.first_us is not None]
    lasts = [change.last_us for change in changes if change.last_us is not None]
    if len(firsts) < len(changes) or len(lasts) < len(changes):
        return f"arrivals {what}"
    last_us = max(lasts) // 1000 * 1000
    return f"arrivals of {format_instant(min(firsts))} to {format_instant(last_us)} {what}"


def _days(one: OwnedRange, span: OutputRange) -> list[tuple[date, OutputRange]]:
    """The days that a run wrote last, each with the part of it that this run wrote."""
    return [day for part in inside(one.parts, span) for day in days_of(part)]


def _span(lakehouse: Lakehouse, job: Job) -> OutputRange | None:
    """Whole days that contain every result the logs can give; None if there is no arrival."""
    extent = _extent(lakehouse, job)
    if extent is None:
        return None
    first_us, last_us = extent
    late_us = reach_of(job).after_us
    before_us = DAY if late_us is None else late_us
    after_us = job_extent(job).back_us or DAY
    return OutputRange((first_us - before_us) // DAY * DAY, ((last_us + after_us) // DAY + 1) * DAY)


def _extent(lakehouse: Lakehouse, job: Job) -> tuple[int, int] | None:
    """The first and the last arrival in any log of the job, in microseconds; None if there is no arrival."""
    files = [file for log in logs_of(lakehouse, job).values() for file in log_files(log)]
    firsts = [file.first_us for file in files if file.first_us is not None]
    lasts = [file.last_us for file in files if file.last_us is not None]
    return (min(firsts), max(lasts)) if firsts and lasts else None


def summary(stale: Sequence[StaleDay]) -> Mapping[str, list[str]]:
    """Reasons by day, JSON-ready."""
    return {day.day.isoformat(): list(day.why) for day in stale}
