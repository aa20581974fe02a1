"""Outputs of steps compared with the live run's: rows with a key one by one, rows without one as multisets (Q94).

A cause is named where the rows show it, or where recomputing the range proves it: with the logs and the job file as
they are now, or with the reference data that the live run read. All else is unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch import engine
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse import runs
from pipelines.lakehouse.layout import OutputTable, references_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.causes import duplicate_emission, floating_point_only
from pipelines.reconcile.causes.cause import UNEXPLAINED, Cause
from pipelines.reconcile.compare import (
    DUPLICATED_IN_STREAM,
    EQUAL,
    MISSING_IN_REPLAY,
    MISSING_IN_STREAM,
    Shape,
    compare,
)
from pipelines.reconcile.live_table import EMITTED_AT
from pipelines.replay.builder import make_plan
from pipelines.replay.collect import output_frames
from pipelines.replay.read import read_arrivals, read_references

_OURS = "__ours"
_TWICE = Cause("duplicate_emission", "The live run wrote this row more often than the replay.")


@dataclass(frozen=True)
class Sides:
    """Both sides of one output over a range, in the same columns; the live run's have EMITTED_AT as well.

    ``keys`` is empty where nothing identifies a row.
    """

    job: Job
    one: OutputTable
    output: OutputRange
    replay: DataFrame
    live: DataFrame
    keys: tuple[str, ...]
    values: tuple[str, ...]

    def compared(self, replay: DataFrame | None = None) -> DataFrame:
        """A row for each key, or each different row: its status, and an ``id`` that names it."""
        ours = self.replay if replay is None else replay.select(*self.keys, *self.values)
        if self.keys:
            return compare(ours, self.live, Shape(self.keys, self.values))
        return multiset(ours, self.live, self.values)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table of differences, without its day."""
        about = ("status", "cause")
        if self.keys:
            return (*self.keys, *about, "replay", "stream", "copies", EMITTED_AT, "evidence")
        return (*self.values, *about, "copies_in_replay", "copies", EMITTED_AT, "evidence")


def with_causes(
    sides: Sides, compared: DataFrame, spark: SparkSession, lakehouse: Lakehouse, persisted: ExitStack
) -> DataFrame:
    """The differing rows with ``cause`` and ``evidence``."""
    differing = compared.filter(F.col("status") != EQUAL)
    rows = differing.withColumns({"__cause": F.lit(None).cast("string"), "__evidence": F.lit(None).cast("string")})
    for cause, recomputed in _alternatives(sides, spark, lakehouse):
        again = sides.compared(recomputed).filter(F.col("status") != EQUAL).select("id", F.lit(True).alias("__still"))
        proved = F.col("__still").isNull() & F.col("__cause").isNull()
        rows = rows.join(again, "id", "left").withColumns(
            {
                "__cause": F.when(proved, cause.name).otherwise(F.col("__cause")),
                "__evidence": F.when(proved, cause.evidence).otherwise(F.col("__evidence")),
            }
        )
        rows = rows.drop("__still")
    why = f"'tailrace why JOB --output {sides.one.output} --at T' lists the events that it may be made of"
    unexplained = Cause(UNEXPLAINED, f"Nothing that was tried gives the live run's row; {why}.")
    name = F.coalesce("__cause", F.lit(unexplained.name))
    evidence = F.coalesce("__evidence", F.lit(unexplained.evidence))
    for condition, cause_name, details in reversed(_shown(sides)):
        name, evidence = F.when(condition, cause_name).otherwise(name), F.when(condition, details).otherwise(evidence)
    found = rows.withColumns({"cause": name, "evidence": evidence}).persist()
    persisted.callback(found.unpersist)
    return found


