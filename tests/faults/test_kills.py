"""A sample of the kill suite; ``make faults`` runs more of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from kills import OPERATIONS, Bench


@pytest.mark.parametrize(
    ("operation", "count"),
    [("ingest", 2), ("compaction", 1)],
)
def test_a_command_that_is_killed_leaves_the_old_or_the_new_table_and_runs_again(
    tmp_path: Path, operation: str, count: int
) -> None:
    bench, chance = Bench(tmp_path, OPERATIONS[operation]), Random(1)
    for _ in range(count):
        assert bench.kill(chance) == []
