"""``tailrace import``: write a job file from the files that define the live job."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import emit

if TYPE_CHECKING:
    from pipelines.job.importing.result import Imported


class Product(StrEnum):
    """What the live job runs on."""

    asa = "asa"
    atlas = "atlas"


PRODUCT = Annotated[
    Product, typer.Argument(help="asa: Azure Stream Analytics; atlas: MongoDB Atlas Stream Processing.")
]
PATH = Annotated[
    Path, typer.Argument(metavar="PATH", help="Project folder, ARM template, script, pipeline, or a folder of them.")
]
OUT = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Folder for the job file and the script.")]
SAMPLES = Annotated[
    list[str] | None,
    typer.Option("--samples", metavar="INPUT=FILE", help="Sample events: JSON lines, a JSON array, or CSV."),
]


def import_job(product: PRODUCT, path: PATH, out: OUT, samples: SAMPLES = None) -> None:
    """Write a job file for a live job; columns come from tables, samples and use. Exit code 1: look it over first."""
    from pipelines.job.importing.asa import import_asa
    from pipelines.job.importing.atlas import import_atlas
    from pipelines.job.importing.fields import named_samples
    from pipelines.job.importing.result import written

    build = import_asa if product is Product.asa else import_atlas
    jobs = written(build(path, named_samples(samples or [])), out)
    emit({"jobs": [job.as_dict() for job in jobs]}, _lines(jobs))
    raise typer.Exit(max(job.exit_code for job in jobs))


def _lines(jobs: list[Imported]) -> Iterator[str]:
    for job in jobs:
        yield f"{job.job}: {', '.join(job.files)}"
        parts = {
            "guessed": job.guesses,
            "open in the product's documents": job.open_points,
            "left out": job.refusals,
        }
        for title, lines in parts.items():
            if lines:
                yield f"  {title}:"
                yield from (f"    {line}" for line in lines)
