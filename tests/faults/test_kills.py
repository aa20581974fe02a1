"""A sample of the kill suite; ``make faults`` runs more of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from command_line import CommandLine
from kills import OPERATIONS, Kills


@pytest.mark.parametrize(
    ("operation", "count"),
    [
        ("ingest", 2),
        ("compaction", 1),
        *(
            pytest.param(name, 3, marks=[pytest.mark.spark, pytest.mark.slow])
            for name, one in OPERATIONS.items()
            if one.kind is not None
        ),
    ],
)
def test_a_command_that_is_killed_leaves_the_old_or_the_new_table_and_runs_again(
    tmp_path: Path, operation: str, count: int
) -> None:
    one, chance = OPERATIONS[operation], Random(1)
    with CommandLine(tmp_path, spark=one.kind is not None) as helper:
        kills = Kills(tmp_path, one, helper)
        for _ in range(count):
            assert kills.kill(chance) == []
