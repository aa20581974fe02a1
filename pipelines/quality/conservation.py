"""Every event has exactly one fate: the log, the verdicts and the run ledger must tell the same number.

Three sources that were written at different times are compared, so each can give another away: events of
``arrivals`` counted now, rows of ``verdicts`` counted now, and what the ledger says the engine decided then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pipelines.core.intervals import inside, outside
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import format_instant, from_datetime
from pipelines.lakehouse.layout import ARRIVALS, arrivals_table, verdicts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import SUCCEEDED, runs_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMED = 20
"""How many problems of a kind a report names."""
_KEYS = ("input", "input_partition", "sequence")


@dataclass(frozen=True, slots=True)
class Share:
    """A run and the part of the range that no later run wrote over; ``whole``: no later run wrote over any of it.

    ``counts`` are its fates by verdict, ``read`` and ``written`` the versions of the tables that it read and wrote,
    ``rows`` the rows it wrote by table.
    """

    run_id: str
    wrote: OutputRange
    owns: tuple[OutputRange, ...]
    whole: bool
    counts: Mapping[str, int]
    read: Mapping[str, int]
    written: Mapping[str, int]
    rows: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Conservation:
    """``events`` in the part of the range that was replayed; no ``problems``: each has exactly one fate.

    ``runs`` wrote that part.
    """

    events: int
    verdict_rows: int
    runs: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether every event has exactly one fate."""
        return not self.problems


def conservation(spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange) -> Conservation:
    """Compare log, verdicts and ledger over the arrivals in ``output``.

    A range with an end must have been replayed as a whole; of :data:`EVERYTHING` the parts that were are compared.
    """
    name = verdicts_table(job)
    runs = [run for run in runs_of(lakehouse, job.name) if name in dict(run["versions_written"] or {})]
    owned, gaps = shares(runs, output)
    if not owned:
        return Conservation(0, 0, (), ("no replay has written any of this range",))
    problems = [] if output == EVERYTHING else [f"no replay has written {_told(gap)}" for gap in gaps]
    events = _events(spark, lakehouse, job)
    verdicts = _verdicts(spark, lakehouse, job)
    problems += _whole_problems(job, [share for share in owned if share.whole], events, verdicts)
    for share in owned:
        if not share.whole:
            problems += _partly_problems(spark, lakehouse, job, share, events, verdicts)
    parts = [part for share in owned for part in share.owns]
    mine, theirs = _inside(events, parts), _inside(verdicts, parts)
    problems += _row_problems(job, mine, theirs)
    ids = tuple(share.run_id for share in owned)
    return Conservation(mine.count(), theirs.count(), ids, tuple(problems))


def shares(runs: Sequence[Mapping[str, Any]], output: OutputRange) -> tuple[list[Share], list[OutputRange]]:
    """Which successful run (``runs`` oldest first) wrote which part of ``output`` last; the parts none wrote."""
    free = [EVERYTHING]
    found = []
    for run in reversed(runs):
        if run["status"] != SUCCEEDED:
            continue
        ends = [None if run[name] is None else from_datetime(run[name]) for name in ("output_from", "output_to")]
        wrote = OutputRange(*ends)
        left = inside(free, wrote)
        owns = tuple(inside(left, output))
        if owns:
            names = ("counts_by_verdict", "versions_read", "versions_written", "rows_written")
            found.append(Share(run["run_id"], wrote, owns, left == [wrote], *(dict(run[name] or {}) for name in names)))
        free = outside(free, wrote)
    return found, inside(free, output)


def _whole_problems(job: Job, whole: Sequence[Share], events: DataFrame, verdicts: DataFrame) -> list[str]:
    """Runs that still own all they wrote: what the ledger says against what the tables hold now."""
    table = verdicts_table(job)
    arrived, kept = _counts(events, whole), _counts(verdicts, whole)
    problems = []
    for share in whole:
        problems += _lost(share, arrived[share.run_id])
        if share.rows.get(table, 0) != kept[share.run_id]:
            problems.append(_differs(share, table, share.rows.get(table, 0), kept[share.run_id], share.wrote))
    return problems


