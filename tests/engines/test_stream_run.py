"""The live run on Spark, from arrival logs into its tables: in pieces, in any triggers, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Arrival, Job
from pipelines.core.time import HOUR, MINUTE, SECOND, format_instant, from_datetime, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.expressions import instant_sql
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.expressions import refuse
from pipelines.live.run import stream
from pipelines.reference.engine import Outcome, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOLLS = """
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE, axles INT, fee DECIMAL(8,2)", timestamp_by: at}}
ordering: {early_arrival: 5m, late_arrival: 20m, out_of_order: 2m, action: adjust}
query:
  from: cars
  where: "axles <> 3"
  group_by: [booth]
  window: {any_of: {hour: {tumbling: {size: 1h}}, pause: {session: {timeout: 10m, max_duration: 2h}}}}
  aggregates:
    n: "count(*)"
    total: "sum(toll)"
    mean: "avg(fee)"
    axles: "sum(axles)"
    seen: "collect(at)"
"""
LASTING = """
tailrace: 1
job: lasting
profile: stream_insight
inputs:
  stays: {columns: "at TIMESTAMP, ends TIMESTAMP, edge STRING, plate STRING", timestamp_by: at, shape: edge,
          end_by: ends, edge_by: edge, match_on: [plate]}
ordering: {advance: {every: 3}, delay: 10m, action: adjust}
query: {from: stays, window: {snapshot: {}}, aggregates: {n: "count(*)", plates: "collect(plate)"}}
end_of_log: flush
keep_verdicts: all
"""
PASSED = """
tailrace: 1
job: passed
profile: stream_analytics
inputs:
  entries: {columns: "at TIMESTAMP, plate STRING", timestamp_by: "CAST(at AS STRING)"}
  exits: {columns: "at TIMESTAMP, plate STRING, toll DOUBLE", timestamp_by: at}
ordering: {late_arrival: 1h}
query:
  join: {left: entries, right: exits, on: [plate], within: {unit: minute, from: 0, to: 10}, kind: left}
  where: "entries.plate <> 'p0'"
  group_by: [entries.plate]
  window: {tumbling: {size: 1h}}
  aggregates: {n: "count(*)", paid: "sum(coalesce(exits.toll, -1))", left_at: "max(exits.at)"}
