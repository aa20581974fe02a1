"""``<job>_replay``: a replay of any range, with a reason, independent of partitions."""

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

import dagster as dg

from assets.errors import as_failure
from assets.keys import JOB_TAG, SPARK_POOL, replay_name
from assets.partitions import DEFAULT_START
from assets.ranges import days_in, key_of
from assets.replayed import counted, logged_replay, of_day, of_run, of_spark, tables_of, why
from pipelines.core.errors import UsageError
from pipelines.core.intervals import parse_range
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import DAY, parse_instant
from pipelines.plan.definition import Plan, instant_or_none
from pipelines.quality.days import WrittenDay, written_days
from pipelines.replay.builder import LogReads
from resources.lakehouse import LakehouseResource
from resources.spark import SparkResource

RANGE_CONFIG = {
    "from": dg.Field(
        dg.Noneable(str),
        default_value=None,
        description="Start of the output range, 2013-07-01T00:00:00Z; default: that of the log",
    ),
    "to": dg.Field(
        dg.Noneable(str), default_value=None, description="End of the output range, excluded; default: that of the log"
    ),
}
"""Run config of an output range."""
_CONFIG = {
    **RANGE_CONFIG,
    "reason": dg.Field(str, description="Why history is replayed; kept in the run ledger"),
}


def replay_op(job_name: str) -> str:
    """The op of ``<job>_replay``, which takes the run config."""
    return f"replay_{job_name}"


def replay_config(job_name: str, output: OutputRange, reason: str) -> dict[str, object]:
    """Run config of a replay over ``output``."""
    ends = {"from": instant_or_none(output.from_us), "to": instant_or_none(output.to_us)}
    return {"ops": {replay_op(job_name): {"config": {**ends, "reason": reason}}}}


def replayed_by(job_name: str, run_config: Mapping[str, Any]) -> OutputRange | None:
    """The range of this run config; None if it has none that can be parsed."""
    config = run_config.get("ops", {}).get(replay_op(job_name), {}).get("config")
    if config is None:
        return None
    try:
        return parse_range(config.get("from"), config.get("to"))
    except UsageError:
        return None


def replay_job(job: Job, partitions: dg.PartitionsDefinition[str]) -> dg.JobDefinition:
    """The job ``<job>_replay``: run config ``from``, ``to`` (default: the whole log) and ``reason``."""

    @dg.op(
        name=replay_op(job.name),
        config_schema=_CONFIG,
        description=f"Replays {job.name} over [from, to).",
        pool=SPARK_POOL,
    )
    def replay_range(context: dg.OpExecutionContext, spark: SparkResource, lakehouse: LakehouseResource) -> None:
        with as_failure():
            if not context.op_config["reason"].strip():
                raise UsageError("there is no reason", key="reason", hint="give one: it is kept in the run ledger")
            output = parse_range(context.op_config["from"], context.op_config["to"])
            summary = logged_replay(context, job, output, lakehouse, spark, context.op_config["reason"])
            about_run = why(context.run) | of_run(summary) | of_spark(spark.session())
            log_days(context, job, summary.plan, summary.fingerprint_of, about_run, partitions, lakehouse, spark)

    first_us = parse_instant(partitions.get_first_partition_key() or key_of(DEFAULT_START))

    @dg.job(
        name=replay_name(job.name),
        # the default of the launchpad; a run with this empty reason is refused
        config=replay_config(job.name, OutputRange(first_us, first_us + DAY), ""),
        description=(
            f"Replays {job.name} over any output range, for the reason given. Days wholly in the range count as"
            " materialised; a day partly in it gets an observation."
        ),
        executor_def=dg.in_process_executor,
        tags={JOB_TAG: job.name},
    )
    def replay() -> None:
        replay_range()

    return replay


def log_days(
    context: dg.OpExecutionContext | dg.AssetExecutionContext,
    job: Job,
    plan: Plan,
    fingerprint_of: Callable[[str], str],
    about_run: dict[str, dg.MetadataValue],
    partitions: dg.PartitionsDefinition[str],
    lakehouse: LakehouseResource,
    spark: SparkResource,
) -> None:
    """An asset event for each day whose results a run replaced by ``plan``, with the metadata of a partition.

    Days wholly in the range count as materialised, others as observed. ``fingerprint_of`` is by table.
    """
    logs = LogReads(job, lakehouse.lakehouse, as_of=plan.versions_by_name)
    days = written_days(spark.session(), lakehouse.lakehouse, job, plan)
    names = counted(lakehouse.lakehouse, job)
    known = set(partitions.get_partition_keys())
    for key, table in tables_of(job).items():
        tags = {"dagster/data_version": fingerprint_of(table), "dagster/code_version": job.fingerprint}
        for partition, part, whole in _touched(plan.output, days):
            if partition not in known:
                continue
            day = days[date.fromisoformat(partition)]
            about = of_day(logs, plan, part, day, names, table) | about_run
            if whole:
                context.log_event(dg.AssetMaterialization(key, partition=partition, metadata=about, tags=tags))
            else:
                context.log_event(dg.AssetObservation(key, partition=partition, metadata=about))


def _touched(output: OutputRange, days: dict[date, WrittenDay]) -> Iterator[tuple[str, OutputRange, bool]]:
    """Days of the range with their part of it, and whether that is the whole day. Open ends are those of the log."""
    if not days:
        return
    first_us = parse_instant(key_of(min(days)))
    last_us = parse_instant(key_of(max(days))) + DAY
    closed = OutputRange(
        first_us if output.from_us is None else output.from_us, last_us if output.to_us is None else output.to_us
    )
    for partition, part in days_in(closed):
        if date.fromisoformat(partition) in days:
            assert part.from_us is not None
            assert part.to_us is not None
            yield partition, part, part.to_us - part.from_us == DAY
