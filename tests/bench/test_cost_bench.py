"""What a replay costs is measured on a generated log, and compared with what two sizes predict."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from bench.cost import measure, model, table_of


def test_a_replay_of_a_generated_log_is_measured(tmp_path: Path) -> None:
    found = measure(2_000, tmp_path)
    assert (found.events, found.slices) == (2_000, 1)
    assert found.tasks > 0
    assert found.input_bytes > 0
    rows = [replace(found, events=events, seconds=seconds) for events, seconds in ((1_000, 3.0), (3_000, 5.0))]
    assert model(*rows) == (2.0, 0.001)
    predicted = table_of([*rows, replace(found, events=8_000, seconds=9.0)]).columns[3]
    assert list(predicted.cells) == ["3.0", "5.0", "10.0"]
