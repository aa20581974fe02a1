"""``<job>/windows`` and ``<job>/verdicts``: one replay over the output days of a run."""

from collections.abc import Iterator, Mapping
from datetime import date

import dagster as dg

from assets.errors import told
from assets.keys import SPARK_POOL, WHY_TAG, arrivals_key, verdicts_key, windows_key
from assets.partitions import arrivals_mapping
from assets.plans import sentences
from assets.ranges import checked_range, days_in, range_of
from pipelines.core.model import Job, OutputRange
from pipelines.core.plan import instant_or_none
from pipelines.core.readrange import reach_of, read_range
from pipelines.core.time import SECOND
from pipelines.lakehouse.layout import verdicts_table, windows_table
from pipelines.lakehouse.planning import make_plan
from pipelines.quality.conservation import conservation
from pipelines.quality.days import WrittenDay, written_days
from pipelines.replay import RunSummary, execute
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource


def replayed_assets(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The assets ``<job>/windows`` and ``<job>/verdicts``, partitioned by output day, made by one computation."""
    keys = (windows_key(job.name), verdicts_key(job.name))

    @dg.multi_asset(
        name=f"{job.name}__windows_and_verdicts",
        specs=_specs(job),
        partitions_def=partitions,
        group_name=job.name,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=False,
        pool=SPARK_POOL,
    )
    def windows_and_verdicts(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        output = range_of(context)
        with told():
            plan = make_plan(job, output, lakehouse.house)
            for sentence in sentences(plan):
                context.log.info(sentence)
            lakehouse.house.require_writable()
            summary = execute(
                plan,
                job,
                lakehouse.house,
                spark=spark.session(),
                reason=_reason(context.run),
                progress=context.log.info,
            )
            days = written_days(spark.session(), lakehouse.house, job, plan)
        for key in keys:
            for partition, part in days_in(output):
                about = of_day(job, part, days[date.fromisoformat(partition)], windows=key == keys[0])
                context.add_asset_metadata(about, asset_key=key, partition_key=partition)
            yield dg.MaterializeResult(
                asset_key=key,
                metadata=of_run(summary) | why(context.run),
                data_version=dg.DataVersion(summary.output_fingerprint),
            )

    return windows_and_verdicts


def conservation_check(job: Job) -> dg.AssetChecksDefinition:
    """``conservation``: every event has exactly one fate."""

    @dg.asset_check(
        asset=verdicts_key(job.name),
        name="conservation",
        pool=SPARK_POOL,
        description=(
            "Every event has exactly one fate: as many fates in the run ledger as events in the arrival logs, every"
            " verdict an event's, none twice, none missing. Over the run's days; over all that was replayed when"
            " executed on its own. It fails too where arrivals came after the replay: replay the range again."
        ),
    )
    def conservation_holds(
        context: dg.AssetCheckExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> dg.AssetCheckResult:
        with told():
            found = conservation(spark.session(), lakehouse.house, job, checked_range(context.run.tags))
        return dg.AssetCheckResult(
            passed=found.holds,
            metadata={
                "events": found.events,
                "verdict_rows": found.verdict_rows,
                "runs": list(found.runs),
                "problems": list(found.problems),
            },
            description=found.problems[0] if found.problems else None,
        )

    return conservation_holds


def why(run: dg.DagsterRun) -> dict[str, dg.MetadataValue]:
    """Metadata that says why a sensor or a schedule started the run; empty where a person did."""
    return {"why": dg.MetadataValue.text(run.tags[WHY_TAG])} if WHY_TAG in run.tags else {}


def _reason(run: dg.DagsterRun) -> str:
    told = f"Dagster run {run.run_id}"
    return f"{told}: {run.tags[WHY_TAG]}" if WHY_TAG in run.tags else told


def of_run(summary: RunSummary) -> dict[str, dg.MetadataValue]:
    """Metadata of a whole run, the same on each of its partitions."""
    plan = summary.plan
    return {
        "run_id": dg.MetadataValue.text(summary.run_id),
        "run_output": dg.MetadataValue.json(_ends(plan.output.from_us, plan.output.to_us)),
        "run_read": dg.MetadataValue.json(_ends(plan.read.from_us, plan.read.to_us)),
        "run_counts_by_verdict": dg.MetadataValue.json(summary.counts_by_verdict),
        "run_counts_by_reason": dg.MetadataValue.json(summary.counts_by_reason),
        "run_rows_written": dg.MetadataValue.json(summary.rows_written),
        "run_output_fingerprint": dg.MetadataValue.text(summary.output_fingerprint),
        "run_seconds": dg.MetadataValue.float((summary.finished_us - summary.started_us) / SECOND),
        "versions_read": dg.MetadataValue.json(plan.versions),
        "settled": dg.MetadataValue.bool(plan.settled),
        "unsettled": dg.MetadataValue.text(plan.unsettled or ""),
    }


def of_day(job: Job, part: OutputRange, day: WrittenDay, *, windows: bool) -> dict[str, dg.MetadataValue]:
    """Metadata of one output day: what a replay of this day alone would read and give."""
    read = read_range(job, part)
    counts = {f"events_{verdict}": day.counts_by_verdict[verdict] for verdict in sorted(day.counts_by_verdict)}
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(day.windows if windows else day.verdict_rows),
        "read_from": dg.MetadataValue.text(instant_or_none(read.from_us) or "the log's beginning"),
        "read_to": dg.MetadataValue.text(instant_or_none(read.to_us) or "the log's end"),
        "events": dg.MetadataValue.int(day.events),
        **{name: dg.MetadataValue.int(count) for name, count in counts.items()},
        "counts_by_reason": dg.MetadataValue.json(dict(day.counts_by_reason)),
        "windows": dg.MetadataValue.int(day.windows),
        "output_fingerprint": dg.MetadataValue.text(day.fingerprint),
    }


def _specs(job: Job) -> list[dg.AssetSpec]:
    about: Mapping[dg.AssetKey, tuple[str, str]] = {
        windows_key(job.name): (
            windows_table(job),
            "One row a window result, by the UTC day on which the window ends.",
        ),
        verdicts_key(job.name): (
            verdicts_table(job),
            "What became of each event, and why, by the UTC day of its arrival"
            + (": those that did not simply count." if job.keep_verdicts == "exceptions" else "."),
        ),
    }
    reach = reach_of(job)
    return [
        dg.AssetSpec(
            key=key,
            deps=[dg.AssetDep(arrivals_key(job.name), partition_mapping=arrivals_mapping(job))],
            description=f"{text} Table `{table}`.\n\nReads arrivals {reach.rule}.",
            code_version=job.fingerprint,
            kinds={"spark", "delta"},
            metadata={"table": table, "profile": job.profile, "read_rule": reach.rule},
        )
        for key, (table, text) in about.items()
    ]


def _ends(from_us: int | None, to_us: int | None) -> dict[str, str | None]:
    return {"from": instant_or_none(from_us), "to": instant_or_none(to_us)}
