"""``<job>/verdicts`` and the assets of the job's outputs: one replay over the output days of a run."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, get_args

import dagster as dg

from assets.errors import as_failure
from assets.keys import SPARK_POOL, WHY_TAG, arrivals_key, output_key, verdicts_key
from assets.markdown import escaped
from assets.pages import page_of_report
from assets.partitions import arrivals_mapping
from assets.ranges import days_in, key_of, range_of
from assets.tables import about_table
from pipelines.core.intervals import format_ends, format_range
from pipelines.core.model import REASONS, Job, OutputRange, Verdict
from pipelines.core.time import SECOND, to_datetime
from pipelines.job.describe import describe_policy, describe_read_range
from pipelines.lakehouse.layout import WINDOWS, output_tables, verdicts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.plan.definition import Plan, instant_or_none
from pipelines.plan.read_range import reach_of
from pipelines.plan.stages import describe_plan
from pipelines.quality.days import WrittenDay, written_days
from pipelines.replay.builder import LogReads, settled_by
from pipelines.replay.run import replay
from pipelines.replay.summary import RunSummary, together
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COUNTS = ("counts_by_verdict", "counts_by_reason")


def replayed_assets(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    """The asset ``<job>/verdicts`` and one for each output, partitioned by output day, made by one computation."""

    @dg.multi_asset(
        name=f"{job.name}__replayed",
        specs=_specs(job),
        partitions_def=partitions,
        group_name=job.name,
        backfill_policy=dg.BackfillPolicy.single_run(),
        can_subset=False,
        pool=SPARK_POOL,
    )
    def replayed(
        context: dg.AssetExecutionContext, spark: SparkResource, lakehouse: LakehouseResource
    ) -> Iterator[dg.MaterializeResult[None]]:
        output = range_of(context)
        with as_failure():
            summary = logged_replay(context, job, output, lakehouse, spark, _reason(context.run))
            plan = summary.plan
            logs = LogReads(job, lakehouse.lakehouse, as_of=plan.versions_by_name)
            days = written_days(spark.session(), lakehouse.lakehouse, job, plan)
            names = counted(lakehouse.lakehouse, job)
            about_run = why(context.run) | of_run(summary) | of_spark(spark.session())
        for key, table in tables_of(job).items():
            about = about_table(lakehouse.lakehouse, table, job)
            for partition, part in days_in(output):
                day = days[date.fromisoformat(partition)]
                # also the run's metadata goes to each partition: metadata of the run as a whole would be shown first
                about_day = of_day(logs, plan, part, day, names, table) | about_run | about
                context.add_asset_metadata(about_day, asset_key=key, partition_key=partition)
            yield dg.MaterializeResult(asset_key=key, data_version=dg.DataVersion(summary.fingerprint_of(table)))

    return replayed


def logged_replay(
    context: dg.AssetExecutionContext | dg.OpExecutionContext,
    job: Job,
    output: OutputRange,
    lakehouse: LakehouseResource,
    spark: SparkResource,
    reason: str | None,
    preview: str | None = None,
) -> RunSummary:
    """A replay of ``output``, or a ``preview`` of that name, with its plan, and then each stage, in the run's log."""

    def planned(plan: Plan) -> None:
        for line in describe_plan(plan):
            context.log.info(f"plan: {line}")

    return replay(
        job,
        output,
        lakehouse.lakehouse,
        planned=planned,
        spark=spark.session(),
        reason=reason,
        progress=context.log.info,
        preview=preview,
    )


def why(run: dg.DagsterRun) -> dict[str, dg.MetadataValue]:
    """Why a sensor or a schedule started the run, as metadata; empty if a person started it."""
    return {"why": dg.MetadataValue.text(run.tags[WHY_TAG])} if WHY_TAG in run.tags else {}


def _reason(run: dg.DagsterRun) -> str:
    name = f"Dagster run {run.run_id}"
    return f"{name}: {run.tags[WHY_TAG]}" if WHY_TAG in run.tags else name


def of_run(summary: RunSummary) -> dict[str, dg.MetadataValue]:
    """Metadata of a whole run, the same on each of its partitions."""
    plan = summary.plan
    return {
        "run_id": dg.MetadataValue.text(summary.run_id),
        "run_output": dg.MetadataValue.text(format_range(plan.output)),
        "run_read": dg.MetadataValue.text(f"[{format_ends(plan.read.from_us, plan.read.to_us)}]"),
        "run_read_rule": dg.MetadataValue.text(plan.read.rule),
        "run_read_paths": dg.MetadataValue.text("\n".join(map(str, plan.paths))),
        "run_events": dg.MetadataValue.int(summary.events),
        "run_rows_written": dg.MetadataValue.text(listed(summary.rows_written)),
        "run_output_fingerprint": dg.MetadataValue.text(summary.output_fingerprint),
        "run_seconds": dg.MetadataValue.float((summary.finished_us - summary.started_us) / SECOND),
        "versions_read": dg.MetadataValue.text(listed(plan.versions)),
        **{f"run_{name}": dg.MetadataValue.int(spent) for name, spent in summary.found.cost.items()},
    }


