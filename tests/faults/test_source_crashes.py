"""Ingests from a source that are killed: what the next one appends is what would have been appended at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from capture_files import message, write_capture
from source_kills import MOMENTS, killed
from source_rows import counts, event, ingest, rows, source_job


def portion(root: Path, number: int) -> None:
    """Two files of two partitions: good ones, a bad body, a duplicate, a clock that steps back; and an empty one."""
    begin, minute = 10 * number, 5 * number
    for partition in range(2):
        good = [message(begin + n, f"2026-01-01T12:{minute + n:02d}:00Z", event(n)) for n in range(3)]
        bad = message(begin + 4, f"2026-01-01T12:{minute + 3:02d}:00Z", b"{")
        back = message(begin + 5, f"2026-01-01T12:{minute:02d}:30Z", event(5))
        write_capture(root, partition, f"2026-01-01T12:{minute + 4:02d}:00", [*good, good[1], bad, back])
    write_capture(root, 2, f"2026-01-01T12:{minute + 4:02d}:00", [])


@pytest.mark.parametrize("moment", MOMENTS)
def test_three_portions_with_kills_give_what_one_gives(tmp_path: Path, moment: str) -> None:
    source = f"{{kind: eventhubs_capture, path: '{tmp_path}/hub'}}"
    of, found = source_job(source), []
    for number in range(3):
        portion(tmp_path / "hub", number)
        killed(moment, source, tmp_path / "three")
        found.append(ingest(of, tmp_path / "three"))
    once = ingest(of, tmp_path / "one")
    assert counts([once]) == {"appended": 18, "quarantined": 12, "duplicates": 6, "held_at_last": 0}
    if moment != "after the rows":
        assert counts(found) == counts([once])
    assert rows(of, tmp_path / "three") == rows(of, tmp_path / "one")
    refused = [sorted(rows(of, tmp_path / place, "quarantine"), key=str) for place in ("three", "one")]
    assert refused[0] == refused[1]