def _partly_problems(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, share: Share, events: DataFrame, verdicts: DataFrame
) -> list[str]:
    """A run that was written over in part: its counts against the tables as they were, and those against now."""
    table = verdicts_table(job)
    events_then = _events(spark, lakehouse, job, share.read)
    verdicts_then = _verdicts(spark, lakehouse, job, share.written[table])
    problems = _lost(share, _inside(events_then, [share.wrote]).count())
    for part in share.owns:
        came = _inside(events, [part]).count() - _inside(events_then, [part]).count()
        if came:
            problems.append(f"run {share.run_id} did not see {came} events of {_told(part)}: replay that again")
        then, now = _inside(verdicts_then, [part]).count(), _inside(verdicts, [part]).count()
        if then != now:
            problems.append(_differs(share, table, then, now, part))
    return problems


def _lost(share: Share, events: int) -> list[str]:
    decided = sum(share.counts.values())
    if decided == events:
        return []
    return [
        f"run {share.run_id} decided {decided} fates for {_told(share.wrote)}; the log holds {events} events there:"
        " replay it again if arrivals came since, else events were lost or counted twice"
    ]


def _differs(share: Share, table: str, then: int, now: int, part: OutputRange) -> str:
    return f"run {share.run_id} wrote {then} rows of {table} for {_told(part)}; there are {now} now"


def _row_problems(job: Job, events: DataFrame, verdicts: DataFrame) -> list[str]:
    """Verdicts that stand there twice, that have no event, and, where all are kept, events that have none."""
    keys = list(_KEYS)
    with_time = [*keys, "arrival_time"]
    twice = verdicts.groupBy(keys).count().filter("count > 1")
    orphans = verdicts.join(events, with_time, "left_anti")
    problems = [f"{_name(row)} has {row['count']} verdicts" for row in _first(twice)]
    problems += [f"{_name(row)} has a verdict, but the log has no such event" for row in _first(orphans)]
    if job.keep_verdicts == "all":
        missing = events.join(verdicts.select(keys), keys, "left_anti")
        problems += [f"{_name(row)} has no verdict" for row in _first(missing)]
    return problems


def _events(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, versions: Mapping[str, int] | None = None
) -> DataFrame:
    """Events of all inputs, now or as of ``versions`` by table."""
    from pyspark.sql import functions as F

    frames = []
    for part in job.inputs:
        name = arrivals_table(part.log)
        rows = _table(spark, lakehouse, name, versions[name] if versions is not None else None)
        about = F.lit(part.name).alias("input")
        frames.append(rows.filter("kind = 'event'").select(about, *_KEYS[1:], "arrival_time", ARRIVALS.day))
    return reduce(lambda left, right: left.unionByName(right), frames)


def _verdicts(spark: SparkSession, lakehouse: Lakehouse, job: Job, version: int | None = None) -> DataFrame:
    rows = _table(spark, lakehouse, verdicts_table(job), version)
    return rows.select(*_KEYS, "arrival_time", ARRIVALS.day)


def _table(spark: SparkSession, lakehouse: Lakehouse, name: str, version: int | None) -> DataFrame:
    lakehouse.open(name, version)  # says so in a sentence where the version is gone
    reader = spark.read.format("delta")
    if version is not None:
        reader = reader.option("versionAsOf", version)
    return reader.load(lakehouse.uri(name))


def _inside(rows: DataFrame, parts: Sequence[OutputRange]) -> DataFrame:
    conditions = [ARRIVALS.condition(part) for part in parts]
    if not conditions or None in conditions:
        return rows
    return rows.filter(" OR ".join(f"({condition})" for condition in conditions))


def _counts(rows: DataFrame, owned: Sequence[Share]) -> dict[str, int]:
    """Rows by run, each counted in the range that the run wrote."""
    from pyspark.sql import functions as F

    if not owned:
        return {}
    counts = [
        F.count_if(F.expr(ARRIVALS.condition(share.wrote) or "true")).alias(f"n{index}")
        for index, share in enumerate(owned)
    ]
    row = _inside(rows, [share.wrote for share in owned]).agg(*counts).collect()[0]
    return {share.run_id: row[f"n{index}"] for index, share in enumerate(owned)}


def _first(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.orderBy(*_KEYS).limit(NAMED).collect()]


def _name(row: Mapping[str, Any]) -> str:
    return f"event {row['input']}/{row['input_partition']}/{row['sequence']}"


def _told(part: OutputRange) -> str:
    begin = "the beginning" if part.from_us is None else format_instant(part.from_us)
    end = "the end" if part.to_us is None else format_instant(part.to_us)
    return f"[{begin}, {end})"
