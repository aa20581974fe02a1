"""``tailrace pack``: the Python packages that the executors of a cluster need for the live run."""

from __future__ import annotations

import sys
from pathlib import Path

import typer

from pipelines.cli.common import emit, progress


def pack(out: str = typer.Option("tailrace-packages.zip", "--out", metavar="FILE", help="The archive.")) -> None:
    """Write the Python packages that executors of a cluster need for the live run into one archive."""
    from pipelines.core.errors import EnvironmentUnfit
    from pipelines.runtime import pack as packages
    from pipelines.runtime.cluster import PACKAGES_VARIABLE

    target = Path(out).expanduser().absolute()
    try:
        with progress("pack") as step:
            step("writing the archive")
            packed = packages.pack(target)
    except OSError as error:
        raise EnvironmentUnfit(f"{target} cannot be written: {error.strerror}", hint="choose another --out") from None
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    size = target.stat().st_size
    lines = [f"{target} ({size / 2**20:.0f} MiB): " + ", ".join(packed)]
    lines.append(f"executors need Python {python}, and the driver {PACKAGES_VARIABLE}={target}")
    emit({"archive": str(target), "bytes": size, "python": python, "packages": packed}, lines)
