"""What Dagster loads: for each job file in ``TAILRACE_JOBS`` assets, checks, jobs, a schedule and sensors.

Loading reads job files and the heads of arrival logs; it never starts Spark.
"""

import logging
import os
import warnings
from pathlib import Path

import dagster as dg

from assets.arrivals import arrivals_asset
from assets.broken import broken_asset, broken_check
from assets.checks import spark_checks
from assets.compared import matches_stream_check, reconciliation_asset, report_asset
from assets.days_job import days_job
from assets.new_arrivals import ingest_job, new_arrivals_sensor, with_source
from assets.partitions import daily
from assets.previewed import preview_asset, preview_job, promote_job, promotion_asset
from assets.replay_job import replay_job
from assets.replayed import replayed_assets
from assets.schedules import daily_schedule
from assets.sensors import lost_sensor, stale_sensor
from assets.stream_windows import stream_asset
from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.job.folder import load_folder
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from resources.lakehouse import LakehouseResource, lakehouse_root
from resources.spark import SparkResource

AUTOMATION_VARIABLE = "TAILRACE_AUTOMATION"
"""Environment variable, ``on`` or ``off``: whether schedules and sensors start switched on. Default: off."""
_log = logging.getLogger("tailrace")


def build(folder: Path | None = None, lakehouse: str | None = None) -> dg.Definitions:
    """The definitions for the job files of ``folder`` over the tables under ``lakehouse``.

    Default: those of the environment. A file that is not valid becomes an asset with its error; only a folder
    that does not exist fails as a whole.
    """
    with warnings.catch_warnings():
        # Dagster calls backfill policies beta; its version is pinned, and tests hold us to what it does
        warnings.filterwarnings("ignore", "Parameter `backfill_policy`", dg.BetaWarning)
        warnings.filterwarnings("ignore", "Function `multi_observable_source_asset`", dg.BetaWarning)
        return _build(folder, lakehouse or lakehouse_root())


def _build(folder: Path | None, root: str) -> dg.Definitions:
    parts = [dg.Definitions(resources=_resources(root), executor=dg.in_process_executor)]
    for path, job in load_folder(folder).items():
        if isinstance(job, Job):
            parts.append(_of_job(job, path, Lakehouse.at(root)))
        else:
            _log.warning("no assets for %s: %s", path.name, job)
            parts.append(dg.Definitions(assets=[broken_asset(path, job)], asset_checks=[broken_check(path)]))
    return dg.Definitions.merge(*parts)


def _of_job(job: Job, path: Path, lakehouse: Lakehouse) -> dg.Definitions:
    partitions = daily(job, lakehouse)
    started = automation()
    sourced = bool(with_source(job))
    return dg.Definitions(
        assets=[
            arrivals_asset(job, partitions),
            *(stream_asset(job, one, partitions) for one in output_tables(job)),
            replayed_assets(job, partitions),
            reconciliation_asset(job, partitions),
            report_asset(job, partitions),
            preview_asset(job),
            promotion_asset(job, partitions),
        ],
        asset_checks=[*spark_checks(job), matches_stream_check(job)],
        jobs=[
            replay_job(job, partitions),
            days_job(job),
            preview_job(job),
            promote_job(job),
            *([ingest_job(job, partitions)] if sourced else []),
        ],
        schedules=[daily_schedule(job.name, path, lakehouse, partitions, waits=sourced, started=started)],
        sensors=[
            stale_sensor(job.name, path, lakehouse, partitions, started=started),
            lost_sensor(job.name, path, lakehouse, started=started),
            *([new_arrivals_sensor(job.name, path, lakehouse, started=started)] if sourced else []),
        ],
    )


def automation() -> bool:
    """Whether schedules and sensors start switched on: ``TAILRACE_AUTOMATION=on``; :class:`UsageError` if neither."""
    chosen = os.environ.get(AUTOMATION_VARIABLE) or "off"
    if chosen not in ("on", "off"):
        raise UsageError(f"'{chosen}' is neither on nor off", key=AUTOMATION_VARIABLE)
    return chosen == "on"


def _resources(root: str) -> dict[str, object]:
    return {"spark": SparkResource(), "lakehouse": LakehouseResource(root=root)}


defs = build()
