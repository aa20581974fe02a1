"""Every event has exactly one fate: the log, the verdicts and the run ledger must tell the same number.

Three sources that were written at different times are compared, so each can give another away: events of
``arrivals`` counted now, rows of ``verdicts`` counted now, and what the ledger says the engine decided then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import MAX_INSTANT_US, MIN_INSTANT_US, format_instant, from_datetime
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
    """A run and the part of the range that no later run wrote over; ``whole``: no later run wrote over any of it."""

    run_id: str
    wrote: OutputRange
    owns: tuple[OutputRange, ...]
    whole: bool
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Conservation:
    """``events`` in the part of the range that was replayed; no ``problems``: each has exactly one fate.

    ``partly``: those of ``runs`` whose own counts say nothing any more, since a later run wrote over some of their
    range: there, rows alone were compared.
    """

    events: int
    verdict_rows: int
    runs: tuple[str, ...]
    partly: tuple[str, ...]
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
        return Conservation(0, 0, (), (), ("no replay has written any of this range",))
    problems = [] if output == EVERYTHING else [f"no replay has written {_told(gap)}" for gap in gaps]
    events = _events(spark, lakehouse, job)
    verdicts = _verdicts(spark, lakehouse, job)
    problems += _ledger_problems(job, owned, events, verdicts)
    parts = [part for share in owned for part in share.owns]
    mine, theirs = _inside(events, parts), _inside(verdicts, parts)
    problems += _row_problems(job, mine, theirs)
    ids = tuple(share.run_id for share in owned)
    partly = tuple(share.run_id for share in owned if not share.whole)
    return Conservation(mine.count(), theirs.count(), ids, partly, tuple(problems))


def shares(runs: Sequence[Mapping[str, Any]], output: OutputRange) -> tuple[list[Share], list[OutputRange]]:
    """Which successful run (``runs`` oldest first) wrote which part of ``output`` last; the parts none wrote."""
    free = [EVERYTHING]
    found = []
    for run in reversed(runs):
        if run["status"] != SUCCEEDED:
            continue
        ends = [None if run[name] is None else from_datetime(run[name]) for name in ("output_from", "output_to")]
        wrote = OutputRange(*ends)
        left = [part for piece in free if (part := _common(piece, wrote)) is not None]
        owns = tuple(part for piece in left if (part := _common(piece, output)) is not None)
        if owns:
            counts = dict(run["counts_by_verdict"] or {})
            found.append(Share(run["run_id"], wrote, owns, left == [wrote], counts))
        free = [rest for piece in free for rest in _without(piece, wrote)]
    return found, [part for piece in free if (part := _common(piece, output)) is not None]


def _ledger_problems(job: Job, owned: Sequence[Share], events: DataFrame, verdicts: DataFrame) -> list[str]:
    """Each run's own range: events now against fates then, where it still owns all of it."""
    from pyspark.sql import functions as F  # noqa: N812

    problems = []
    whole = [share for share in owned if share.whole]
    arrived = _counts(events, whole)
    kept = _counts(verdicts.filter(F.col("verdict") != "accepted"), whole)
    for share in whole:
        decided, now = sum(share.counts.values()), arrived.get(share.run_id, 0)
        if decided != now:
            problems.append(
                f"run {share.run_id} decided {decided} fates for {_told(share.wrote)}; the log holds {now} events"
                " there: replay it again if arrivals came since, else events were lost or counted twice"
            )
        decided = sum(count for verdict, count in share.counts.items() if verdict != "accepted")
        if decided != kept.get(share.run_id, 0):
            problems.append(
                f"run {share.run_id} decided {decided} exceptions for {_told(share.wrote)};"
                f" table {verdicts_table(job)} holds {kept.get(share.run_id, 0)}"
            )
    return problems


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


def _events(spark: SparkSession, lakehouse: Lakehouse, job: Job) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    frames = [
        spark.read.format("delta")
        .load(lakehouse.uri(arrivals_table(part.name)))
        .filter("kind = 'event'")
        .select(F.lit(part.name).alias("input"), *_KEYS[1:], "arrival_time", ARRIVALS.day)
        for part in job.inputs
    ]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _verdicts(spark: SparkSession, lakehouse: Lakehouse, job: Job) -> DataFrame:
    table = spark.read.format("delta").load(lakehouse.uri(verdicts_table(job)))
    return table.select(*_KEYS, "arrival_time", ARRIVALS.day, "verdict")


def _inside(rows: DataFrame, parts: Sequence[OutputRange]) -> DataFrame:
    conditions = [ARRIVALS.condition(part) for part in parts]
    if not conditions or None in conditions:
        return rows
    return rows.filter(" OR ".join(f"({condition})" for condition in conditions))


def _counts(rows: DataFrame, owned: Sequence[Share]) -> dict[str, int]:
    """Rows by run, each counted in the range that the run wrote."""
    from pyspark.sql import functions as F  # noqa: N812

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


def _bounds(part: OutputRange) -> tuple[int, int]:
    """The range with its open ends closed by instants that no row has or passes."""
    begin = MIN_INSTANT_US if part.from_us is None else part.from_us
    return begin, MAX_INSTANT_US + 1 if part.to_us is None else part.to_us


def _range(begin_us: int, end_us: int) -> OutputRange:
    return OutputRange(None if begin_us <= MIN_INSTANT_US else begin_us, None if end_us > MAX_INSTANT_US else end_us)


def _common(one: OutputRange, other: OutputRange) -> OutputRange | None:
    begin_us = max(_bounds(one)[0], _bounds(other)[0])
    end_us = min(_bounds(one)[1], _bounds(other)[1])
    return _range(begin_us, end_us) if begin_us < end_us else None


def _without(one: OutputRange, other: OutputRange) -> list[OutputRange]:
    begin_us, end_us = _bounds(one)
    cut_begin_us, cut_end_us = _bounds(other)
    pieces = [(begin_us, min(end_us, cut_begin_us)), (max(begin_us, cut_end_us), end_us)]
    return [_range(*piece) for piece in pieces if piece[0] < piece[1]]
