"""The columns of a job's window results."""

from __future__ import annotations

from pipelines.core.model import Job, output_name


def key_names(job: Job) -> list[str]:
    """The columns that tell one window result from another."""
    return ["window_start", "window_end", "window_id", *(output_name(column) for column in job.query.group_by)]
