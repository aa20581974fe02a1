"""The stream's two tables: each batch once, provisional rows until more arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core.time import MINUTE, parse_instant
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.live.spark.sink import LiveTable, table_schema

NOON = parse_instant("2026-01-01T12:00:00Z")


@pytest.fixture
def table(tmp_path: Path) -> LiveTable:
    schema = table_schema([("n", pa.int64()), ("window_end", TIMESTAMP)], "output_date")
    return LiveTable(Lakehouse.at(tmp_path), "stream_windows/w", schema, "window_end", "output_date", 0, "stream/0")


def rows(*numbers: int) -> list[Sequence[Any]]:
    return [numbers, [NOON + number * MINUTE for number in numbers]] if numbers else []


def numbers_in(table: LiveTable) -> list[int]:
    opened = table.lakehouse.open(table.name)
    assert opened is not None
    found: list[int] = sorted(opened.to_pyarrow_table()["n"].to_pylist())
    return found


def version(table: LiveTable) -> int:
    opened = table.lakehouse.open(table.name)
    assert opened is not None
    return int(opened.version())


def test_provisional_rows_stand_until_a_batch_that_decides_anything(table: LiveTable) -> None:
    table.write(0, rows(1), rows(2, 3), advanced=True)
    assert numbers_in(table) == [1, 2, 3]
    table.write(1, rows(), rows(), advanced=False)
    assert (numbers_in(table), version(table)) == ([1, 2, 3], 0)
    table.write(2, rows(2), rows(4), advanced=True)
    assert (numbers_in(table), version(table)) == ([1, 2, 4], 1)
    table.write(3, rows(), rows(), advanced=True)
    assert (numbers_in(table), version(table)) == ([1, 2], 2)
    table.write(4, rows(), rows(), advanced=True)
    assert version(table) == 2


def test_a_batch_that_is_repeated_after_a_crash_is_not_written_again(table: LiveTable) -> None:
    table.write(0, rows(1), rows(), advanced=True)
    table.write(1, rows(2), rows(), advanced=True)
    table.write(1, rows(2), rows(), advanced=True)
    assert (numbers_in(table), version(table)) == ([1, 2], 1)


def test_provisional_rows_share_one_time_after_that_of_final_rows(table: LiveTable) -> None:
    table.write(0, rows(1), rows(2, 3), advanced=True)
    opened = table.lakehouse.open(table.name)
    assert opened is not None
    emitted = {row["n"]: row["emitted_at"] for row in opened.to_pyarrow_table().to_pylist()}
    assert emitted[1] < emitted[2] == emitted[3]


def test_a_new_generation_replaces_all_rows(table: LiveTable) -> None:
    table.write(7, rows(1), rows(2), advanced=True)
    replace(table, generation=1, application="stream/1").write(0, rows(), rows(), advanced=False)
    assert numbers_in(table) == []
