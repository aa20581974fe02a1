"""What a replay wrote, day by day: a run over a year must be able to say what became of each of its days."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING

from pipelines.core.model import REASONS, Job
from pipelines.core.time import DAY, to_datetime
from pipelines.lakehouse.layout import ARRIVALS, output_tables, verdicts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.replay.fingerprint import Counted


@dataclass
class WrittenDay:
    """One UTC day of the output range: results of that day, fates of the events that arrived in it.

    ``results``: by table of an output its rows, and the fingerprint that a replay of this day alone would have.
    ``counts_by_verdict`` holds every event: those that are no rows of ``verdicts`` were accepted.
    """

    results: dict[str, Counted]
    events: int = 0
    verdict_rows: int = 0
    counts_by_verdict: Counter[str] = field(default_factory=Counter)
    counts_by_reason: Counter[str] = field(default_factory=Counter)


def written_days(spark: SparkSession, lakehouse: Lakehouse, job: Job, plan: Plan) -> dict[date, WrittenDay]:
    """What the executed ``plan`` left in the tables, by day.

    Every day that a range with two ends touches has an entry; of an open range the days that hold anything.
    """
    from pyspark.sql import functions as F

    from pipelines.replay.fingerprint import NO_ROWS, fingerprints_by

    outputs = output_tables(job)
    nothing = {one.table: NO_ROWS for one in outputs}
    days: dict[date, WrittenDay] = defaultdict(lambda: WrittenDay(dict(nothing)))
    if plan.output.from_us is not None and plan.output.to_us is not None:
        for day_us in range(plan.output.from_us // DAY * DAY, plan.output.to_us, DAY):
            days[to_datetime(day_us).date()]

    def within(table: str, condition: str | None, version: int | None = None) -> DataFrame:
        reader = spark.read.format("delta")
        rows = (reader if version is None else reader.option("versionAsOf", version)).load(lakehouse.uri(table))
        return rows if condition is None else rows.filter(condition)

    for one in outputs:
        rows = within(one.table, one.layout.condition(plan.output))
        for day, counted in fingerprints_by(rows, one.layout.day).items():
            days[day].results[one.table] = counted
    for table in plan.reads:
        arrived = within(table.table, ARRIVALS.condition(plan.output), table.version).filter("kind = 'event'")
        for row in arrived.groupBy(ARRIVALS.day).agg(F.count(F.lit(1)).alias("events")).collect():
            days[row[ARRIVALS.day]].events += row["events"]
    verdicts = within(verdicts_table(job), ARRIVALS.condition(plan.output))
    for row in verdicts.groupBy(ARRIVALS.day, "verdict", "reasons").agg(F.count(F.lit(1)).alias("rows")).collect():
        found = days[row[ARRIVALS.day]]
        found.verdict_rows += row["rows"]
        found.counts_by_verdict[row["verdict"]] += row["rows"]
        found.counts_by_reason.update({reason: row["rows"] for reason in REASONS if reason in row["reasons"]})
    for found in days.values():
        found.counts_by_verdict["accepted"] += found.events - found.verdict_rows
    return dict(days)
