"""Whether a replay gives again what it gave: run once more into nothing, at the versions of the logs it read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import format_instant
from pipelines.lakehouse.layout import OutputTable, arrivals_table, output_tables, references_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import SUCCEEDED, runs_of
from pipelines.quality.checks import CheckResult
from pipelines.quality.conservation import Share, shares
from pipelines.replay.builder import make_plan
from pipelines.replay.summary import together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_reproducible(spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    """``reproducible``: each run that wrote a part of ``output`` last, run again, gives the fingerprint it gave.

    Of :data:`EVERYTHING` the newest run alone is run again. Where no later run wrote over any of a run's results, the
    rows of the tables are held to the same fingerprint. A run of a job file that has changed since cannot be run again:
    that fails, and says so.
    """
    runs = [run for run in runs_of(lakehouse, job.name) if run["kind"] == "replay" and run["status"] == SUCCEEDED]
    owned, _ = shares(runs, output)
    if not owned:
        return _result(["no replay has written any of this range"], 0)
    by_id = {run["run_id"]: run for run in runs}
    chosen = owned[:1] if output == EVERYTHING else owned
    problems = [text for share in chosen for text in _problems(spark, lakehouse, job, share, by_id[share.run_id])]
    return _result(problems, len(chosen))


def _problems(spark: SparkSession, lakehouse: Lakehouse, job: Job, share: Share, run: Mapping[str, Any]) -> list[str]:
    from pipelines.replay.evaluate import recompute

    told = f"run {share.run_id} of {_told(share.wrote)}"
    if run["job_fingerprint"] != job.fingerprint:
        return [f"{told} cannot be run again: the job file has changed since; replay the range"]
    versions = {part.name: share.read[arrivals_table(part.log)] for part in job.inputs}
    tables = {one.name: references_table(one.name) for one in job.references}
    versions |= {name: share.read[table] for name, table in tables.items() if table in share.read}
    gave, problems = run["output_fingerprint"], []
    try:
        again = recompute(make_plan(job, share.wrote, lakehouse, as_of=versions), job, lakehouse, spark)
    except UsageError as error:
        return [f"{told} cannot be run again: {error}"]
    if again != gave:
        problems.append(f"{told} gave {gave}, and now gives {again} from the same arrivals")
    if share.whole:
        held = together({one.table: _held(spark, lakehouse, one, share.wrote) for one in output_tables(job)})
        if held != gave:
            names = ", ".join(one.table for one in output_tables(job))
            problems.append(f"{told} gave {gave}, but {names} holds {held}: it was written past Tailrace")
    return problems


def _held(spark: SparkSession, lakehouse: Lakehouse, one: OutputTable, output: OutputRange) -> str:
    """The fingerprint of the rows that a table has in the range now."""
    from pipelines.replay.fingerprint import fingerprint

    rows = spark.read.format("delta").load(lakehouse.uri(one.table))
    condition = one.layout.condition(output)
    rows = rows if condition is None else rows.filter(condition)
    return fingerprint(rows.drop(one.layout.day)).fingerprint


def _result(problems: list[str], runs: int) -> CheckResult:
    text = "; ".join(problems) or f"{runs} run(s), run again at the versions they read, gave the same fingerprint"
    return CheckResult("reproducible", not problems, False, 0, (), text)


def _told(part: OutputRange) -> str:
    begin = "the beginning" if part.from_us is None else format_instant(part.from_us)
    return f"[{begin}, {'the end' if part.to_us is None else format_instant(part.to_us)})"
