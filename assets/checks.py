"""Checks that hold tables to their contracts, and a replay to what it gave."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from assets.errors import told
from assets.keys import SPARK_POOL, arrivals_key, output_key, output_keys
from assets.ranges import checked_range
from pipelines.core.errors import UsageError
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import WINDOWS, OutputTable
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.checks import SAMPLE, CheckResult
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Check = Callable[["SparkSession", Lakehouse, Job, OutputRange], CheckResult]


def arrival_contract_check(job: Job) -> dg.AssetChecksDefinition:
    """``arrival_contract``: pandera holds the logs to what the job file promises of them."""
    return _check(
        job,
        arrivals_key(job.name),
        "arrival_contract",
        "Columns, types, nulls and ranges of the arrival logs are what the job file says: held by pandera over the"
        " run's days; over the whole log when executed on its own.",
        _arrival_contract,
    )


def output_contract_check(job: Job, one: OutputTable) -> dg.AssetChecksDefinition:
    """``window_contract``, of other outputs ``output_contract``: Great Expectations checks what the results promise."""
    return _check(
        job,
        output_key(job, one),
        "window_contract" if one.layout is WINDOWS else "output_contract",
        "Columns, keys, bounds and counts of the results are what they promise: checked by Great Expectations over the"
        " run's days, and row by row on Spark by pandera where there are too many rows for it.",
        partial(_output_contract, one),
    )


def reproducible_check(job: Job) -> dg.AssetChecksDefinition:
    """``reproducible``: the replay, run again into nothing, gives the same fingerprint."""
    return _check(
        job,
        output_keys(job)[0],
        "reproducible",
        "The replay of the run's days, run again into nothing at the versions of the logs it read, gives the same"
        " fingerprint, and the table holds it. Executed on its own: the newest replay. As costly as the replay.",
        _reproducible,
    )


def evaluated(result: CheckResult) -> dg.AssetCheckResult:
    """A check's result as Dagster shows it: how many rows failed, and the first of them."""
    metadata: dict[str, dg.MetadataValue] = {"failed_rows": dg.MetadataValue.int(result.failed_rows)}
    if result.sample:
        # a column that says nothing of any row only makes the others narrow
        names = list(dict.fromkeys(name for row in result.sample for name, value in row.items() if value is not None))
        records = [dg.TableRecord({name: _text(row.get(name)) for name in names}) for row in result.sample]
        metadata["rows"] = dg.MetadataValue.table(records)
    return dg.AssetCheckResult(passed=result.passed, metadata=metadata, description=result.description)


def _check(job: Job, asset: dg.AssetKey, name: str, description: str, check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=asset, name=name, description=description, pool=SPARK_POOL)
    def holds(
        context: dg.AssetCheckExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.AssetCheckResult:
        with told():
            return evaluated(check(spark.session(), lakehouse.lakehouse, job, checked_range(context.run.tags)))

    return holds


def _arrival_contract(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.contracts import check_arrivals

    results = [check_arrivals(spark, lakehouse, part, output) for part in job.logs]
    return together(results)


def _output_contract(
    one: OutputTable, spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange
) -> CheckResult:
    from pipelines.quality.expectations import check_results
    from pipelines.quality.outputs import check_output

    try:
        result = check_results(lakehouse, job, one, output)
    except UsageError:
        # more rows than Great Expectations takes
        result = check_output(spark, lakehouse, job, one, output)
    if result is None:
        return CheckResult("output_contract", False, False, 0, (), f"{one.table} is not written yet")
    return result


def _reproducible(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.reproducible import check_reproducible

    return check_reproducible(spark, lakehouse, job, output)


def together(results: Sequence[CheckResult]) -> CheckResult:
    """The results of several tables as one: the failures' sentences, or else all."""
    failed = [result for result in results if not result.passed]
    return replace(
        results[0],
        passed=not failed,
        failed_rows=sum(result.failed_rows for result in results),
        sample=tuple(row for result in results for row in result.sample)[:SAMPLE],
        description="; ".join(result.description for result in failed or results),
    )


def _text(value: object) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
