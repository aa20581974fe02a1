"""Class-data sharing: the classes that a session loads, laid out once at install, so that a start need not do it again.

Half of the processor time of a cold start goes into reading, checking and laying out some 20,000 classes. The archive
holds them as the JVM wants them. It belongs to one Java runtime and one set of jars, which its name says; the JVM
checks both once more, and goes on without an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import jars, java

QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM's warnings would go to stdout, which is the command's."""
TIMEOUT_SECONDS = 900


def path() -> Path:
    """Where the archive for this Java runtime and these jars lies, or would lie; beside the Delta jars."""
    known = [java.told_by(str(java.require_home() / "bin" / "java"))]
    for folder in (jars.directory(), _spark_home() / "jars"):
        known += [f"{jar.name} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in sorted(folder.glob("*.jar"))]
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
    return jars.directory().with_name("classes") / f"{digest}.jsa"


def java_options() -> str:
    """Options of a JVM that uses the archive; empty where there is none."""
    archive = path()
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {QUIET}" if archive.is_file() else ""


def make() -> Path:
    """Rehearse a replay in a process of its own and keep the classes that it loaded; the archive.

    Archives of other runtimes and jars are removed. Raises :class:`EnvironmentUnfit` if the JVM wrote none.
    """
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tailrace-classes-", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        options = f"-XX:ArchiveClassesAtExit={made} {QUIET}"
        command = [sys.executable, "-m", "pipelines.runtime.rehearsal", scratch, options]
        own = {name: text for name, text in os.environ.items() if name != "TAILRACE_SPARK_MASTER"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=own)
        if not made.is_file():
            told = (done.stderr.strip().splitlines() or ["the JVM said nothing"])[-1]
            raise EnvironmentUnfit(f"no class-data archive was written: {told}")
        for other in target.parent.glob("*.jsa"):
            other.unlink()
        made.replace(target)
    return target


def _spark_home() -> Path:
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "pyspark is a dependency"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


if __name__ == "__main__":
    try:
        print(path() if path().is_file() else make())
    except EnvironmentUnfit as unfit:
        # sessions start without it as well, in about twice the time
        print(unfit)
