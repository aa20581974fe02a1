"""The folder of job files, with the jobs and the errors in it."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path

from pipelines.core.errors import JobFileError, TailraceError, UsageError
from pipelines.core.model import Job
from pipelines.job.load import load_job

JOBS_VARIABLE = "TAILRACE_JOBS"
"""The environment variable that names the folder."""


def jobs_folder() -> Path:
    """The folder of job files: ``TAILRACE_JOBS``, else the examples that ship."""
    chosen = os.environ.get(JOBS_VARIABLE)
    return Path(chosen) if chosen else Path(str(resources.files("pipelines.job.examples")))


def job_files(folder: Path) -> list[Path]:
    """The job files of ``folder``, by name; :class:`UsageError` if it is no folder."""
    if not folder.is_dir():
        raise UsageError(f"{JOBS_VARIABLE} names no folder", file=str(folder), hint="set it to a folder of job files")
    return sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.is_file())


def load_folder(folder: Path | None = None) -> dict[Path, Job | TailraceError]:
    """Every job file of ``folder`` (default: :func:`jobs_folder`) with its job, or with its error.

    Of two files with the same job name the second, in the order of file names, is an error.
    """
    found: dict[Path, Job | TailraceError] = {}
    owners: dict[str, Path] = {}
    for path in job_files(folder or jobs_folder()):
        try:
            job = load_job(path)
            if job.name in owners:
                raise JobFileError(
                    f"job '{job.name}' is already defined in {owners[job.name].name}",
                    file=str(path),
                    key="job",
                    hint="give one of the two jobs another name",
                )
        except TailraceError as error:
            found[path] = error
        else:
            owners[job.name] = path
            found[path] = job
    return found
