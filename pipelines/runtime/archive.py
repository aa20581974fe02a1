"""Class-data sharing: the classes that a session loads, laid out once at install, so that a start need not do it again.

Half of the processor time of a cold start goes into reading, checking and laying out some 20,000 classes. The archive
holds them as the JVM wants them. It belongs to one Java runtime and one set of jars, which its name says; the JVM
checks both once more, and goes on without an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime import jars, java

_QUIET = "-Xlog:disable -Xlog:all=error:stderr"
"""The JVM's warnings would go to stdout, which is the command's."""
_TIMEOUT_SECONDS = 900


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
    return f"-XX:SharedArchiveFile={archive} -Xshare:auto {_QUIET}" if archive.is_file() else ""


def make() -> Path:
    """Rehearse a replay in a process of its own and keep the classes that it loaded; the archive.

    Archives of other runtimes and jars are removed. Raises :class:`EnvironmentUnfit` if the JVM wrote none.
    """
    target = path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="tailrace-classes-", dir=target.parent) as scratch:
        made = Path(scratch) / target.name
        command = [sys.executable, "-m", "pipelines.runtime.archive", "--rehearse", str(made), scratch]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False)
        if not made.is_file():
            told = (done.stderr.strip().splitlines() or ["the JVM said nothing"])[-1]
            raise EnvironmentUnfit(f"no class-data archive was written: {told}")
        for other in target.parent.glob("*.jsa"):
            other.unlink()
        made.replace(target)
    return target


def _rehearse(archive: Path, folder: Path) -> None:
    """What a session mostly does, in small: ingest, replay a day, and read and write Delta tables with Spark."""
    from pyspark.sql import functions as F

    from pipelines.core.model import EVERYTHING
    from pipelines.job.load import parse_job
    from pipelines.lakehouse.ingest import ingest
    from pipelines.replay import replay
    from pipelines.runtime.session import session

    job = parse_job(_JOB)
    arrivals = folder / "cars.jsonl"
    arrivals.write_text("".join(json.dumps(_car(minute)) + "\n" for minute in range(60)))
    ingest(job, "cars", [arrivals], folder / "house")
    spark = session("tailrace-rehearsal", java_options=f"-XX:ArchiveClassesAtExit={archive} {_QUIET}")
    replay(job, EVERYTHING, folder / "house", spark=spark)
    windows = spark.read.format("delta").load(str(folder / "house" / "windows" / job.name))
    for _ in range(2):
        writer = windows.hint("rebalance", "output_date").write.format("delta").mode("overwrite")
        writer.partitionBy("output_date").option("replaceWhere", "window_end >= DATE '2026-01-01'").save(
            str(folder / "written")
        )
    windows.persist().groupBy("booth").agg(F.sum("cars")).collect()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    spark.stop()
    process = gateway.proc
    gateway.shutdown()
    # the archive is written while the JVM ends, which it does when nobody speaks to it any more
    process.stdin.close()
    process.wait(_TIMEOUT_SECONDS)


_JOB = """
tailrace: 1
job: rehearsal
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 5m, out_of_order: 1m, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 10m}}
  aggregates: {cars: "count(*)", mean: "avg(x)", most: "max(n)"}
"""


def _car(minute: int) -> dict[str, object]:
    at = f"2026-01-01T12:{minute:02d}:00Z"
    return {"arrival_time": at, "input_partition": 0, "sequence": minute, "at": at, "booth": "a", "n": minute, "x": 0.5}


def _spark_home() -> Path:
    given = os.environ.get("SPARK_HOME")
    if given:
        return Path(given)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "pyspark is a dependency"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--rehearse", archive, folder]:
            _rehearse(Path(archive), Path(folder))
        case _:
            if not path().is_file():
                make()
            print(path())
