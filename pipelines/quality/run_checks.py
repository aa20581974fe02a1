"""All checks of a job over a range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import OutputTable, arrivals_table, output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.spark_client import require_client
from pipelines.quality.check_result import CheckResult

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEPS = 4
"""How often :func:`run_checks` calls ``progress``."""


def run_checks(
    job: Job, lakehouse: Lakehouse, output: OutputRange, progress: Callable[[str], None] = lambda _: None
) -> tuple[list[CheckResult], list[str]]:
    """Every check of ``job`` over ``output``, and a sentence for each one that was skipped. Starts Spark.

    In order: ``arrival_order`` and ``arrival_contract`` of each log, ``conservation``; of each output
    ``window_schema`` and ``window_contract`` (``output_schema`` and ``output_contract`` if it is one of steps), and
    ``matches_stream``. All are blocking.
    """
    progress("starting Spark")
    from pipelines.quality.conservation import check_conservation
    from pipelines.quality.outputs import check_output
    from pipelines.runtime.session import session

    spark = session()
    require_client(spark, lakehouse)
    results: list[CheckResult] = []
    skipped: list[str] = []
    progress("checking the logs")
    for part in job.logs:
        if lakehouse.open(arrivals_table(part.name)) is None:
            skipped.append(f"The log of {part.name} is not written, so it was not checked.")
        else:
            results += _log_checks(spark, lakehouse, job, part.name, output)
    progress("checking the verdicts")
    tables = output_tables(job)
    written = [one for one in tables if lakehouse.open(one.table) is not None]
    if not written:
        names = ", ".join(one.table for one in tables)
        skipped.append(f"No replay has written {names}, so neither results nor verdicts were checked.")
        return results, skipped
    if not skipped:
        results.append(check_conservation(spark, lakehouse, job, output))
    progress("checking the results")
    for one in written:
        found = [check_output(spark, lakehouse, job, one, output)]
        _run_suites(job, lakehouse, one, output, found, skipped)
        suffix = f": {one.output}" if len(tables) > 1 else ""
        results += [replace(result, name=f"{result.name}{suffix}") for result in found]
    return results, skipped


def _log_checks(
    spark: SparkSession, lakehouse: Lakehouse, job: Job, input_name: str, output: OutputRange
) -> list[CheckResult]:
    from pipelines.quality.arrival_order import check_arrival_order
    from pipelines.quality.contracts import check_arrivals

    results = [
        check_arrival_order(spark, lakehouse, input_name, output),
        check_arrivals(spark, lakehouse, job.input(input_name), output),
    ]
    suffix = f": {input_name}" if len(job.logs) > 1 else ""
    return [replace(result, name=f"{result.name}{suffix}") for result in results]


def _run_suites(
    job: Job,
    lakehouse: Lakehouse,
    one: OutputTable,
    output: OutputRange,
    results: list[CheckResult],
    skipped: list[str],
) -> None:
    from pipelines.quality.expectations import check_matches_stream, check_results

    for check, missing in (
        (check_results, f"No replay has written {one.table}."),
        (
            check_matches_stream,
            f"{one.table} was not reconciled, so whether the results match the live run's was not checked.",
        ),
    ):
        try:
            result = check(lakehouse, job, one, output)
        except TailraceError as error:
            skipped.append(f"{str(error)[:1].upper()}{str(error)[1:]}.")
            continue
        if result is None:
            skipped.append(missing)
        else:
            results.append(result)