def _shown(sides: Sides) -> list[tuple[Column, str, Column]]:
    """(condition, cause, evidence) of what the rows themselves show."""
    if not sides.keys:
        return [(F.col("status") == DUPLICATED_IN_STREAM, _TWICE.name, F.lit(_TWICE.evidence))]
    rounding = floating_point_only.CAUSE
    return [
        (duplicate_emission.is_duplicate(), "duplicate_emission", duplicate_emission.evidence()),
        (floating_point_only.is_rounding(), rounding.name, F.lit(rounding.evidence)),
    ]


def _alternatives(sides: Sides, spark: SparkSession, lakehouse: Lakehouse) -> Iterator[tuple[Cause, DataFrame]]:
    """What else the replay might have read, each with the rows that it then gives."""
    ledger = runs.runs_of(lakehouse, sides.job.name)
    replay = runs.last_succeeded(lakehouse, sides.job.name)
    now = make_plan(sides.job, sides.output, lakehouse)
    read = {} if replay is None else dict(replay["versions_read"] or {})
    if replay is None or replay["job_fingerprint"] != sides.job.fingerprint or read != now.versions:
        why = "The logs, the reference data and the job file as they are now give the live run's row: replay again."
        yield Cause("replay_out_of_date", why), _recomputed(sides, spark, lakehouse, {})
    live = next((run for run in reversed(ledger) if run["kind"] == "stream"), None)
    theirs = {} if live is None else dict(live["versions_read"] or {})
    others = {
        one.name: theirs[references_table(one.name)]
        for one in sides.job.references
        if theirs.get(references_table(one.name), now.versions.get(references_table(one.name)))
        != now.versions.get(references_table(one.name))
    }
    if others:
        why = "Recomputed with the reference data that the live run read, the row is the live run's."
        yield Cause("other_reference_data", why, {"versions": others}), _recomputed(sides, spark, lakehouse, others)


def _recomputed(sides: Sides, spark: SparkSession, lakehouse: Lakehouse, versions: Mapping[str, int]) -> DataFrame:
    """The output over the range, with reference data at other versions."""
    plan = make_plan(sides.job, sides.output, lakehouse, as_of=versions or None)
    arrivals = read_arrivals(spark, sides.job, plan, lakehouse)
    references = read_references(spark, sides.job, plan, lakehouse)
    result = engine.run_steps(
        sides.job, arrivals, references, plan.output, plan.initial_states, plan.sorting, wanted=[sides.one.output]
    )
    return output_frames(sides.job, result)[sides.one.table]


def multiset(replay: DataFrame, live: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    """How often each different row is on each side. Nulls are equal, NaN equals NaN, and zero negative zero."""
    ours = replay.select(*columns, F.lit(None).cast("timestamp").alias(EMITTED_AT), F.lit(True).alias(_OURS))
    theirs = live.select(*columns, EMITTED_AT, F.lit(False).alias(_OURS))
    both = ours.unionByName(theirs)
    text = F.to_json(F.struct(*columns), {"ignoreNullFields": "false"})
    maps = [field.name for field in replay.select(*columns).schema if "map<" in field.dataType.simpleString()]
    by = [name for name in columns if name not in maps]
    # a map cannot be grouped by, but its entries in order can
    keys = [F.to_json(F.array_sort(F.map_entries(name))).alias(f"__{name}") for name in maps]
    groups = both.groupBy(*by, *keys).agg(
        F.count_if(F.col(_OURS)).cast("int").alias("copies_in_replay"),
        F.count_if(~F.col(_OURS)).cast("int").alias("copies"),
        F.min(EMITTED_AT).alias(EMITTED_AT),
        *(F.first(name).alias(name) for name in maps),
    )
    status = (
        F.when(F.col("copies_in_replay") == F.col("copies"), EQUAL)
        .when(F.col("copies_in_replay") == 0, MISSING_IN_REPLAY)
        .when(F.col("copies") > F.col("copies_in_replay"), DUPLICATED_IN_STREAM)
        .otherwise(MISSING_IN_STREAM)
    )
    return groups.select(*columns, "copies_in_replay", "copies", EMITTED_AT, status.alias("status"), text.alias("id"))
