"""Ingests from a source that are killed: what the next one appends is what would have been appended at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from capture_files import message, write_capture
from deltalake import write_deltalake
from source_kills import killed
from source_rows import event, ingest, rows, source_job

from pipelines.ingest.batch import COUNTS
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

KILLS = (["while reading"], ["before the rows"], ["after a data file", "after the rows"])
"""At which moments the ingest of each of three portions is killed."""


def capture(root: Path, number: int) -> None:
    """Files of two partitions with an array, a bad body, a duplicate and a clock that steps back. A third partition has
    empty files at first."""
    begin, minute = 10 * number, 5 * number
    for partition in range(2):
        good = [message(begin + n, f"2026-01-01T12:{minute + n:02d}:00Z", event(n)) for n in range(3)]
        array = message(begin + 3, f"2026-01-01T12:{minute + 3:02d}:00Z", [event(3), event(4)])
        bad = message(begin + 4, f"2026-01-01T12:{minute + 3:02d}:00Z", b"{")
        back = message(begin + 5, f"2026-01-01T12:{minute:02d}:30Z", event(5))
        write_capture(root, partition, f"2026-01-01T12:{minute + 4:02d}:00", [*good, good[1], array, bad, back])
    late = [message(7, "2026-01-01T12:13:00Z", event(7))] if number == 2 else []
    write_capture(root, 2, f"2026-01-01T12:{minute + 4:02d}:00", late)


def table(root: Path, number: int) -> None:
    """A version with a duplicate, another payload under a known sequence, and a clock that steps back."""

    def row(sequence: int, second: int, n: int | str) -> dict[str, Any]:
        at = datetime.fromisoformat(f"2026-01-01T12:{number:02d}:{second:02d}+00:00")
        return {"Enqueued": at, "PartitionId": "0", "Number": 10 * number + sequence, **event(0), "at": at, "n": str(n)}

    found = [row(0, 0, 0), row(1, 30, 1), row(1, 30, 1), row(1, 31, 5), row(2, 10, 2), row(3, 40, "many")]
    write_deltalake(root, pa.Table.from_pylist(found), mode="append")


SOURCES: dict[str, tuple[Callable[[Path, int], None], str, str, dict[str, int]]] = {
    "a capture": (
        capture,
        "{kind: eventhubs_capture, path: '%s', events_per_message: many}",
        "quarantine",
        {"appended": 31, "quarantined": 12, "duplicates": 6, "held_at_last": 0},
    ),
    "a Delta table": (
        table,
        "{kind: delta, path: '%s', fields: {arrival_time: Enqueued, input_partition: PartitionId, sequence: Number}}",
        "hold_at_last",
        {"appended": 9, "quarantined": 6, "duplicates": 3, "held_at_last": 3},
    ),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_three_portions_with_kills_give_what_one_gives(tmp_path: Path, kind: str) -> None:
    write, text, regression, expected = SOURCES[kind]
    source = text % (tmp_path / "source")
    of = source_job(source, regression)
    for number, moments in enumerate(KILLS):
        write(tmp_path / "source", number)
        for moment in moments:
            killed(moment, source, tmp_path / "three", regression)
        ingest(of, tmp_path / "three")
    ingest(of, tmp_path / "one")
    for place in ("three", "one"):
        ledger = Counter[str]()
        for run in runs_of(Lakehouse.at(tmp_path / place), of.name):
            ledger.update({name: run[name] for name in COUNTS})
        assert dict(ledger) == expected
    assert rows(of, tmp_path / "three") == rows(of, tmp_path / "one")
    refused = [sorted(rows(of, tmp_path / place, "quarantine"), key=str) for place in ("three", "one")]
    assert refused[0] == refused[1]
