"""A job file that is not valid: an asset with its error, which leaves other jobs unaffected."""

import re
from pathlib import Path

import dagster as dg

from assets.markdown import escaped
from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.job.folder import load_folder

NAME = "job_file"


def broken_key(path: Path) -> dg.AssetKey:
    """``<file>/job_file``"""
    return dg.AssetKey([_word(path), NAME])


def broken_asset(path: Path, error: TailraceError) -> dg.AssetSpec:
    """An asset without a computation whose description is the error."""
    return dg.AssetSpec(
        key=broken_key(path),
        group_name=_word(path),
        description=(
            f"Not a valid job file, so there are no assets for it: {escaped(str(error))}\n\n"
            "Correct it, then *Reload definitions*."
        ),
        kinds={"error"},
        metadata={"error": str(error), "file": str(path), "line": error.line or 0, "key": error.key or ""},
        tags={"tailrace/broken": "true"},
    )


def broken_check(path: Path) -> dg.AssetChecksDefinition:
    """``valid_job_file``: reads the file again; once it passes, reloading the definitions brings the job's assets."""

    @dg.asset_check(
        asset=broken_key(path), name="valid_job_file", description="The job file is valid. Reload once it is."
    )
    def valid_job_file() -> dg.AssetCheckResult:
        found = load_folder(path.parent).get(path)
        if isinstance(found, Job):
            return dg.AssetCheckResult(passed=True, description="valid now: reload the definitions")
        problem = "the file is gone: reload the definitions" if found is None else str(found)
        return dg.AssetCheckResult(passed=False, description=problem)

    return valid_job_file


def _word(path: Path) -> str:
    """The file's name as Dagster takes names."""
    return re.sub(r"[^A-Za-z0-9_]", "_", path.stem) or "_"
