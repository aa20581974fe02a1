"""Two results of a job compared: rows added, removed and changed, by cause, with totals and the largest changes.

``now`` is the result in question, ``before`` the one that it is compared with: a row that ``now`` alone has is added.
Nothing is written anywhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import DAY, HOUR, format_duration, format_instant
from pipelines.lakehouse.layout import Layout, OutputTable, output_tables, result_tables, row_keys
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.other_run import NOT_REPLAYED, causes_by_range
from pipelines.reconcile.compare import EQUAL, MISSING_IN_REPLAY, MISSING_IN_STREAM, Shape, compare
from pipelines.reconcile.live_table import EMITTED_AT
from pipelines.reconcile.outputs import multiset
from pipelines.reconcile.stored import Stored, stored, stored_now
from pipelines.replay.collect import to_arrow

_STATUSES = ADDED, REMOVED, CHANGED = "added", "removed", "changed"
LARGEST = 10
"""How many of the largest changes are named."""
NO_KEYS = ("status", "cause", "change", "before", "now", "copies_before", "copies_now")
"""The columns of the largest changes that do not identify a row."""
_EVENT = ("input", "input_partition", "sequence", "arrival_time")
_BY_HOUR_UP_TO_DAYS = 2


@dataclass(frozen=True, slots=True)
class TableDifferences:
    """One table of both results.

    ``totals``: of each numeric column its sum in ``before`` and in ``now``, over all rows of the range. ``largest``:
    rows with ``change``, ``before`` and ``now``, the greatest change of a number first. ``by_time``: rows, and rows of
    each status, by UTC day, or by hour of a short range (``step_us``). ``evidence``: a sentence for each cause.
    """

    table: str
    rows: int
    by_status: dict[str, int]
    by_cause: dict[str, int]
    evidence: dict[str, str]
    totals: dict[str, tuple[float | None, float | None]]
    largest: list[dict[str, Any]]
    by_time: list[dict[str, Any]]
    step_us: int

    @property
    def differing(self) -> int:
        """How many keys differ."""
        return sum(self.by_status.values())

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        totals = {name: {"before": before, "now": now} for name, (before, now) in self.totals.items()}
        return {
            "table": self.table,
            "equal": self.rows - self.differing,
            "differing": self.differing,
            "by_status": self.by_status,
            "by_cause": self.by_cause,
            "evidence": self.evidence,
            "totals": totals,
            "largest": self.largest,
            "by_time": self.by_time,
            "step": format_duration(self.step_us),
        }


@dataclass(frozen=True, slots=True)
class Differences:
    """Two results compared over ``output``; the outputs come first in ``tables``."""

    job: str
    now: str
    before: str
    output: OutputRange
    tables: tuple[TableDifferences, ...]

    @property
    def differing(self) -> int:
        """How many rows of all tables differ."""
        return sum(one.differing for one in self.tables)

    @property
    def outputs(self) -> tuple[TableDifferences, ...]:
        """The tables of the outputs, without verdicts and dead letters."""
        return tuple(one for one in self.tables if one.table.startswith(("windows/", "outputs/")))

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "job": self.job,
            "now": self.now,
            "against": self.before,
            "from": None if self.output.from_us is None else format_instant(self.output.from_us),
            "to": None if self.output.to_us is None else format_instant(self.output.to_us),
            "agrees": not self.differing,
            "differing": self.differing,
            "tables": [one.as_dict() for one in self.tables],
        }


def differences(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, now: Stored, before: Stored, output: OutputRange
) -> Differences:
    """Compare both results over the part of ``output`` that both have, in the tables that both can have.

    A table that one of them never wrote is one without rows. Raises :class:`UsageError` if neither has any.
    """
    output = before.within(now.within(output))
    causes = list(causes_by_range(lakehouse, now.owners, before.owners))
    outputs = {one.table: one for one in output_tables(job)}
    names = sorted(dict(result_tables(job)), key=lambda name: name not in outputs)
    names = [name for name in names if name in now.places or name in before.places]
    if before.table is not None:
        names = [before.table]
    if not names:
        raise UsageError(f"there is nothing to compare: job {job.name} has no results", hint="replay it first")
    tables = []
    for name in names:
        layout = dict(result_tables(job))[name]
        ours, theirs = (_frame(spark, lakehouse, one, name, layout, output) for one in (now, before))
        with ExitStack() as persisted:
            tables.append(_Comparison(job, name, layout, outputs.get(name), ours, theirs, causes, persisted).result())
    return Differences(job.name, now.name, before.name, output, tuple(tables))


def changes_of_preview(spark: SparkSession, lakehouse: Lakehouse, job: Job, name: str) -> Differences:
    """What promoting the preview of that name would change in the tables as they are."""
    now = stored(lakehouse, job, f"preview:{name}")
    return differences(spark, lakehouse, job, now, stored_now(lakehouse, job), EVERYTHING)


def _frame(
    spark: SparkSession, lakehouse: Lakehouse, one: Stored, name: str, layout: Layout, output: OutputRange
) -> DataFrame | None:
    if name not in one.places:
        return None
    place, version = one.places[name]
    rows = spark.read.format("delta").option("versionAsOf", version).load(lakehouse.uri(place))
    condition = layout.condition(output)
    return (rows if condition is None else rows.filter(condition)).drop(layout.day)


class _Comparison:
    def __init__(
        self,
        job: Job,
        name: str,
        layout: Layout,
        one: OutputTable | None,
        now: DataFrame | None,
        before: DataFrame | None,
        causes: Sequence[tuple[OutputRange, Cause]],
        persisted: ExitStack,
    ) -> None:
        given = now if now is not None else before
        assert given is not None, name
        self._name, self._layout, self._one, self._causes = name, layout, one, causes
        self._now = given.limit(0) if now is None else now
        self._before = _alike(self._now if before is None else before, self._now)
        if before is None:
            self._before = self._before.limit(0)
        self._keys = self._identity(job)
        self._values = tuple(column for column in self._now.columns if column not in self._keys)
        before_rows = self._before.withColumn(EMITTED_AT, F.lit(None).cast("timestamp"))
        if self._keys:
            compared = compare(self._now, before_rows, Shape(self._keys, self._values))
        else:
            compared = multiset(self._now, before_rows, self._values)
        status = (
            F.when(F.col("status") == EQUAL, EQUAL)
            .when(F.col("status") == MISSING_IN_REPLAY, REMOVED)
            .when((F.col("status") == MISSING_IN_STREAM) & (F.col("copies") == 0), ADDED)
            .otherwise(CHANGED)
        )
        self._compared = compared.withColumns({"status": status, "cause": self._cause()}).persist()
        persisted.callback(self._compared.unpersist)

    def result(self) -> TableDifferences:
        rows = self._compared.groupBy("status", "cause").count().collect()
        by_status, by_cause = Counter[str](), Counter[str]()
        for row in rows:
            by_status[row["status"]] += row["count"]
            by_cause[row["cause"]] += 0 if row["status"] == EQUAL else row["count"]
        count = by_status.total()
        by_cause = +by_cause
        sentences = {cause.name: cause.sentence for _, cause in (*self._causes, (None, NOT_REPLAYED))}
        differs = count > by_status[EQUAL]
        step_us, by_time = self._by_time() if differs else (DAY, [])
        return TableDifferences(
            table=self._name,
            rows=count,
            by_status={name: by_status[name] for name in _STATUSES if by_status[name]},
            by_cause=dict(by_cause.most_common()),
            evidence={name: sentences[name] for name in by_cause},
            totals=self._totals() if self._one is not None else {},
            largest=self._largest() if differs and self._one is not None else [],
            by_time=by_time,
            step_us=step_us,
        )

    def _identity(self, job: Job) -> tuple[str, ...]:
        """The columns that identify a row; none where rows are compared as multisets."""
        if self._one is None:
            return _EVENT if self._name.startswith("verdicts/") else ()
        keys = row_keys(job, self._one)
        return () if keys is None else tuple(dict.fromkeys((*self._times(), *keys)))

    def _times(self) -> tuple[str, ...]:
        return (self._layout.time,) if self._layout.time in self._now.columns else ()

    def _cause(self) -> Column:
        """By the runs that wrote the row's time in both results."""
        cause, time_us = F.lit(NOT_REPLAYED.name), F.unix_micros(self._layout.time)
        for part, one in self._causes:
            first = F.lit(True) if part.from_us is None else time_us >= part.from_us
            last = F.lit(True) if part.to_us is None else time_us < part.to_us
            cause = F.when(first & last, one.name).otherwise(cause)
        return cause

    def _numbers(self) -> list[str]:
        kinds = {field.name: field.dataType for field in self._now.schema}
        return [name for name in self._values if isinstance(kinds[name], T.NumericType)]

    def _totals(self) -> dict[str, tuple[float | None, float | None]]:
        names = self._numbers()
        if not names:
            return {}
        sums = [F.sum(F.col(f"`{name}`").cast("double")).alias(f"c{place}") for place, name in enumerate(names)]
        before, now = (rows.agg(*sums).collect()[0] for rows in (self._before, self._now))
        return {name: (before[place], now[place]) for place, name in enumerate(names)}

    def _largest(self) -> list[dict[str, Any]]:
        """Of rows with a key those with the greatest change of a number; of others those with the most copies more."""
        rows = self._compared.filter(F.col("status") != EQUAL)
        if self._keys:
            changes = [_change(name) for name in self._numbers()]
            change = F.greatest(F.lit(0.0), F.lit(0.0), *changes)
            keys, sides = self._keys, [F.col("stream").alias("before"), F.col("replay").alias("now")]
        else:
            change = F.abs(F.col("copies") - F.col("copies_in_replay")).cast("double")
            sides = [F.col("copies").alias("copies_before"), F.col("copies_in_replay").alias("copies_now")]
            keys = self._values
        first = rows.withColumn("change", change).orderBy(F.desc("change"), "id").limit(LARGEST)
        return plain_rows(to_arrow(first.select(*keys, "status", "cause", *sides, "change")))

    def _by_time(self) -> tuple[int, list[dict[str, Any]]]:
        """Rows, and rows of each status, by day, or by hour where there are few days."""
        time_us = F.unix_micros(self._layout.time)
        counts = [F.count_if(F.col("status") == name).alias(name) for name in _STATUSES]
        for step_us in (DAY, HOUR):
            grouped = self._compared.groupBy(F.floor(time_us / step_us).alias("at"))
            found = grouped.agg(F.count(F.lit(1)).alias("rows"), *counts).collect()
            if len(found) > _BY_HOUR_UP_TO_DAYS:
                break
        rows = [row.asDict() for row in sorted(found, key=lambda row: row["at"])]
        return step_us, [{**row, "at": format_instant(row["at"] * step_us)} for row in rows]


def _alike(before: DataFrame, now: DataFrame) -> DataFrame:
    """``before`` with the columns of ``now``; those that it lacks are null."""
    there = {name.lower(): name for name in before.columns}
    columns = [
        F.col(f"`{there[field.name.lower()]}`").alias(field.name)
        if field.name.lower() in there
        else F.lit(None).cast(field.dataType).alias(field.name)
        for field in now.schema
    ]
    return before.select(*columns)


def _change(name: str) -> Column:
    """By how much a number changes; a row that is not there has zero."""
    sides = [F.coalesce(F.col(side).getField(name).cast("double"), F.lit(0.0)) for side in ("replay", "stream")]
    return F.abs(sides[0] - sides[1])
