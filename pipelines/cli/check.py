"""``tailrace check``: is the job file valid, and what does it mean?"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.cli.common import JOB, emit, find_job
from pipelines.core.model import Job


def check(job: JOB) -> None:
    """Validate a job file; print its policy, its read range, warnings, and what the product's documents leave open."""
    from pipelines.job.describe import ambiguities, describe_policy, describe_read_range, remarks
    from pipelines.job.limits import limits_exceeded

    found = find_job(job)
    texts = {
        "policy": describe_policy(found),
        "read_range": describe_read_range(found),
        "warnings": [*limits_exceeded(found), *remarks(found)],
        "ambiguities": ambiguities(found),
    }
    about = {"job": found.name, "profile": found.profile, "valid": True, **texts, "fingerprint": found.fingerprint}
    emit(about, _lines(found, texts))


def _lines(job: Job, texts: dict[str, list[str]]) -> Iterator[str]:
    yield f"{job.name}: valid, profile {job.profile}"
    yield from (f"  {sentence}" for sentence in (*texts["policy"], *texts["read_range"]))
    yield from (f"  warning: {warning}" for warning in texts["warnings"])
    if texts["ambiguities"]:
        yield "  open in the product's documents:"
        yield from (f"    {sentence}" for sentence in texts["ambiguities"])
    yield f"  fingerprint {job.fingerprint}"
