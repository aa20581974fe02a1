"""Check ``reproducible``: a replay that is run again at the versions it read gives the same results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.core.errors import UsageError
from pipelines.core.intervals import format_range
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.lakehouse.layout import OutputTable, arrivals_table, output_tables, references_table
from pipelines.lakehouse.owned_ranges import OwnedRange, owned_ranges
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import SUCCEEDED, runs_of
from pipelines.quality.check_result import CheckResult
from pipelines.quality.table_rows import table_rows
from pipelines.replay.builder import make_plan
from pipelines.replay.summary import together

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def check_reproducible(spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    """Run each run that wrote a part of ``output`` last again, without writing, and compare the fingerprints.

    Of :data:`EVERYTHING` only the newest run is run again. If no later run wrote over any of a run's results, the rows
    of the tables must have the same fingerprint too. A run of an older version of the job file cannot be run again: the
    check fails.
    """
    runs = [run for run in runs_of(lakehouse, job.name) if run["kind"] == "replay" and run["status"] == SUCCEEDED]
    owned, _ = owned_ranges(runs, output)
    if not owned:
        return _result(["no replay has written any of this range"], 0)
    chosen = owned[:1] if output == EVERYTHING else owned
    return _result([problem for one in chosen for problem in _problems(spark, lakehouse, job, one)], len(chosen))


def _problems(spark: SparkSession, lakehouse: Lakehouse, job: Job, one: OwnedRange) -> list[str]:
    from pipelines.replay.evaluate import recompute

    name, read = f"run {one.run_id} of {format_range(one.written)}", one.run["versions_read"]
    if one.run["job_fingerprint"] != job.fingerprint:
        return [f"{name} cannot be run again: the job file has changed since; replay the range"]
    tables = {part.name: arrivals_table(part.log) for part in job.inputs}
    tables |= {reference.name: references_table(reference.name) for reference in job.references}
    versions = {source: read[table] for source, table in tables.items() if table in read}
    try:
        again = recompute(make_plan(job, one.written, lakehouse, as_of=versions), job, lakehouse, spark)
    except UsageError as error:
        return [f"{name} cannot be run again: {error}"]
    gave, problems = one.run["output_fingerprint"], []
    if again != gave:
        problems.append(f"{name} gave {gave}, and now gives {again} from the same arrivals")
    if one.whole:
        outputs = output_tables(job)
        rows = {table.table: _present(spark, lakehouse, table, one.written) for table in outputs}
        present = together(rows | dict(one.run["reference_fingerprints"] or {}))
        if present != gave:
            names = ", ".join(table.table for table in outputs)
            problems.append(f"{name} gave {gave}, but {names} has {present}: something else has changed the table")
    return problems


def _present(spark: SparkSession, lakehouse: Lakehouse, one: OutputTable, output: OutputRange) -> str:
    """The fingerprint of the rows that the table has in the range now."""
    from pipelines.replay.fingerprint import fingerprint

    rows = table_rows(spark, lakehouse, one.table, one.layout.condition(output))
    return fingerprint(rows.drop(one.layout.day)).fingerprint


def _result(problems: list[str], runs: int) -> CheckResult:
    text = "; ".join(problems) or f"{runs} run(s), run again at the versions they read, gave the same fingerprint"
    return CheckResult("reproducible", not problems, False, 0, (), text)
