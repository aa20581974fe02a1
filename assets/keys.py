"""Names of what a job becomes, and of the tags that its runs carry."""

import dagster as dg

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


def windows_key(job_name: str) -> dg.AssetKey:
    """``<job>/windows``"""
    return dg.AssetKey([job_name, "windows"])


def verdicts_key(job_name: str) -> dg.AssetKey:
    """``<job>/verdicts``"""
    return dg.AssetKey([job_name, "verdicts"])


def stream_windows_key(job_name: str) -> dg.AssetKey:
    """``<job>/stream_windows``"""
    return dg.AssetKey([job_name, "stream_windows"])


def reconciliation_key(job_name: str) -> dg.AssetKey:
    """``<job>/reconciliation``"""
    return dg.AssetKey([job_name, "reconciliation"])


def report_key(job_name: str) -> dg.AssetKey:
    """``<job>/report``"""
    return dg.AssetKey([job_name, "report"])


def replay_name(job_name: str) -> str:
    """``<job>_replay``: any range, apart from partitions."""
    return f"{job_name}_replay"


def days_name(job_name: str) -> str:
    """``<job>_days``: the assets of whole days."""
    return f"{job_name}_days"
