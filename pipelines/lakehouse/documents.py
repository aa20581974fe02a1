"""Documents next to the tables: suites, check results, reports. Each is written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.lakehouse import object_stores
from pipelines.lakehouse.outside import require_inside
from pipelines.lakehouse.root import Lakehouse


def quality_document(job_name: str, name: str) -> str:
    """``_quality/<job>/<name>.json``"""
    return f"_quality/{job_name}/{name}.json"


def report_document(job_name: str, output: OutputRange) -> str:
    """``reports/<job>/<range>.html``"""
    return f"reports/{job_name}/{range_name(output)}.html"


def tune_document(job_name: str, output: OutputRange) -> str:
    """``reports/<job>/tune/<range>.html``"""
    return f"reports/{job_name}/tune/{range_name(output)}.html"


def preview_document(job_name: str, name: str) -> str:
    """``reports/<job>/preview/<name>.html``"""
    return f"reports/{job_name}/preview/{name}.html"


def range_name(output: OutputRange) -> str:
    """The range as part of a file's name, ``2013-01-01_2014-01-01T063000``; an open end is ``begin`` or ``end``."""
    return f"{_instant_name(output.from_us, 'begin')}_{_instant_name(output.to_us, 'end')}"


def write_document(lakehouse: Lakehouse, name: str, content: str) -> str:
    """Write the text ``content`` as document ``name`` of the lakehouse; where it lies now.

    Raises :class:`EnvironmentUnfit` if it cannot be written.
    """
    if lakehouse.is_local:
        return str(write_file(require_inside(lakehouse.folder, name), content))
    place = f"{lakehouse.root}/{name}"
    try:
        object_stores.write_object(lakehouse.root, name, content.encode())
    except OSError as error:
        raise EnvironmentUnfit(f"{place} cannot be written: {error}") from error
    return place


def write_file(path: Path, content: str) -> Path:
    """Write the text ``content`` to ``path``, folders included; a reader sees the old file or the new one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
            # what the file's maker may be read by is the process's mask to say, not the temporary file's
            mask = os.umask(0)
            os.umask(mask)
            Path(temporary).chmod(0o666 & ~mask)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise EnvironmentUnfit(
            f"{path} cannot be written: {error.strerror or error}",
            hint="choose another place, or change its permissions",
        ) from error
    return path


def _instant_name(instant_us: int | None, otherwise: str) -> str:
    if instant_us is None:
        return otherwise
    return format_instant(instant_us).removesuffix("Z").removesuffix("T00:00:00").replace(":", "")
