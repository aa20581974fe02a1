"""Showing tables: total order, plain values, ranges."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lakehouse_samples import job, lines, record

from pipelines.core.errors import UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.layout import WINDOWS
from pipelines.lakehouse.show import in_total_order, plain, plain_rows, rows_of, tables_of

JOB = job()
US = pa.timestamp("us", "UTC")


def _instant(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def _windows(lakehouse: Path, *rows: dict[str, Any]) -> None:
    schema = pa.schema(
        [
            ("window_start", US),
            ("window_end", US),
            ("window_id", pa.string()),
            ("booth", pa.string()),
            ("mean", pa.float64()),
            ("tags", pa.list_(pa.string())),
            ("output_date", pa.date32()),
        ]
    )
    table = pa.Table.from_pylist(list(rows), schema=schema)
    write_deltalake(lakehouse / "windows" / JOB.name, table, mode="append", partition_by=["output_date"])


def _window(end: str, **more: Any) -> dict[str, Any]:
    moment = _instant(end)
    return {
        "window_start": moment - dt.timedelta(minutes=10),
        "window_end": moment,
        "output_date": moment.date(),
        **more,
    }


def test_rows_come_in_the_same_order_however_they_were_written(tmp_path: Path) -> None:
    rows = [
        _window("2026-01-01T12:00:00+00:00", booth="b"),
        _window("2026-01-02T00:00:00+00:00", booth="a"),
        _window("2026-01-01T12:00:00+00:00", booth=None),
        _window("2026-01-01T12:00:00+00:00", booth="a", tags=["y"]),
        _window("2026-01-01T12:00:00+00:00", booth="a", tags=["x"]),
    ]
    _windows(tmp_path / "one", *rows)
    for row in reversed(rows):
        _windows(tmp_path / "two", row)
    one, two = rows_of(JOB, "windows", tmp_path / "one"), rows_of(JOB, "windows", tmp_path / "two")
    assert one is not None
    assert two is not None
    assert plain_rows(one) == plain_rows(two)
    assert [(row["booth"], row["tags"]) for row in plain_rows(one)] == [
        ("a", ["x"]),
        ("a", ["y"]),
        ("b", None),
        (None, None),
        ("a", None),
    ]


def test_a_range_on_windows_holds_its_beginning_and_not_its_end(tmp_path: Path) -> None:
    ends = ["2026-01-01T23:50:00+00:00", "2026-01-02T00:00:00+00:00", "2026-01-02T00:10:00+00:00"]
    _windows(tmp_path, *[_window(end) for end in ends])
    output = OutputRange(parse_instant("2026-01-01T23:50:00Z"), parse_instant("2026-01-02T00:10:00Z"))
    rows = rows_of(JOB, "windows", tmp_path, output)
    assert rows is not None
    assert [row["window_end"] for row in plain_rows(rows)] == ["2026-01-01T23:50:00Z", "2026-01-02T00:00:00Z"]


def test_a_range_on_arrivals_acts_on_their_time_to_the_microsecond(tmp_path: Path) -> None:
    times = [f"2026-01-01T12:00:00.00010{digit}Z" for digit in (1, 2, 3)]
    records = [record(i, arrival_time=time) for i, time in enumerate(times)]
    ingest(JOB, "cars", [lines(tmp_path / "a.jsonl", *records)], tmp_path / "lakehouse")
    output = OutputRange(parse_instant(times[1]), parse_instant(times[2]))
    rows = rows_of(JOB, "arrivals/cars", tmp_path / "lakehouse", output)
    assert rows is not None
    assert [row["arrival_time"] for row in plain_rows(rows)] == [times[1]]


def test_a_table_not_yet_written_is_none_and_one_that_cannot_be_is_an_error(tmp_path: Path) -> None:
    assert all(rows_of(JOB, table, tmp_path / "lakehouse") is None for table in tables_of(JOB))
    with pytest.raises(UsageError, match="no table 'window'; did you mean 'windows'"):
        rows_of(JOB, "window", tmp_path / "lakehouse")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (0.1, 0.1),
        (2**62, 2**62),
        (Decimal("1.20"), "1.20"),
        (b"\x00", "AA=="),
        (_instant("2026-01-01T14:00:00+02:00"), "2026-01-01T12:00:00Z"),
        ({"a": [_instant("2026-01-01T12:00:00.000001+00:00")]}, {"a": ["2026-01-01T12:00:00.000001Z"]}),
    ],
)
def test_values_are_plain_json_and_lose_nothing(value: Any, shown: Any) -> None:
    assert plain(value) == shown
    json.dumps(plain(value), allow_nan=False)


def test_the_logs_of_several_inputs_stand_together_under_their_input_s_name(tmp_path: Path) -> None:
    both = parse_job(
        """
tailrace: 1
job: gate
profile: stream_analytics
inputs:
  entries: {columns: "at TIMESTAMP, lane INT", timestamp_by: at}
  exits: {columns: "at TIMESTAMP, lane STRING", timestamp_by: at}
query:
  join: {left: entries, right: exits, within: {unit: minute, from: 0, to: 5}}
  window: {tumbling: {size: 10m}}
  aggregates: {n: "count(*)"}
"""
    )
    for name, lane in (("entries", 7), ("exits", "b")):
        ingest(both, name, [lines(tmp_path / f"{name}.jsonl", record(1, lane=lane))], tmp_path / "lakehouse")
    rows = rows_of(both, "arrivals", tmp_path / "lakehouse")
    assert rows is not None
    assert [(row["input"], row["lane"]) for row in plain_rows(rows)] == [("entries", "7"), ("exits", "b")]


def test_equal_rows_alone_tie_in_the_order() -> None:
    rows = pa.table({"window_end": [1, 1, 1], "a": [2, 1, 1], "b": ["x", "y", "x"]})
    assert in_total_order(rows, WINDOWS.order).to_pylist() == [
        {"window_end": 1, "a": 1, "b": "x"},
        {"window_end": 1, "a": 1, "b": "y"},
        {"window_end": 1, "a": 2, "b": "x"},
    ]
