"""The records that ingest is measured with are all taken, and the figures become a section of the page."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.ingest import TASKS
from bench.page import write_ingest
from bench.summary import taken
from pipelines.lakehouse.root import Lakehouse

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("task", list(TASKS))
def test_every_generated_record_is_an_arrival(tmp_path: Path, task: str) -> None:
    records = TASKS[task].write(tmp_path / "records", 50)
    TASKS[task].contenders["tailrace"](records, tmp_path / "tables")
    log = Lakehouse.at(tmp_path / "tables").open("arrivals/readings")
    assert log is not None
    assert len(log.to_pyarrow_table()) == 50


def test_figures_of_ingest_take_the_place_of_the_former_ones(tmp_path: Path) -> None:
    (tmp_path / "benchmarks").mkdir()
    shutil.copy(DOCS / "benchmarks" / "figures.json", tmp_path / "benchmarks")
    row = {"task": "JSON lines", "contender": "tailrace", "records": 100, "seconds": 0.5, "mebibytes": 99.0}
    figures = {"taken": taken(1), "rows": [row | {"seconds_ratio": 2.0, "processor_ratio": 3.0}]}
    page, data, *_ = write_ingest(figures, tmp_path)
    assert "| JSON lines | 100 | tailrace | 2.00 | 3.00 | 200 | 99 |" in page.read_text()
    before = json.loads((DOCS / "benchmarks" / "figures.json").read_text())
    assert json.loads(data.read_text())["logs"] == before["logs"]