"""
BEGIN = parse_instant("2026-01-01T00:00:00Z")


def tolls(count: int, partitions: int = 2, seed: int = 1) -> list[Arrival]:
    """Cars over some days: on time, late, early and out of order."""
    chance, clock, sequences = Random(seed), BEGIN, Counter[int]()
    log = []
    for number in range(count):
        clock += chance.choice([SECOND, MINUTE, 11 * MINUTE, HOUR])
        partition = chance.randrange(partitions)
        at = clock + chance.choice([0, -MINUTE, -3 * MINUTE, -30 * MINUTE, 4 * MINUTE, 6 * MINUTE])
        payload: dict[str, Any] = {"at": at, "booth": chance.choice("ab"), "toll": 0.1 * number}
        payload |= {"axles": chance.choice([2, 3, 5]), "fee": chance.choice([Decimal("1.25"), Decimal("0.10"), None])}
        log.append(Arrival("cars", partition, sequences[partition], clock, payload))
        sequences[partition] += 1
    return log


def stays(count: int) -> list[Arrival]:
    """Start edges, and end edges for most of them, some late."""
    chance, clock, begun = Random(7), BEGIN, list[tuple[int, str]]()
    log = []
    for number in range(count):
        clock += chance.choice([MINUTE, 7 * MINUTE, 4 * HOUR])
        if begun and chance.random() < 0.45:
            at, plate = begun.pop(chance.randrange(len(begun)))
            ends, edge = max(at, clock - chance.choice([0, 15 * MINUTE])), "end"
        else:
            at, plate, ends, edge = clock - chance.choice([0, 20 * MINUTE]), f"p{number % 5}", None, "start"
            begun.append((at, plate))
        payload = {"at": at, "ends": ends, "edge": edge, "plate": plate}
        log.append(Arrival("stays", 0, number, clock, payload))
    return log


def passages(count: int) -> list[Arrival]:
    """Cars that come, and most of them go within ten minutes."""
    chance, clock, sequences = Random(3), BEGIN, Counter[str]()
    log = []
    for _ in range(count):
        clock += chance.choice([SECOND, MINUTE, 5 * MINUTE, HOUR])
        name = chance.choice(["entries", "exits"])
        payload: dict[str, Any] = {"at": clock - chance.choice([0, MINUTE]), "plate": f"p{chance.randrange(3)}"}
        if name == "exits":
            payload["toll"] = chance.choice([1.5, None])
        log.append(Arrival(name, 0, sequences[name], clock, payload))
        sequences[name] += 1
    return log


def load(lakehouse: Lakehouse, job: Job, log: Sequence[Arrival], folder: Path) -> None:
    """One batch of the arrival log."""
    path = folder / f"{log[0].input}-{log[0].input_partition}-{log[0].sequence}-{len(log)}.jsonl"
    instants = {"at", "ends"}
    with path.open("w", encoding="utf-8") as file:
        for row in log:
            payload = {
                key: format_instant(value) if key in instants and isinstance(value, int) else value
                for key, value in row.payload.items()
            }
            place = {"arrival_time": format_instant(row.arrival_time_us), "input_partition": row.input_partition}
            if row.punctuation_us is not None:
                place |= {"kind": "punctuation", "punctuation_time": format_instant(row.punctuation_us)}
            file.write(json.dumps({**place, "sequence": row.sequence, **payload}, default=str) + "\n")
    ingest(job, log[0].input, [path], lakehouse)


def reference(job: Job, log: Sequence[Arrival], spark: SparkSession) -> Outcome:
    from pipelines.batch.spark.expressions import SparkExpressions

    return run(job, log, evaluate=SparkExpressions(spark), instant_sql=instant_sql)


def windows_of(outcome: Outcome) -> Counter[str]:
    """The windows by the reference engine."""
    return Counter(
        repr((one.window_start_us, one.window_end_us, one.window_id, *map(str, one.values.values())))
        for one in outcome.windows
    )


def given(lakehouse: Lakehouse, job: Job) -> Counter[str]:
    """The windows that stand in ``stream_windows``."""
    table = lakehouse.open(f"stream_windows/{job.name}")
    assert table is not None
    rows = table.to_pyarrow_table().to_pylist()
    assert all(row["emitted_at"] is not None and row["output_date"] == row["window_end"].date() for row in rows)
    spans = [[from_datetime(row.pop(name)) for name in ("window_start", "window_end")] for row in rows]
    for row in rows:
        del row["emitted_at"], row["output_date"]
        for name, value in row.items():
            if isinstance(value, datetime):
                row[name] = from_datetime(value)
            if isinstance(value, list):
                row[name] = [from_datetime(one) if isinstance(one, datetime) else one for one in value]
    return Counter(
        repr((*span, *[row.pop("window_id")], *map(str, row.values()))) for span, row in zip(spans, rows, strict=True)
    )


def verdict_count(lakehouse: Lakehouse, job: Job) -> int:
    table = lakehouse.open(f"stream_verdicts/{job.name}")
    assert table is not None
    rows = table.to_pyarrow_table(columns=["input", "input_partition", "sequence"]).to_pylist()
    assert len({tuple(row.values()) for row in rows}) == len(rows)
    return len(rows)


def exceptions(outcome: Outcome) -> int:
    """How many verdicts ``keep_verdicts: exceptions`` keeps."""
    return sum(one.verdict != "accepted" for one in outcome.decisions)


@pytest.mark.spark
def test_after_a_failure_a_corrected_job_reads_the_log_from_its_start_and_then_in_pieces(
    tmp_path: Path, spark: SparkSession
) -> None:
    job, lakehouse, log = parse_job(TOLLS), Lakehouse.at(tmp_path / "lake"), tolls(60)
    load(lakehouse, job, log[:40], tmp_path)
    too_great = parse_job(TOLLS.replace("sum(axles)", "sum(4000000000000000000L)"))
    with pytest.raises(DataRefused, match="leaves the range of BIGINT"):
        stream(too_great, lakehouse, spark=spark)
    assert lakehouse.open("stream_windows/tolls") is None
    assert runs.runs_of(lakehouse, job.name)[-1]["status"] == "failed"
    with pytest.raises(UsageError, match="another version of the job file"):
        stream(job, lakehouse, spark=spark)

    first = stream(job, lakehouse, spark=spark, from_start=True, files_per_trigger=1)
    assert (first.generation, first.provisional_rows["stream_windows/tolls"] > 0) == (1, True)
    assert given(lakehouse, job) == windows_of(reference(job, log[:40], spark))
    load(lakehouse, job, log[40:], tmp_path)
    second = stream(job, lakehouse, spark=spark)
    whole = reference(job, log, spark)
    assert given(lakehouse, job) == windows_of(whole)
    assert verdict_count(lakehouse, job) == exceptions(whole)
    last = runs.runs_of(lakehouse, job.name)[-1]
    assert (last["kind"], last["status"], last["job_fingerprint"]) == ("stream", "succeeded", job.fingerprint)
    assert last["counts_by_verdict"] == second.counts_by_verdict


@pytest.mark.spark
def test_a_row_that_precedes_rows_already_decided_begins_the_stream_again_and_replaces_its_tables(
    tmp_path: Path, spark: SparkSession
) -> None:
    job, lakehouse, log = parse_job(LASTING), Lakehouse.at(tmp_path / "lake"), stays(40)
    load(lakehouse, job, log, tmp_path)
    table = lakehouse.open("arrivals/stays")
    assert table is not None
    assert len(table.file_uris()) > 2
    assert stream(job, lakehouse, spark=spark, files_per_trigger=1).generation == 0
    assert given(lakehouse, job) == windows_of(reference(job, log, spark))
    assert verdict_count(lakehouse, job) == len(log)

    middle_us = log[20].arrival_time_us
    punctuation = Arrival("stays", None, 0, middle_us, dict.fromkeys(log[0].payload), middle_us)
    load(lakehouse, job, [punctuation], tmp_path)
    assert stream(job, lakehouse, spark=spark).generation == 1
    assert given(lakehouse, job) == windows_of(reference(job, [*log, punctuation], spark))
    assert verdict_count(lakehouse, job) == len(log)


@pytest.mark.spark
def test_a_left_join_of_two_logs_gives_the_reference(tmp_path: Path, spark: SparkSession) -> None:
    job, lakehouse, log = parse_job(PASSED), Lakehouse.at(tmp_path / "lake"), passages(60)
    for begin, end in ((0, 40), (40, 60)):
        for name in ("exits", "entries"):
            load(lakehouse, job, [row for row in log[begin:end] if row.input == name], tmp_path)
    stream(job, lakehouse, spark=spark, files_per_trigger=1)
    assert given(lakehouse, job) == windows_of(reference(job, log, spark))


def test_an_expression_over_both_sides_of_a_join_is_refused() -> None:
    job = parse_job(
        """
