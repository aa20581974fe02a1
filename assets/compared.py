"""``<job>/reconciliation`` and ``<job>/report``: the replay beside the live run, and what is to be said of a range."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import date
from typing import Any

import dagster as dg

from assets.checks import evaluated
from assets.errors import told
from assets.keys import (
    SPARK_POOL,
    reconciliation_key,
    report_key,
    stream_windows_key,
    verdicts_key,
    windows_key,
)
from assets.ranges import checked_range, days_in, range_of
from pipelines.core.model import Job, OutputRange
from pipelines.core.plan import instant_or_none
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import rows_of
from pipelines.quality.stream_days import is_streamed
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource


def reconciliation_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/reconciliation``, partitioned by output day."""

    @dg.asset(
        key=reconciliation_key(job.name),
        deps=[windows_key(job.name), stream_windows_key(job.name)],
        group_name=job.name,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=SPARK_POOL,
        kinds={"spark", "delta"},
        code_version=job.fingerprint,
        description=(
            f"Every window result that differs between the replay and the live run's `{job.stream_windows}`, with its"
            f" cause. Table `reconciliations/{job.name}`. Without a live run it says so."
        ),
        metadata={"table": f"reconciliations/{job.name}", "against": job.stream_windows},
    )
    def reconciliation(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        from pipelines.reconcile.run import reconcile

        output = range_of(context)
        with told():
            if not is_streamed(lakehouse.house, job):
                context.log.warning(f"{job.stream_windows} was never written: there is nothing to compare with")
                return dg.MaterializeResult(metadata={"compared": False})
            result = reconcile(job, output, lakehouse.house, spark=spark.session(), progress=context.log.info)
            by_day = _by_day(lakehouse.house, job, output)
        for sentence in (*result.notes, *result.story):
            context.log.info(sentence)
        for partition, _ in days_in(output):
            differing = by_day[date.fromisoformat(partition)]
            about = {"differing": sum(differing.values()), "causes": dg.MetadataValue.json(dict(differing))}
            context.add_asset_metadata(about, partition_key=partition)
        return dg.MaterializeResult(
            metadata={
                "compared": True,
                "run_equal": result.equal,
                "run_differing": result.differing,
                "run_by_status": dg.MetadataValue.json(result.by_status),
                "run_by_cause": dg.MetadataValue.json(result.by_cause),
                "run_first_difference": " ".join(result.story),
                "versions_read": dg.MetadataValue.json(result.versions_read),
            }
        )

    return reconciliation


def matches_stream_check(job: Job) -> dg.AssetChecksDefinition:
    """``matches_stream``: no true difference; what is downstream of the reconciliation waits for it."""

    @dg.asset_check(
        asset=reconciliation_key(job.name),
        name="matches_stream",
        blocking=True,
        pool=SPARK_POOL,
        description=(
            "The replay gives what the live run wrote, but for the rounding of doubles. If it does not, nothing"
            " downstream is made: `tailrace report` and `tailrace why` tell the differences meanwhile. A warning, which"
            " blocks nothing, where there is no live run to compare with."
        ),
    )
    def matches_stream(context: dg.AssetCheckExecutionContext, lakehouse: LakehouseResource) -> dg.AssetCheckResult:
        from pipelines.quality.expectations import check_matches_stream

        with told():
            streamed = is_streamed(lakehouse.house, job)
            output = checked_range(context.run.tags)
            result = check_matches_stream(lakehouse.house, job, output) if streamed else None
        if result is None:
            missing = "nothing was reconciled yet" if streamed else f"{job.stream_windows} was never written"
            return dg.AssetCheckResult(
                passed=False, severity=dg.AssetCheckSeverity.WARN, description=f"{missing}: nothing was compared"
            )
        return evaluated(result)

    return matches_stream


def report_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/report``, partitioned by output day; one page for the days of a run."""

    @dg.asset(
        key=report_key(job.name),
        deps=[reconciliation_key(job.name), windows_key(job.name), verdicts_key(job.name)],
        group_name=job.name,
        partitions_def=partitions,
        backfill_policy=dg.BackfillPolicy.single_run(),
        pool=SPARK_POOL,
        kinds={"html"},
        code_version=job.fingerprint,
        description=(
            "The data-quality report of the run's days, one HTML page that needs nothing else, under"
            f" `reports/{job.name}` in the lakehouse. Not made where `matches_stream` fails."
        ),
    )
    def report(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        from pipelines.report.write import write_report

        output = range_of(context)
        with told():
            spark.session()
            written = write_report(job, lakehouse.house, output, progress=context.log.info)
        place = dg.MetadataValue.url(written.place) if "://" in written.place else dg.MetadataValue.path(written.place)
        return dg.MaterializeResult(
            metadata={
                "report": place,
                "state": written.state,
                "verdict": written.verdict,
                "failed_checks": dg.MetadataValue.json([one.name for one in written.checks if not one.passed]),
                "output": dg.MetadataValue.json(
                    {"from": instant_or_none(output.from_us), "to": instant_or_none(output.to_us)}
                ),
            }
        )

    return report


def _by_day(house: Lakehouse, job: Job, output: OutputRange) -> Mapping[date, Counter[str]]:
    """Differences by output day and cause."""
    rows = rows_of(job, "reconciliations", house, output)
    found: dict[date, Counter[str]] = defaultdict(Counter)
    wanted: list[dict[str, Any]] = [] if rows is None else rows.select(["output_date", "cause"]).to_pylist()
    for row in wanted:
        found[row["output_date"]][row["cause"]] += 1
    return found
