"""The jars of Delta, and those for S3 where asked for: fetched once, checked by hash, then on the class path."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import java

DELTA = {
    "io.delta:delta-kernel-api:4.4.0": "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
    "io.delta:delta-kernel-defaults:4.4.0": "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
    "io.delta:delta-kernel-unitycatalog:4.4.0": "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
    "io.delta:delta-spark_4.1_2.13:4.4.0": "75a9400986853c061f5109f012547de2545a5759e5e752e5ef633dabe16a4f10",
    "io.delta:delta-storage:4.4.0": "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
    "io.unitycatalog:unitycatalog-client:0.6.0": "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
    "io.unitycatalog:unitycatalog-hadoop:0.6.0": "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
}
"""SHA-256 by coordinate: Delta's package and what it needs besides what Spark brings."""
S3 = {
    jar: digest
    for digest, jar in map(str.split, Path(__file__).with_name("s3_jars.txt").read_text(encoding="utf-8").splitlines())
}
"""Hadoop's S3 client with those modules of the AWS SDK that it needs: 13 MB, and not the bundle of 641 MB."""
LOG_STORE = Path(__file__).parent / "logstore" / "conditional-write-log-store.jar"
DIRECTORY_VARIABLE = "TAILRACE_JARS"


def directory() -> Path:
    """Where the jars lie: ``TAILRACE_JARS``, else inside the virtual environment."""
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    return Path(chosen) if chosen else Path(sys.prefix) / "share" / "tailrace" / "jars"


def missing() -> list[str]:
    """Names of the jars that are not there or not what they should be."""
    return [name_of(jar) for jar in absent(DELTA, directory())]


def missing_for_s3() -> list[str]:
    """The same for those that Spark needs to read and write S3."""
    lacking = [name_of(jar) for jar in absent(S3, directory())]
    return lacking if _digest(directory() / LOG_STORE.name) == _digest(LOG_STORE) else [*lacking, LOG_STORE.name]


def has_s3() -> bool:
    """Whether the jars for S3 were fetched."""
    return (directory() / LOG_STORE.name).is_file()


def fetch_for_s3(folder: Path) -> None:
    """Bring Delta's jars and those for S3 into ``folder``. The log store comes last: with it the others are there."""
    fetch(DELTA | S3, folder)
    shutil.copyfile(LOG_STORE, folder / LOG_STORE.name)


def require() -> list[Path]:
    """Paths of all jars; :class:`EnvironmentUnfit` if one is not there. (Hashes are checked at install.)"""
    for_s3 = [*map(name_of, S3), LOG_STORE.name] if has_s3() else []
    paths = [directory() / name for name in (*map(name_of, DELTA), *for_s3)]
    lacking = [path.name for path in paths if not path.is_file()]
    if lacking:
        raise EnvironmentUnfit(
            f"the jar {lacking[0]} is not in {directory()}",
            hint="run 'tailrace setup', which brings it",
        )
    return paths


def name_of(coordinate: str) -> str:
    """The file name of a jar: ``group:artifact:version`` is ``group_artifact-version.jar``."""
    group, artifact, version = coordinate.split(":")
    return f"{group}_{artifact}-{version}.jar"


def absent(pinned: Mapping[str, str], folder: Path) -> list[str]:
    """The coordinates of ``pinned`` whose jars are not in ``folder``, or are not what they should be."""
    return [jar for jar, digest in pinned.items() if _digest(folder / name_of(jar)) != digest]


def fetch(pinned: Mapping[str, str], folder: Path) -> None:
    """Bring the jars that ``folder`` lacks from the Maven registry with Ivy, which Spark ships; nothing is resolved.

    Raises :class:`EnvironmentUnfit` if one cannot be had, or is not the one that was pinned.
    """
    wanted = absent(pinned, folder)
    with tempfile.TemporaryDirectory(prefix="tailrace-jars-") as scratch:
        if wanted:
            _run_ivy(wanted, Path(scratch))
        folder.mkdir(parents=True, exist_ok=True)
        for jar in wanted:
            source = Path(scratch) / name_of(jar)
            if _digest(source) != pinned[jar]:
                raise EnvironmentUnfit(f"the jar {jar} could not be fetched, or is not the one that was pinned")
            shutil.copyfile(source, folder / source.name)


def _run_ivy(coordinates: list[str], folder: Path) -> None:
    """Fetch into ``folder`` what can be had of ``coordinates``, and nothing that they depend on."""
    import pyspark

    (ivy,) = (Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar")
    modules = [jar.split(":") for jar in coordinates]
    dependencies = "".join(
        f'<dependency org="{group}" name="{artifact}" rev="{version}" transitive="false" conf="default-&gt;master"/>'
        for group, artifact, version in modules
    )
    (folder / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="tailrace" module="jars"/><configurations><conf name="default"/>'
        f"</configurations><dependencies>{dependencies}</dependencies></ivy-module>"
    )
    pattern = folder / "[organisation]_[artifact]-[revision].[ext]"
    program = [str(java.require_home() / "bin" / "java"), "-jar", str(ivy), "-warn", "-cache", str(folder / "cache")]
    subprocess.run(
        [*program, "-ivy", str(folder / "ivy.xml"), "-retrieve", str(pattern)], capture_output=True, check=False
    )


def _digest(path: Path) -> str | None:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
