"""Names of what a job becomes, and of the tags of its runs."""

import dagster as dg

from pipelines.core.model import Job
from pipelines.lakehouse.layout import WINDOWS, OutputTable, output_tables

WHY_TAG = "tailrace/why"
"""Run tag: why a sensor or a schedule asked for the run; kept in the run ledger as its reason."""
JOB_TAG = "tailrace/job"
"""Run tag: the job that a run replays."""
LOST_TAG = "tailrace/lost"
"""Run tag of a recovery: the lost range and how it was lost, which attempts are counted by."""
ATTEMPT_TAG = "tailrace/attempt"
"""Run tag of a recovery: which attempt at that range it is, from 1."""
READ_TAG = "tailrace/read"
"""Run tag of a recovery: the arrivals it will read, recomputed from the lost range."""
SPARK_POOL = "tailrace_spark"
"""Concurrency pool of everything that needs Spark."""


def arrivals_key(job_name: str) -> dg.AssetKey:
    """``<job>/arrivals``"""
    return dg.AssetKey([job_name, "arrivals"])


def output_key(job: Job, one: OutputTable) -> dg.AssetKey:
    """``<job>/windows``, or ``<job>/outputs/<output>``"""
    return dg.AssetKey([job.name, "windows"] if one.layout is WINDOWS else [job.name, "outputs", one.output])


def output_keys(job: Job) -> list[dg.AssetKey]:
    """The assets of the job's outputs."""
    return [output_key(job, one) for one in output_tables(job)]


def is_output_key(job_name: str, key: dg.AssetKey) -> bool:
    """Whether that is the asset of an output of the job of that name."""
    return key.path[0] == job_name and key.path[1] in ("windows", "outputs")


def verdicts_key(job_name: str) -> dg.AssetKey:
    """``<job>/verdicts``"""
    return dg.AssetKey([job_name, "verdicts"])


def stream_output_key(job: Job, one: OutputTable) -> dg.AssetKey:
    """``<job>/stream_windows``, or ``<job>/stream_outputs/<output>``"""
    is_windows = one.layout is WINDOWS
    return dg.AssetKey([job.name, "stream_windows"] if is_windows else [job.name, "stream_outputs", one.output])


def stream_output_keys(job: Job) -> list[dg.AssetKey]:
    """The assets of the live run's results."""
    return [stream_output_key(job, one) for one in output_tables(job)]


def reconciliation_key(job_name: str) -> dg.AssetKey:
    """``<job>/reconciliation``"""
    return dg.AssetKey([job_name, "reconciliation"])


def report_key(job_name: str) -> dg.AssetKey:
    """``<job>/report``"""
    return dg.AssetKey([job_name, "report"])


def preview_key(job_name: str) -> dg.AssetKey:
    """``<job>/preview``"""
    return dg.AssetKey([job_name, "preview"])


def promotion_key(job_name: str) -> dg.AssetKey:
    """``<job>/promotion``"""
    return dg.AssetKey([job_name, "promotion"])


def replay_name(job_name: str) -> str:
    """``<job>_replay``: any range, apart from partitions."""
    return f"{job_name}_replay"


def days_name(job_name: str) -> str:
    """``<job>_days``: the assets of whole days."""
    return f"{job_name}_days"


def preview_name(job_name: str) -> str:
    """``<job>_preview``: what a replay would change."""
    return f"{job_name}_preview"


def promote_name(job_name: str) -> str:
    """``<job>_promote``: a preview put in place."""
    return f"{job_name}_promote"


def ingest_name(job_name: str) -> str:
    """``<job>_ingest``: what is new in the sources."""
    return f"{job_name}_ingest"
