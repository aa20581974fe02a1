"""Processes that are killed at the worst moment: nothing is lost, nothing is doubled, and the next run says so."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.core.model import EVERYTHING
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of

JOB_TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {cars: "count(*)"}}
keep_verdicts: all
"""
JOB = parse_job(JOB_TEXT)

_KILLED_INGEST = """
import os, signal, sys
from pathlib import Path
from pipelines.job.load import parse_job
from pipelines.ingest import batch as module

def die(self, *_):
    os.kill(os.getpid(), signal.SIGKILL)

module.Batch._write_arrivals = die
module.ingest(parse_job(Path(sys.argv[1]).read_text()), "cars", [sys.argv[2]], sys.argv[3])
"""
_KILLED_REPLAY = """
import os, signal, sys
from pathlib import Path
from pipelines.core.model import EVERYTHING
from pipelines.job.load import parse_job
from pipelines.replay import write
from pipelines.replay.run import replay

plain = write.replace_range

def die(frame, lakehouse, name, *rest):
    if name.startswith("windows/"):
        os.kill(os.getpid(), signal.SIGKILL)
    return plain(frame, lakehouse, name, *rest)

write.replace_range = die
replay(parse_job(Path(sys.argv[1]).read_text()), EVERYTHING, sys.argv[3])
"""

_KILLED_COMPACTION = """
import os, signal, sys, threading
from pathlib import Path
from pipelines.job.load import parse_job
from pipelines.ingest import batch as module
from pipelines.lakehouse import compact

def when_files_appear(log, day, files):
    folder = Path(sys.argv[3]) / "arrivals" / "cars" / "arrival_date=2026-01-01"
    before = set(os.listdir(folder))
    def watch():
        while set(os.listdir(folder)) == before:
            pass
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=watch, daemon=True).start()
    plain(log, day, files)
    signal.pause()

plain, compact._rewrite = compact._rewrite, when_files_appear
module.ingest(parse_job(Path(sys.argv[1]).read_text()), "cars", [sys.argv[2]], sys.argv[3])
"""


def _killed(script: str, tmp_path: Path, file: Path) -> None:
    job = tmp_path / "cars.yaml"
    job.write_text(JOB_TEXT)
    arguments = [sys.executable, "-c", script, str(job), str(file), str(tmp_path / "lakehouse")]
    ended = subprocess.run(arguments, capture_output=True, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()


def _file(path: Path, *sequences: int) -> Path:
    time = "2026-01-01T12:00:00Z"
    base = {"arrival_time": time, "input_partition": 0, "at": time, "booth": "a"}
    path.write_text("".join(json.dumps({**base, "sequence": sequence}) + "\n" for sequence in sequences) + "bad\n")
    return path


def _rows(tmp_path: Path, table: str) -> list[dict[str, Any]]:
    rows = rows_of(JOB, table, tmp_path / "lakehouse")
    return [] if rows is None else plain_rows(rows)


def test_an_ingest_killed_between_its_two_tables_loses_and_doubles_nothing(tmp_path: Path) -> None:
    file = _file(tmp_path / "one.jsonl", 1, 2, 3)
    _killed(_KILLED_INGEST, tmp_path, file)
    assert _rows(tmp_path, "arrivals") == []
    # what came in between decides what fits now: sequence 3 is taken already
    ingest(JOB, "cars", [_file(tmp_path / "two.jsonl", 3)], tmp_path / "lakehouse")
    summary = ingest(JOB, "cars", [file], tmp_path / "lakehouse")
    assert not summary.already_ingested
    assert (summary.appended, summary.quarantined) == (0, 4)
    mine = [row["position"] for row in _rows(tmp_path, "quarantine") if row["batch_id"] == summary.batch_id]
    assert mine == [1, 2, 3, 4]
    assert [row["sequence"] for row in _rows(tmp_path, "arrivals")] == [3]
    assert ingest(JOB, "cars", [file], tmp_path / "lakehouse").already_ingested


def test_what_a_killed_attempt_quarantined_is_taken_back_if_it_fits_now(tmp_path: Path) -> None:
    file = tmp_path / "good.jsonl"
    file.write_text(_file(tmp_path / "x.jsonl", 1).read_text().removesuffix("bad\n"))
    _killed(_KILLED_INGEST, tmp_path, _file(tmp_path / "one.jsonl", 5))
    killed = {row["batch_id"] for row in _rows(tmp_path, "quarantine")}
    (batch_id,) = killed
    assert ingest(JOB, "cars", [file], tmp_path / "lakehouse", batch=batch_id).quarantined == 0
    assert _rows(tmp_path, "quarantine") == []


def test_an_ingest_killed_while_it_compacts_loses_and_doubles_nothing(tmp_path: Path) -> None:
    for sequence in range(16):
        ingest(JOB, "cars", [_file(tmp_path / "one.jsonl", sequence)], tmp_path / "lakehouse")
    last = _file(tmp_path / "last.jsonl", 16)
    _killed(_KILLED_COMPACTION, tmp_path, last)
    assert [row["sequence"] for row in _rows(tmp_path, "arrivals")] == list(range(17))
    assert ingest(JOB, "cars", [last], tmp_path / "lakehouse").already_ingested
    assert ingest(JOB, "cars", [_file(tmp_path / "more.jsonl", 17)], tmp_path / "lakehouse").appended == 1
    assert [row["sequence"] for row in _rows(tmp_path, "arrivals")] == list(range(18))
    log = Lakehouse.at(tmp_path / "lakehouse").open("arrivals/cars")
    assert log is not None
    assert len(log.file_uris()) <= 2


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.slow
def test_a_replay_killed_between_its_two_tables_is_recognised_and_repaired(tmp_path: Path) -> None:
    from pipelines.replay.run import replay

    file = _file(tmp_path / "one.jsonl", 1, 2, 3)
    ingest(JOB, "cars", [file], tmp_path / "lakehouse")
    _killed(_KILLED_REPLAY, tmp_path, file)
    assert len(_rows(tmp_path, "verdicts")) == 3
    assert _rows(tmp_path, "windows") == []
    assert [run["status"] for run in _rows(tmp_path, "runs")] == ["running"]
    replay(JOB, EVERYTHING, tmp_path / "lakehouse")
    assert len(_rows(tmp_path, "verdicts")) == 3
    assert len(_rows(tmp_path, "windows")) == 1
    abandoned, succeeded = runs.runs_of(Lakehouse.at(tmp_path / "lakehouse"), "cars")
    assert (abandoned["status"], succeeded["status"]) == ("abandoned", "succeeded")
    assert abandoned["versions_written"] == {"verdicts/cars": 0}
