"""The asset checks of a job that run on Spark, each a check of :mod:`pipelines.quality` over the days of a run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import dagster as dg

from assets.errors import as_failure
from assets.keys import SPARK_POOL, arrivals_key, verdicts_key, windows_key
from assets.ranges import checked_range
from pipelines.core.errors import UsageError
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import windows_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import SAMPLE_ROWS, CheckResult
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Check = Callable[["SparkSession", Lakehouse, Job, OutputRange], CheckResult]


def spark_checks(job: Job) -> list[dg.AssetChecksDefinition]:
    """``arrival_order``, ``arrival_contract``, ``conservation``, ``window_contract`` and ``reproducible``."""
    return [
        _check(
            arrivals_key(job.name),
            "arrival_order",
            "Inside each input partition sequence rises and arrival_time never falls: over the run's days and against"
            " all days before; over the whole log when executed on its own. A replay of a log that is out of order is a"
            " replay of another log.",
            job,
            _arrival_order,
        ),
        _check(
            arrivals_key(job.name),
            "arrival_contract",
            "Columns, types, nulls and ranges of the arrival logs are as in the job file: checked by pandera over the"
            " run's days; over the whole log when executed on its own.",
            job,
            _arrival_contract,
        ),
        _check(
            verdicts_key(job.name),
            "conservation",
            "Every event has exactly one verdict: the run ledger counts as many verdicts as the arrival logs have"
            " events, every row of verdicts belongs to an event, none occurs twice and none is missing. Over the run's"
            " days; over all that was replayed when executed on its own. It also fails if arrivals came after the"
            " replay: replay the range again.",
            job,
            _conservation,
        ),
        _check(
            windows_key(job.name),
            "window_contract",
            "Columns, keys, bounds and counts of the windows are as the job file requires: checked by Great"
            " Expectations over the run's days, or by pandera on Spark if there are too many rows.",
            job,
            _window_contract,
        ),
        _check(
            windows_key(job.name),
            "reproducible",
            "The replay of the run's days, run again without writing, at the versions of the logs it read, gives the"
            " same fingerprint, and the table has it. Executed on its own: the newest replay. It costs as much as the"
            " replay.",
            job,
            _reproducible,
        ),
    ]


def evaluated(result: CheckResult) -> dg.AssetCheckResult:
    """A check's result as Dagster shows it: its counts, how many rows failed, and the first of them."""
    metadata: dict[str, dg.MetadataValue] = {name: dg.MetadataValue.int(count) for name, count in result.counts.items()}
    metadata["failed_rows"] = dg.MetadataValue.int(result.failed_rows)
    if result.sample:
        # a column that is empty in every row would only make the others narrow
        names = list(dict.fromkeys(name for row in result.sample for name, value in row.items() if value is not None))
        records = [dg.TableRecord({name: _text(row.get(name)) for name in names}) for row in result.sample]
        metadata["sample"] = dg.MetadataValue.table(records)
    return dg.AssetCheckResult(passed=result.passed, metadata=metadata, description=result.description)


def _check(asset: dg.AssetKey, name: str, description: str, job: Job, check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=asset, name=name, description=description, pool=SPARK_POOL)
    def evaluate(
        context: dg.AssetCheckExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.AssetCheckResult:
        with as_failure():
            return evaluated(check(spark.session(), lakehouse.lakehouse, job, checked_range(context.run.tags)))

    return evaluate


# the libraries of a check take seconds to import, so they are imported when it runs


def _arrival_order(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.arrival_order import check_arrival_order

    return _together([check_arrival_order(spark, lakehouse, part.name, output) for part in job.inputs])


def _arrival_contract(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.contracts import check_arrivals

    return _together([check_arrivals(spark, lakehouse, part, output) for part in job.inputs])


def _conservation(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.conservation import check_conservation

    return check_conservation(spark, lakehouse, job, output)


def _window_contract(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.contracts import check_windows
    from pipelines.quality.expectations import check_window_results

    try:
        result = check_window_results(lakehouse, job, output)
    except UsageError:
        # more rows than Great Expectations takes
        result = check_windows(spark, lakehouse, job, output)
    if result is None:
        return CheckResult("window_contract", False, False, 0, (), f"{windows_table(job)} is not written yet")
    return result


def _reproducible(spark: "SparkSession", lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    from pipelines.quality.reproducible import check_reproducible

    return check_reproducible(spark, lakehouse, job, output)


def _together(results: Sequence[CheckResult]) -> CheckResult:
    """The results of several inputs as one, with the descriptions of those that failed, or else of all."""
    failed = [result for result in results if not result.passed]
    counts = Counter[str]()
    for result in results:
        counts.update(result.counts)
    return replace(
        results[0],
        passed=not failed,
        failed_rows=sum(result.failed_rows for result in results),
        sample=tuple(row for result in results for row in result.sample)[:SAMPLE_ROWS],
        description="; ".join(result.description for result in failed or results),
        counts=counts,
    )


def _text(value: object) -> str | int | float | bool | None:
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)
