"""``<job>/preview``, ``<job>/promotion`` and their jobs: what a replay would change, and putting it in place.

A preview whose differences exceed the thresholds blocks a promotion in the same run. A person approves it by promoting.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import dagster as dg

from assets.errors import as_failure
from assets.keys import JOB_TAG, SPARK_POOL, output_keys, preview_key, preview_name, promote_name, promotion_key
from assets.pages import address
from assets.replay_job import RANGE_CONFIG, log_days
from assets.replayed import listed, logged_replay, of_run, of_spark
from pipelines.core.intervals import format_range, parse_range
from pipelines.core.model import Job
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.previews import PREVIEW, find_preview
from pipelines.replay.builder import make_plan
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

if TYPE_CHECKING:
    from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

    from pipelines.reconcile.differences import Differences

CHECK = "small_change"
_NAME = dg.Field(str, default_value=PREVIEW, description="What the preview is called")
_REASON = dg.Field(dg.Noneable(str), default_value=None, description="Why; kept in the run ledger")
_CONFIG = {
    "preview": _NAME,
    **RANGE_CONFIG,
    "reason": _REASON,
    "windows_percent": dg.Field(float, default_value=1.0, description="So many windows of an output may differ, in %"),
    "aggregate_percent": dg.Field(
        float, default_value=5.0, description="By so much the total of an aggregate may change, in %"
    ),
}


def preview_asset(job: Job) -> dg.AssetsDefinition:
    """The asset ``<job>/preview`` with its blocking check ``small_change``."""
    key = preview_key(job.name)

    @dg.asset(
        key=key,
        group_name=_group(job),
        pool=SPARK_POOL,
        kinds={"spark", "delta"},
        code_version=job.fingerprint,
        config_schema=_CONFIG,
        description=(
            f"What a replay of {job.name} over a range would change. The rows are in side tables,"
            f" `previews/{job.name}/<name>`; no table of results changes."
        ),
        check_specs=[
            dg.AssetCheckSpec(
                CHECK,
                asset=key,
                blocking=True,
                description=(
                    "At most `windows_percent` of the windows of an output differ, and the total of no aggregate"
                    " changes by more than `aggregate_percent`. If more changes, `promotion` does not follow in the"
                    f" same run: look at the differences, and approve them with the job `{promote_name(job.name)}`."
                ),
            )
        ],
    )
    def preview(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        from pipelines.reconcile.differences import changes_of_preview
        from pipelines.reconcile.thresholds import Thresholds
        from pipelines.report.preview_page import write_preview

        config = context.op_execution_context.op_config
        with as_failure():
            thresholds = Thresholds(config["windows_percent"], config["aggregate_percent"])
            output = parse_range(config["from"], config["to"])
            summary = logged_replay(context, job, output, lakehouse, spark, config["reason"], config["preview"])
            changes = changes_of_preview(spark.session(), lakehouse.lakehouse, job, config["preview"])
            page = write_preview(changes, job, config["preview"], lakehouse.lakehouse)
        exceeded = thresholds.exceeded(changes)
        result = dg.AssetCheckResult(
            check_name=CHECK,
            passed=not exceeded,
            description="; ".join(exceeded) or "the differences are within the thresholds",
            metadata={"windows_percent": thresholds.windows_percent, "aggregate_percent": thresholds.aggregate_percent},
        )
        about = {"preview": dg.MetadataValue.text(config["preview"]), "report": address(lakehouse.lakehouse, page)}
        about |= _differences(changes) | of_run(summary) | of_spark(spark.session())
        yield dg.MaterializeResult(metadata=about, check_results=[result])

    return preview


def promotion_asset(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/promotion``: a preview put in place; the days that it replaced count as materialised."""

    @dg.asset(
        key=promotion_key(job.name),
        deps=[preview_key(job.name)],
        group_name=_group(job),
        pool=SPARK_POOL,
        kinds={"delta"},
        code_version=job.fingerprint,
        config_schema={"preview": _NAME, "reason": _REASON},
        description=(
            "The newest preview that was put in place of the results, by"
            f" {', '.join(f'`{one.to_user_string()}`' for one in output_keys(job))} and the verdicts. It is refused if"
            " the job file, the arrivals in the read range or the results changed since the preview."
        ),
    )
    def promotion(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.MaterializeResult[None]:
        from pipelines.replay.promote import promote

        config = context.op_execution_context.op_config
        with as_failure():
            output = find_preview(lakehouse.lakehouse, job.name, config["preview"]).output
            row = promote(job, config["preview"], lakehouse.lakehouse, reason=config["reason"], spark=spark.session())
            as_of = {part.name: row["versions_read"][arrivals_table(part.name)] for part in job.logs}
            plan = make_plan(job, output, lakehouse.lakehouse, as_of=as_of)
            about: dict[str, dg.MetadataValue] = {
                "run_id": dg.MetadataValue.text(row["run_id"]),
                "run_output": dg.MetadataValue.text(format_range(output)),
                "run_rows_written": dg.MetadataValue.text(listed(row["rows_written"])),
                "run_output_fingerprint": dg.MetadataValue.text(row["output_fingerprint"]),
                "promoted": dg.MetadataValue.text(config["preview"]),
            }

            def fingerprint_of(table: str) -> str:
                return str(row["fingerprints"].get(table, row["output_fingerprint"]))

            log_days(context, job, plan, fingerprint_of, about, partitions, lakehouse, spark)
        return dg.MaterializeResult(metadata=about)

    return promotion


def preview_job(job: Job) -> "UnresolvedAssetJobDefinition":
    """The job ``<job>_preview``: the preview of a range with its check."""
    return dg.define_asset_job(
        preview_name(job.name),
        selection=dg.AssetSelection.assets(preview_key(job.name)),
        description=f"Computes what a replay of {job.name} would change, and compares it with the thresholds.",
        tags={JOB_TAG: job.name},
        executor_def=dg.in_process_executor,
    )


def promote_job(job: Job) -> "UnresolvedAssetJobDefinition":
    """The job ``<job>_promote``: a person approves a preview, whatever its check found."""
    return dg.define_asset_job(
        promote_name(job.name),
        selection=dg.AssetSelection.assets(promotion_key(job.name)),
        description=f"Puts a preview of {job.name} in place. This approves it, whatever its check found.",
        tags={JOB_TAG: job.name},
        executor_def=dg.in_process_executor,
    )


def _group(job: Job) -> str:
    """A group of its own: *Materialize all* of the job's days makes no preview and promotes none."""
    return f"{job.name}_preview"


def _differences(changes: "Differences") -> dict[str, dg.MetadataValue]:
    """What changes in each table: counts, causes, totals, and the largest changes."""
    about: dict[str, dg.MetadataValue] = {"differing": dg.MetadataValue.int(changes.differing)}
    for one in changes.tables:
        name = one.table.partition("/")[0] if one.table.count("/") == 1 else one.table
        about[f"{name}_differing"] = dg.MetadataValue.int(one.differing)
        about |= {f"{name}_{status}": dg.MetadataValue.int(count) for status, count in one.by_status.items()}
        if one.differing:
            about[f"{name}_by_cause"] = dg.MetadataValue.text(listed(one.by_cause))
        if one.totals:
            totals = [
                dg.TableRecord({"column": column, "before": before, "now": now})
                for column, (before, now) in one.totals.items()
            ]
            about[f"{name}_totals"] = dg.MetadataValue.table(totals)
        if one.largest:
            about[f"{name}_largest"] = dg.MetadataValue.table([dg.TableRecord(_plain(row)) for row in one.largest])
    return about


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value if isinstance(value, str | int | float | None) else str(value) for name, value in row.items()}
