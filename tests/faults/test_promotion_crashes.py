"""A promotion that is killed at any point: each table has its old rows or its new ones, and a rerun completes it."""

from __future__ import annotations

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.core.model import EVERYTHING
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.previews import previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.show import plain_rows, rows_of

pytestmark = pytest.mark.spark

TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
keep_verdicts: all
"""
JOB = parse_job(TEXT)
OLD = parse_job(TEXT.replace("count(*)", "count(distinct booth)"))
POINTS = 11
"""Before and after each of four writes, before the removal of the preview, and of each of its two tables."""
SAMPLE = set(random.Random(20).sample(range(POINTS), 3))

_KILLED = """
import os, signal, sys
from pathlib import Path
from pipelines.job.load import parse_job
from pipelines.lakehouse import previews, runs
from pipelines.replay import promote, write

left = int(sys.argv[2])

def point():
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1

def around(module, name, after):
    plain = getattr(module, name)
    def call(*arguments, **named):
        point()
        found = plain(*arguments, **named)
        if after:
            point()
        return found
    setattr(module, name, call)

around(runs, "record", True)
around(write, "write_deltalake", True)
around(promote, "drop_preview", False)
around(previews, "remove_table", False)
promote.promote(parse_job(Path(sys.argv[1]).read_text()), "night", sys.argv[3])
"""


@pytest.fixture(scope="module")
def previewed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lakehouse with a preview, and the same replay in ``expected``."""
    from pipelines.replay.run import replay

    folder = tmp_path_factory.mktemp("promoted")
    file, place = folder / "cars.jsonl", folder / "lakehouse"
    at = "2026-01-01T12:00:00Z"
    row = f'{{"arrival_time": "{at}", "input_partition": 0, "at": "{at}", "booth": "a", "sequence": %d}}\n'
    file.write_text("".join(row % sequence for sequence in range(3)))
    ingest(JOB, "cars", [file], place)
    replay(OLD, EVERYTHING, place)
    replay(JOB, EVERYTHING, place, preview="night")
    shutil.copytree(place, folder / "expected")
    replay(JOB, EVERYTHING, folder / "expected")
    return folder


def _rows(place: Path) -> dict[str, list[dict[str, Any]]]:
    return {
        name: plain_rows(rows) for name in ("verdicts", "windows") if (rows := rows_of(JOB, name, place)) is not None
    }


@pytest.mark.parametrize(
    "point", [pytest.param(point, marks=() if point in SAMPLE else pytest.mark.slow) for point in range(POINTS)]
)
def test_a_promotion_killed_at_any_point_is_completed_by_the_next(point: int, previewed: Path, tmp_path: Path) -> None:
    from pipelines.replay.promote import promote

    place, expected = tmp_path / "lakehouse", _rows(previewed / "expected")
    shutil.copytree(previewed / "lakehouse", place)
    old = _rows(place)
    assert old["windows"] != expected["windows"]
    (tmp_path / "cars.yaml").write_text(TEXT)
    arguments = [sys.executable, "-c", _KILLED, str(tmp_path / "cars.yaml"), str(point), str(place)]
    ended = subprocess.run(arguments, capture_output=True, timeout=300, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr.decode()
    assert all(rows in (old[name], expected[name]) for name, rows in _rows(place).items())
    if previews_of(Lakehouse.at(place), "cars"):
        promote(JOB, "night", place)
    assert _rows(place) == expected
    assert previews_of(Lakehouse.at(place), "cars") == []
    replays = [run for run in runs_of(Lakehouse.at(place), "cars") if run["kind"] == "replay"]
    assert replays[-1]["status"] == "succeeded"
    assert not any(run["status"] == "running" for run in replays)
