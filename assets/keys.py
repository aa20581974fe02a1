"""Names of what a job becomes."""

import dagster as dg


def arrivals_key(job_name: str) -> dg.AssetKey:
    """``<job>/arrivals``"""
    return dg.AssetKey([job_name, "arrivals"])


def windows_key(job_name: str) -> dg.AssetKey:
    """``<job>/windows``"""
    return dg.AssetKey([job_name, "windows"])


def verdicts_key(job_name: str) -> dg.AssetKey:
    """``<job>/verdicts``"""
    return dg.AssetKey([job_name, "verdicts"])