tailrace: 1
job: passed
profile: stream_analytics
inputs: {a: {columns: "at TIMESTAMP, x INT", timestamp_by: at}, b: {columns: "at TIMESTAMP, x INT", timestamp_by: at}}
query:
  join: {left: a, right: b, on: [x], within: {unit: minute, from: 0, to: 1}}
  window: {tumbling: {size: 1m}}
  aggregates: {n: "sum(a.x + b.x)"}
"""
    )
    with pytest.raises(UsageError, match="needs both sides of the join"):
        refuse(job)


# -- killed -----------------------------------------------------------------------------------------------------------

_RUN = """
import os, signal, sys
from pathlib import Path
from pipelines.job.load import parse_job
from pipelines.live import run
from pipelines.live.spark import sink
from pipelines.runtime.session import session
job, root, at = parse_job(Path(sys.argv[1]).read_text()), sys.argv[2], int(sys.argv[3])
commits = 0
written = sink.LiveTable.write
def write(self, *args, **kwargs):
    global commits
    commits += 1
    if commits == at:
        os.kill(os.getpid(), signal.SIGKILL)
    written(self, *args, **kwargs)
sink.LiveTable.write = write
run.stream(job, root, files_per_trigger=1)
"""


def attempt(job_file: Path, lakehouse: Lakehouse, at: int) -> subprocess.Popen[bytes]:
    """A stream in a process of its own that kills itself before its write number ``at`` (0: never)."""
    program = [sys.executable, "-c", _RUN, str(job_file), lakehouse.root, str(at)]
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_killed_at_any_moment_and_started_again_writes_each_row_once(
    tmp_path: Path, spark: SparkSession
) -> None:
    job, lakehouse, log = parse_job(TOLLS), Lakehouse.at(tmp_path / "lake"), tolls(80)
    job_file = tmp_path / "tolls.yaml"
    job_file.write_text(TOLLS, encoding="utf-8")
    load(lakehouse, job, log[:60], tmp_path)
    # before the first commit; between a batch's two commits; after both, before Spark has noted the batch
    for at in (1, 2, 3):
        assert attempt(job_file, lakehouse, at).wait(300) == -signal.SIGKILL
    load(lakehouse, job, log[60:], tmp_path)
    chance = Random(int(os.environ.get("TAILRACE_SEED", "1")))
    for _ in range(3):
        process = attempt(job_file, lakehouse, 0)
        time.sleep(chance.uniform(4, 25))
        process.kill()
        process.wait(60)
    summary = stream(job, lakehouse, spark=spark)
    assert summary.generation == 0
    whole = reference(job, log, spark)
    assert given(lakehouse, job) == windows_of(whole)
    assert verdict_count(lakehouse, job) == exceptions(whole)
    assert {one["status"] for one in runs.runs_of(lakehouse, job.name)[:3]} == {"abandoned"}
