"""``tailrace check``: is the job file valid, and what does it say?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import emit, find_job

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("check")
    def check(job: Annotated[str, typer.Argument(metavar="JOB", help="Job file, or the name of a job.")]) -> None:
        """Validate a job file; print its policy in words, its read range, warnings, what the product leaves open."""
        from pipelines.job.describe import ambiguities, describe_policy, describe_read_range, remarks
        from pipelines.job.limits import limits_exceeded

        found = find_job(job)
        policy, reads = describe_policy(found), describe_read_range(found)
        warnings = [*limits_exceeded(found), *remarks(found)]
        open_points = ambiguities(found)

        def human(out: Console) -> None:
            out.print(f"{found.name}: valid, profile {found.profile}", markup=False)
            for sentence in [*policy, *reads]:
                out.print(f"  {sentence}", markup=False)
            for warning in warnings:
                out.print(f"  warning: {warning}", markup=False)
            if open_points:
                out.print("  open in the product's documents:", markup=False)
            for sentence in open_points:
                out.print(f"    {sentence}", markup=False)
            out.print(f"  fingerprint {found.fingerprint}", markup=False)

        emit(
            {
                "job": found.name,
                "profile": found.profile,
                "valid": True,
                "policy": policy,
                "read_range": reads,
                "warnings": warnings,
                "ambiguities": open_points,
                "fingerprint": found.fingerprint,
            },
            human,
        )