def of_spark(spark: "SparkSession") -> dict[str, dg.MetadataValue]:
    """The Spark application of a run: its id, and the address of its UI where it has one."""
    context = spark.sparkContext
    about: dict[str, dg.MetadataValue] = {"run_spark_application": dg.MetadataValue.text(str(context.applicationId))}
    return about | ({"run_spark_ui": dg.MetadataValue.url(context.uiWebUrl)} if context.uiWebUrl else {})


def counted(lakehouse: Lakehouse, job: Job) -> list[str]:
    """Every verdict and reason that any replay of the job gave, in a fixed order.

    Each day has a count for each of them, zero or not, so that a plot over days has no gaps.
    """
    runs = runs_of(lakehouse, job.name)
    given = {name for run in runs for counts in _COUNTS for name in dict(run[counts] or {})}
    return [name for name in (*get_args(Verdict), *REASONS) if name in given]


def of_day(
    logs: LogReads, plan: Plan, part: OutputRange, day: WrittenDay, names: Sequence[str], table: str
) -> dict[str, dg.MetadataValue]:
    """Metadata of one output day of ``table``: what a replay of this day alone would read and give, and where its
    report is.

    ``names`` comes from :func:`counted`. Each count is an entry of its own, because Dagster plots those.
    """
    found = logs.of(part)
    # a settled range has settled days, even if it is settled by the log's summary and the day's formula has no end
    ends_us = tuple(table.end_of_log_us for table in plan.reads)
    settled, unsettled = (True, None) if plan.settled else settled_by(found, ends_us)
    read = found.range
    counts = day.counts_by_verdict + day.counts_by_reason
    rows = {name: one.rows for name, one in day.results.items()}
    fingerprints = {name: one.fingerprint for name, one in day.results.items()}
    about: dict[str, dg.MetadataValue] = {
        "dagster/partition_row_count": dg.MetadataValue.int(rows.get(table, day.verdict_rows)),
        "events": dg.MetadataValue.int(day.events),
        **{f"events_{name}": dg.MetadataValue.int(counts[name]) for name in names},
        **{name.partition("/")[0] if len(rows) == 1 else name: dg.MetadataValue.int(n) for name, n in rows.items()},
        "output_fingerprint": dg.MetadataValue.text(fingerprints.get(table) or together(fingerprints)),
        "read_from": dg.MetadataValue.text(instant_or_none(read.from_us) or "the log's beginning"),
        "read_to": dg.MetadataValue.text(instant_or_none(read.to_us) or "the log's end"),
        "settled": dg.MetadataValue.bool(settled),
    }
    if unsettled is not None:
        about["unsettled"] = dg.MetadataValue.text(unsettled)
    assert part.from_us is not None
    return {**about, "report": page_of_report(plan.job, key_of(to_datetime(part.from_us).date()))}


def listed(counts: Mapping[str, object]) -> str:
    """``windows/tolls 24, verdicts/tolls 8``"""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _specs(job: Job) -> list[dg.AssetSpec]:
    reach = reach_of(job)
    policy = "\n".join(f"- {escaped(sentence)}" for sentence in (*describe_policy(job), *describe_read_range(job)))
    return [
        dg.AssetSpec(
            key=key,
            deps=[dg.AssetDep(arrivals_key(job.name), partition_mapping=arrivals_mapping(job))],
            description=f"{text}\n\nTable `{table}`, by these rules ({job.profile}):\n\n{policy}",
            code_version=job.fingerprint,
            kinds={"spark", "delta"},
            metadata={"profile": job.profile, "read_rule": reach.rule},
        )
        for key, table in tables_of(job).items()
        for text in [_first_sentence(job, table)]
    ]


def tables_of(job: Job) -> dict[dg.AssetKey, str]:
    """The tables that a replay writes, by asset."""
    return {output_key(job, one): one.table for one in output_tables(job)} | {
        verdicts_key(job.name): verdicts_table(job)
    }


def _first_sentence(job: Job, table: str) -> str:
    """What the table has. Lists show the sentence without rendering Markdown."""
    if table == verdicts_table(job):
        kept = ", but for events accepted without a reason" if job.keep_verdicts == "exceptions" else ""
        return f"The verdict on each event, with its reasons, by the UTC day of its arrival{kept}."
    (one,) = (one for one in output_tables(job) if one.table == table)
    if one.layout is WINDOWS:
        return "The window results of the replay, by the UTC day on which the window ends."
    return f"The rows of output {one.output} of the replay, by the UTC day of their system timestamp."
