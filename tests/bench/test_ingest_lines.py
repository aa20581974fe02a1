"""The lines that ingest is measured with are all taken."""

from __future__ import annotations

from pathlib import Path

from bench.ingest import tailrace, write_lines
from pipelines.lakehouse.root import Lakehouse


def test_every_generated_line_is_an_arrival(tmp_path: Path) -> None:
    tailrace(write_lines(tmp_path / "lines.jsonl", 50), tmp_path / "tables")
    log = Lakehouse.at(tmp_path / "tables").open("arrivals/readings")
    assert log is not None
    assert len(log.to_pyarrow_table()) == 50
