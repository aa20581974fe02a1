"""What a lakehouse of many jobs and years costs Dagster: loading the definitions, and one tick of each sensor.

``python -m bench.many_jobs --jobs 200 --years 3``. A job has a log of its own, with a commit a day, and a run a day in
the ledger.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake

from pipelines.core.model import Job
from pipelines.core.time import DAY, from_datetime, to_datetime
from pipelines.job.load import load_job
from pipelines.lakehouse.layout import arrivals_table, result_tables
from pipelines.lakehouse.root import RUNS, Lakehouse
from pipelines.lakehouse.schema import RUNS as RUN_COLUMNS
from pipelines.lakehouse.schema import arrivals_schema

T = TypeVar("T")
JOB = """\
tailrace: 1
job: job_{number}
profile: stream_analytics
inputs: {{cars_{number}: {{columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}}}
ordering: {{early_arrival: 5m, late_arrival: 5m, out_of_order: 1m, action: adjust}}
query:
  from: cars_{number}
  group_by: [booth]
  window: {{tumbling: {{size: 1h}}}}
  aggregates: {{cars: "count(*)"}}
"""


def write_jobs(folder: Path, count: int) -> list[Job]:
    """The job files ``job_0.yaml`` and on."""
    folder.mkdir(parents=True)
    for number in range(count):
        (folder / f"job_{number}.yaml").write_text(JOB.format(number=number), encoding="utf-8")
    return [load_job(folder / f"job_{number}.yaml") for number in range(count)]


def write_lakehouse(lakehouse: Lakehouse, jobs: list[Job], days: int) -> None:
    """A log of ``days`` days for each job, of the same files, and a ledger with a run for each job and day."""
    today_us = from_datetime(datetime.now(UTC)) // DAY * DAY
    first_us = today_us - days * DAY
    log = _log(jobs[0], first_us, days)
    first = Path(lakehouse.uri(arrivals_table(jobs[0].inputs[0].name)))
    about = CommitProperties(custom_metadata={"tailrace": "ingest"})
    for day in range(days):
        rows = log.slice(day, 1)
        write_deltalake(first, rows, mode="append", partition_by=["arrival_date"], commit_properties=about)
    for job in jobs[1:]:
        shutil.copytree(first, lakehouse.uri(arrivals_table(job.inputs[0].name)), copy_function=os.link)
    runs = pa.concat_tables(_runs(job, first_us, days) for job in jobs)
    lakehouse.create(RUNS, runs, mode="error", partition_by=["job"])


def _log(job: Job, first_us: int, days: int) -> pa.Table:
    noons = [to_datetime(first_us + day * DAY + DAY // 2) for day in range(days)]
    values = {
        "arrival_time": noons,
        "input_partition": [0] * days,
        "sequence": list(range(days)),
        "kind": ["event"] * days,
        "at": noons,
        "booth": ["north"] * days,
        "arrival_date": [noon.date() for noon in noons],
    }
    schema = arrivals_schema(job.inputs[0])
    return pa.table({name: values.get(name, [None] * days) for name in schema.names}, schema=schema)


def _runs(job: Job, first_us: int, days: int) -> pa.Table:
    (log,) = (arrivals_table(part.name) for part in job.inputs)
    rows = []
    for day in range(days):
        output_from = to_datetime(first_us + day * DAY)
        rows.append(
            {
                "run_id": f"{job.name}-{day:05d}",
                "job": job.name,
                "kind": "replay",
                "job_fingerprint": job.fingerprint,
                "status": "succeeded",
                "output_from": output_from,
                "output_to": output_from + timedelta(days=1),
                "started_at": output_from + timedelta(days=1),
                "finished_at": output_from + timedelta(days=1, minutes=1),
                "end_of_log": to_datetime(first_us + day * DAY + DAY // 2),
                "settled": True,
                "versions_read": {log: day},
                "versions_written": {name: day for name, _ in result_tables(job)},
                "rows_written": dict.fromkeys((name for name, _ in result_tables(job)), 1),
            }
        )
    return pa.Table.from_pylist([{name: row.get(name) for name in RUN_COLUMNS.names} for row in rows], RUN_COLUMNS)


def measure(jobs: Path, root: str, profiled: bool) -> None:
    """Print the seconds of loading, and of one tick of all sensors of each kind."""
    import dagster as dg

    from assets.definitions import build

    defs = _timed("load the definitions", lambda: build(jobs, root), profiled)
    repository = _timed("make the repository", defs.get_repository_def, profiled)
    with dg.instance_for_test() as instance:
        for kind in ("stale_days", "lost_ranges"):
            sensors = [one for one in repository.sensor_defs if one.name.endswith(kind)]

            def tick(sensors: list[dg.SensorDefinition] = sensors) -> None:
                for sensor in sensors:
                    context = dg.build_sensor_context(instance=instance, repository_def=repository)
                    sensor.evaluate_tick(context)

            _timed(f"tick {len(sensors)} sensors {kind} first", tick, profiled)
            _timed(f"tick {len(sensors)} sensors {kind} again", tick, profiled)


def _timed(what: str, call: Callable[[], T], profiled: bool) -> T:
    profile = cProfile.Profile()
    begin, work = time.perf_counter(), time.process_time()
    result = profile.runcall(call) if profiled else call()
    print(f"{what}: {time.perf_counter() - begin:.1f} s, {time.process_time() - work:.1f} s of work", flush=True)
    if profiled:
        pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    return result


def main() -> None:
    """Make the lakehouse in a folder of its own, and measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--years", type=int, default=3)
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    parser.add_argument("--folder", type=Path, help="keep the lakehouse here, and use the one that is here")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = given.folder or Path(temporary)
        lakehouse = Lakehouse.at(folder / "lakehouse")
        if not (folder / "jobs").is_dir():
            write_lakehouse(lakehouse, write_jobs(folder / "jobs", given.jobs), given.years * 365)
        measure(folder / "jobs", lakehouse.root, given.profile)


if __name__ == "__main__":
    main()
