"""Check ``conservation``: every event has exactly one verdict.

Three sources that were written at different times are compared, so an error in one shows in the others: events of
``arrivals`` counted now, rows of ``verdicts`` counted now, and the verdicts that the ledger recorded then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

from pipelines.core.intervals import format_range
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.lakehouse.layout import ARRIVALS, arrivals_table, verdicts_table
from pipelines.lakehouse.owned_ranges import OwnedRange, owned_ranges
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.quality.check_result import SAMPLE_ROWS, CheckResult
from pipelines.quality.table_rows import table_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = ("input", "input_partition", "sequence")


def check_conservation(spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    """Compare log, verdicts and ledger over the arrivals in ``output``.

    A range with an end must have been replayed as a whole; of :data:`EVERYTHING` the parts that were are compared. The
    sample contains at most :data:`SAMPLE_ROWS` problems. Counts ``events`` and ``verdict_rows`` of the replayed part
    and the ``runs`` that wrote it.
    """
    table = verdicts_table(job)
    runs = [run for run in runs_of(lakehouse, job.name) if table in dict(run["versions_written"] or {})]
    owned, gaps = owned_ranges(runs, output)
    if not owned:
        return _result(["no replay has written any of this range"], {"events": 0, "verdict_rows": 0, "runs": 0})
    problems = [] if output == EVERYTHING else [f"no replay has written {format_range(gap)}" for gap in gaps]
    events_at = partial(_events, spark, lakehouse, job)
    verdicts_at = partial(_verdicts, spark, lakehouse, job)
    events, verdicts = events_at(), verdicts_at()
    problems += _whole_problems(table, [one for one in owned if one.whole], events, verdicts)
    for one in owned:
        if not one.whole:
            events_then = events_at(one.run["versions_read"])
            verdicts_then = verdicts_at(one.run["versions_written"][table])
            problems += _partial_problems(table, one, (events_then, events), (verdicts_then, verdicts))
    parts = [part for one in owned for part in one.parts]
    mine, theirs = _inside(events, parts), _inside(verdicts, parts)
    problems += _row_problems(job, mine, theirs)
    return _result(problems, {"events": mine.count(), "verdict_rows": theirs.count(), "runs": len(owned)})


def _result(problems: Sequence[str], counts: Mapping[str, int]) -> CheckResult:
    if not problems:
        text = f"{counts['events']} events have one verdict each; {counts['verdict_rows']} of them are rows of verdicts"
        return CheckResult("conservation", True, True, 0, (), text, counts)
    sample = tuple({"problem": problem} for problem in problems[:SAMPLE_ROWS])
    text = f"{len(problems)} problem(s); the first: {problems[0]}"
    return CheckResult("conservation", False, True, len(problems), sample, text, counts)


def _whole_problems(table: str, whole: Sequence[OwnedRange], events: DataFrame, verdicts: DataFrame) -> list[str]:
    """Runs that still own all they wrote: the ledger against the tables as they are now."""
    arrived, kept = _counts(events, whole), _counts(verdicts, whole)
    problems = []
    for one in whole:
        problems += _event_problems(one, arrived[one.run_id])
        problems += _table_problems(one, table, one.run["rows_written"].get(table, 0), kept[one.run_id], one.written)
    return problems


def _partial_problems(
    table: str, one: OwnedRange, events: tuple[DataFrame, DataFrame], verdicts: tuple[DataFrame, DataFrame]
) -> list[str]:
    """A run that was written over in part: its counts against the tables as they were then, and those against now."""
    events_then, events_now = events
    problems = _event_problems(one, _inside(events_then, [one.written]).count())
    for part in one.parts:
        came = _inside(events_now, [part]).count() - _inside(events_then, [part]).count()
        if came:
            problems.append(f"run {one.run_id} did not see {came} events of {format_range(part)}: replay that again")
        then, now = (_inside(rows, [part]).count() for rows in verdicts)
        problems += _table_problems(one, table, then, now, part)
    return problems


def _event_problems(one: OwnedRange, events: int) -> list[str]:
    decided = sum(one.run["counts_by_verdict"].values())
    if decided == events:
        return []
    return [
        f"run {one.run_id} gave {decided} verdicts for {format_range(one.written)}; the log has {events} events there:"
        " replay it again if arrivals came since, else events were lost or counted twice"
    ]


def _table_problems(one: OwnedRange, table: str, then: int, now: int, part: OutputRange) -> list[str]:
    if then == now:
        return []
    return [f"run {one.run_id} wrote {then} rows of {table} for {format_range(part)}; there are {now} now"]


def _row_problems(job: Job, events: DataFrame, verdicts: DataFrame) -> list[str]:
    """Verdicts that occur twice, verdicts without an event, and, where all are kept, events without a verdict."""
    keys = list(_KEYS)
    twice = verdicts.groupBy(keys).count().filter("count > 1")
    orphans = verdicts.join(events, [*keys, "arrival_time"], "left_anti")
    problems = [f"{_name(row)} has {row['count']} verdicts" for row in _first(twice)]
    problems += [f"{_name(row)} has a verdict, but the log has no such event" for row in _first(orphans)]
    if job.keep_verdicts == "all":
        missing = events.join(verdicts.select(keys), keys, "left_anti")
        problems += [f"{_name(row)} has no verdict" for row in _first(missing)]
    return problems


def _events(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, versions: Mapping[str, int] | None = None
) -> DataFrame:
    """Events of all inputs, now or at ``versions`` by table."""
    from pyspark.sql import functions as F

    frames = []
    for part in job.inputs:
        name = arrivals_table(part.log)
        rows = _at(spark, lakehouse, name, None if versions is None else versions[name]).filter("kind = 'event'")
        frames.append(rows.select(F.lit(part.name).alias("input"), *_KEYS[1:], "arrival_time", ARRIVALS.day))
    return reduce(lambda left, right: left.unionByName(right), frames)


def _verdicts(spark: SparkSession, lakehouse: Lakehouse, job: Job, version: int | None = None) -> DataFrame:
    return _at(spark, lakehouse, verdicts_table(job), version).select(*_KEYS, "arrival_time", ARRIVALS.day)


def _at(spark: SparkSession, lakehouse: Lakehouse, name: str, version: int | None) -> DataFrame:
    lakehouse.open(name, version)  # raises an error of one sentence where the version is gone
    return table_rows(spark, lakehouse, name, version=version)


def _inside(rows: DataFrame, parts: Sequence[OutputRange]) -> DataFrame:
    conditions = [ARRIVALS.condition(part) for part in parts]
    if not conditions or None in conditions:
        return rows
    return rows.filter(" OR ".join(f"({condition})" for condition in conditions))


def _counts(rows: DataFrame, owned: Sequence[OwnedRange]) -> dict[str, int]:
    """Rows by run, each counted in the range that the run wrote."""
    from pyspark.sql import functions as F

    if not owned:
        return {}
    inside = (F.expr(ARRIVALS.condition(one.written) or "true") for one in owned)
    row = _inside(rows, [one.written for one in owned]).agg(*map(F.count_if, inside)).collect()[0]
    return {one.run_id: count for one, count in zip(owned, row, strict=True)}


def _first(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.orderBy(*_KEYS).limit(SAMPLE_ROWS).collect()]


def _name(row: Mapping[str, Any]) -> str:
    return f"event {row['input']}/{row['input_partition']}/{row['sequence']}"
