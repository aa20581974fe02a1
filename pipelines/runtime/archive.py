"""Class-data sharing: the classes that a session loads, laid out once at install, so that a start need not do it again.

Much of a cold start goes into reading, checking and laying out some 20,000 classes. The archive contains them as the
JVM needs them. It belongs to one Java runtime and one set of jars, which its name contains. The JVM checks both once
more, and goes on without an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import jars, java
from pipelines.runtime.cluster import MASTER_VARIABLE
from pipelines.runtime.given import SUBMIT_VARIABLE, conf_folder, spark_home

TIMEOUT_SECONDS = 900
_FOLDER_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
_QUIET = "-Xlog:cds*=error"
"""Its warning of an archive that does not fit would go to stdout, which is the command's."""


def path() -> Path:
    """The path of the archive for this Java runtime and these jars, next to the Delta jars; it need not exist."""
    known = [java.release_of(str(java.require_home() / "bin" / "java"))]
    known += [f"{jar} {jar.stat().st_size} {jar.stat().st_mtime_ns}" for jar in _class_path()]
    digest = hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]
    return jars.directory().with_name("classes") / f"{digest}.jsa"


def java_options() -> str:
    """Options of a JVM that uses the archive; empty where there is none, or Spark is set up by files of its own."""
    options = _options_file(path())
    return f'"@{options}"' if options.is_file() and not _has_settings() else ""


def make() -> Path:
    """Run a small replay in a process of its own and keep the classes that it loaded; the path of the archive.

    Archives of other runtimes and jars are removed. Raises :class:`EnvironmentUnfit` if the JVM wrote none.
    """
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    # the archive is of one class path: Spark's own names a jar twice, and the others in the order the disk gives them
    class_path = f'-cp "{os.pathsep.join(map(str, _class_path()))}"'
    with tempfile.TemporaryDirectory(prefix="tailrace-classes-", dir=target.parent) as scratch:
        made, options = Path(scratch) / target.name, Path(scratch) / "options"
        options.write_text(f'{class_path}\n"-XX:ArchiveClassesAtExit={made}"\n{_QUIET}\n')
        command = [sys.executable, "-m", "pipelines.demo.warm_up", scratch, f'"@{options}"']
        own = {name: text for name, text in os.environ.items() if name not in (MASTER_VARIABLE, SUBMIT_VARIABLE)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=own)
        if not made.is_file():
            last_line = (done.stderr.strip().splitlines() or ["the JVM gave no reason"])[-1]
            raise EnvironmentUnfit(f"no class-data archive was written: {last_line}")
        for other in (*target.parent.glob("*.args"), *target.parent.glob("*.jsa")):
            other.unlink()
        made.replace(target)
    _options_file(target).write_text(f'{class_path}\n"-XX:SharedArchiveFile={target}"\n-Xshare:auto\n{_QUIET}\n')
    return target


def _options_file(archive: Path) -> Path:
    return archive.with_suffix(".args")


def _class_path() -> list[Path]:
    """Delta's jars, then Spark's; of the latter, as Spark has it, the logger's interface first."""
    spark = sorted((spark_home() / "jars").glob("*.jar"), key=lambda jar: (not jar.name.startswith("slf4j-api-"), jar))
    return [*sorted(jars.directory().glob("*.jar")), *spark]


def _has_settings() -> bool:
    """Whether Spark finds more by its class path than jars, in folders of settings: an archive bears none of them."""
    if any(os.environ.get(name) for name in _FOLDER_VARIABLES):
        return True
    folder = conf_folder()
    return folder.is_dir() and any(folder.iterdir())


def ready() -> Path | None:
    """The archive, made unless it is there; None if it cannot be made: sessions then start in about twice the time."""
    try:
        return path() if _options_file(path()).is_file() else make()
    except EnvironmentUnfit:
        return None
