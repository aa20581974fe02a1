"""``tailrace import``: a job file from what the live job is defined by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import Commands, emit

if TYPE_CHECKING:
    from rich.console import Console

    from pipelines.job.importing.result import Imported

_Import = Callable[[Path, Mapping[str, Path]], "list[Imported]"]
_Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the job file and the script.")]
_Samples = Annotated[
    list[str], typer.Option("--samples", metavar="INPUT=FILE", help="Sample events: JSON lines, a JSON array, or CSV.")
]


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    group = Commands(help="Write a job file for a live job. Exit code 1: something was guessed or left out.")
    app.add_typer(group, name="import")

    @group.command("asa")
    def asa(
        path: Annotated[Path, typer.Argument(metavar="PATH", help="Project folder, ARM template, or script.")],
        out: _Out,
        samples: _Samples = [],  # noqa: B006  # typer reads it, nobody changes it
    ) -> int:
        """Import Azure Stream Analytics: policies, inputs and the query; columns from tables, samples and use."""
        from pipelines.job.importing.asa import import_asa

        return _import(import_asa, path, out, samples)

    @group.command("atlas")
    def atlas(
        path: Annotated[Path, typer.Argument(metavar="PATH", help="Pipeline, shell script, or a folder of them.")],
        out: _Out,
        samples: _Samples = [],  # noqa: B006  # as above
    ) -> int:
        """Import MongoDB Atlas Stream Processing: a job for each processor; columns from samples and use."""
        from pipelines.job.importing.atlas import import_atlas

        return _import(import_atlas, path, out, samples)


def _import(build: _Import, path: Path, out: Path, samples: list[str]) -> int:
    """Import, write and print; the exit code."""
    from pipelines.job.importing.fields import named_samples
    from pipelines.job.importing.result import written

    jobs = written(build(path, named_samples(samples)), out)

    def human(console: Console) -> None:
        for job in jobs:
            console.print(f"{job.job}: {', '.join(job.files)}", markup=False)
            for title, lines in (
                ("guessed", job.guesses),
                ("open in the product's documents", job.open_points),
                ("left out", job.refusals),
            ):
                if lines:
                    console.print(f"  {title}:", markup=False)
                for line in lines:
                    console.print(f"    {line}", markup=False)

    emit({"jobs": [job.as_dict() for job in jobs]}, human)
    return max(job.exit_code for job in jobs)
