"""The Python packages that the live run's workers import, in one archive for the executors of a cluster.

The interpreter is not in it: executors need the driver's version of Python, on the same platform.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import pipelines

WORKERS_IMPORT = ("pandas", "pyarrow", "numpy", "sqlglot", "protobuf")
"""What workers import besides Tailrace and PySpark; Spark sends PySpark itself."""
_LEFT_OUT = {"tests", "__pycache__", "include"}
_OF_THE_INSTALLER = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def pack(target: Path) -> list[str]:
    """Write the archive; the packages in it, as ``name version``. The same packages give the same bytes."""
    distributions = sorted(closure(WORKERS_IMPORT), key=lambda one: canonicalize_name(one.name))
    members = dict(_own_files()) | {name: path for one in distributions for name, path in _files(one)}
    part = target.with_name(f".{target.name}.part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, path in sorted(members.items()):
            # neither the time nor the permissions of a file on this machine
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    part.replace(target)
    return [f"tailrace {pipelines.__version__}", *(f"{one.name} {one.version}" for one in distributions)]


def closure(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """The installed distributions of ``names`` and of all that they require without extras."""
    found: dict[str, importlib.metadata.Distribution] = {}
    open_names = list(names)
    while open_names:
        name = canonicalize_name(open_names.pop())
        if name in found:
            continue
        found[name] = importlib.metadata.distribution(name)
        required = map(Requirement, found[name].requires or ())
        open_names += [one.name for one in required if one.marker is None or one.marker.evaluate({"extra": ""})]
    return list(found.values())


def _files(distribution: importlib.metadata.Distribution) -> Iterator[tuple[str, Path]]:
    for file in distribution.files or ():
        if not {"..", *_LEFT_OUT} & set(file.parts) and file.name not in _OF_THE_INSTALLER:
            yield file.as_posix(), Path(str(file.locate()))


def _own_files() -> Iterator[tuple[str, Path]]:
    """Those of this package, which may be a checkout."""
    folder = Path(pipelines.__file__).parent
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(folder.parent).as_posix(), path
