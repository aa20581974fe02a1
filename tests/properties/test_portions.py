"""A source gives the same arrivals however many batches it is read in: to the row, and with the same counts."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from capture_files import message, write_capture
from hypothesis import given, settings
from hypothesis import strategies as st
from source_rows import counts, event, ingest, rows, source_job

BEGIN = datetime(2026, 1, 1, 12, tzinfo=UTC)

MESSAGES = st.tuples(
    st.integers(0, 2),  # what is added to the sequence: 0 repeats it
    st.integers(-20, 60),  # seconds that the clock moves
    st.sampled_from([event(1), event(2), [event(1), event(3)], b"{", None, {"n": "x"}]),
)
FILES = st.lists(st.tuples(st.integers(0, 2), st.lists(MESSAGES, max_size=4)), min_size=1, max_size=6)


def capture(root: Path, files: list[tuple[int, list[tuple[int, int, Any]]]], first: int, last: int) -> None:
    """The files ``first`` to ``last`` of a capture in which sequences and clocks go on from file to file."""
    sequence, clock = [0, 0, 0], [BEGIN] * 3
    for number, (partition, messages) in enumerate(files):
        records = []
        for step, seconds, body in messages:
            sequence[partition] += step
            clock[partition] += timedelta(seconds=seconds)
            records.append(message(sequence[partition], clock[partition].isoformat(), body))
        if first <= number < last:
            write_capture(root, partition, (BEGIN + timedelta(minutes=number)).isoformat(), records)


@pytest.mark.parametrize("regression", ["quarantine", "hold_at_last"])
@settings(max_examples=12, deadline=None)
@given(files=FILES, cuts=st.tuples(st.integers(0, 6), st.integers(0, 6)), until=st.integers(0, 120))
def test_batches_change_nothing(
    regression: str, files: list[tuple[int, list[tuple[int, int, Any]]]], cuts: tuple[int, int], until: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        source = f"{{kind: eventhubs_capture, path: '{root}/hub', events_per_message: many}}"
        of = source_job(source, regression)
        found = []
        first, second = sorted(cuts)
        for begin, end in ((0, first), (first, second), (second, len(files))):
            (root / "hub").mkdir(exist_ok=True)
            capture(root / "hub", files, begin, end)
            found.append(ingest(of, root / "three", (BEGIN + timedelta(seconds=until)).isoformat()))
            found.append(ingest(of, root / "three"))
        once = ingest(of, root / "one")
        assert counts(found) == counts([once])
        assert rows(of, root / "three") == rows(of, root / "one")
        assert sorted(rows(of, root / "three", "quarantine"), key=str) == sorted(
            rows(of, root / "one", "quarantine"), key=str
        )
