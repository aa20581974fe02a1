"""Little results: which plans count as little, and replacing exactly a range without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lakehouse_samples import job, lines, record

from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import DAY, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.layout import WINDOWS
from pipelines.lakehouse.root import Lakehouse
from pipelines.replay.builder import make_plan
from pipelines.replay.size import MOST_ROWS
from pipelines.replay.write import replace_rows

T = parse_instant
HOUSE_DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")


def _rows(*ends: str, n: int = 0) -> pa.Table:
    ends_us = [T(end) for end in ends]
    return pa.table(
        {
            "window_end": pa.array(ends_us, pa.timestamp("us", "UTC")),
            "n": pa.array([n] * len(ends), pa.int64()),
            "output_date": pa.array([end_us // DAY for end_us in ends_us], pa.int32()).cast(pa.date32()),
        }
    )


def _held(lakehouse: Lakehouse) -> list[tuple[int, int]]:
    rows = DeltaTable(lakehouse.uri("windows/cars")).to_pyarrow_table()
    return sorted(zip(rows["window_end"].cast(pa.int64()).to_pylist(), rows["n"].to_pylist(), strict=True))


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    """Three days of rows; in the second, microseconds apart inside the millisecond that statistics are cut to."""
    place = Lakehouse.at(tmp_path)
    ends = [f"{day}T{time}Z" for day in HOUSE_DAYS for time in ("06:00:00", "12:00:00.000001", "12:00:00.000002")]
    write_deltalake(place.uri("windows/cars"), _rows(*ends), partition_by=["output_date"])
    return place


def test_a_range_inside_days_is_replaced_to_the_microsecond(lakehouse: Lakehouse) -> None:
    output = OutputRange(T("2026-01-01T12:00:00.000002Z"), T("2026-01-03T12:00:00.000002Z"))
    replace_rows(_rows("2026-01-02T07:00:00Z", n=1), lakehouse, "windows/cars", WINDOWS, output, {"told": "a"})
    assert _held(lakehouse) == [
        (T("2026-01-01T06:00:00Z"), 0),
        (T("2026-01-01T12:00:00.000001Z"), 0),
        (T("2026-01-02T07:00:00Z"), 1),
        (T("2026-01-03T12:00:00.000002Z"), 0),
    ]


def test_whole_days_are_replaced_and_an_open_end_reaches_to_the_last_row(lakehouse: Lakehouse) -> None:
    replace_rows(
        _rows(), lakehouse, "windows/cars", WINDOWS, OutputRange(T("2026-01-02T00:00:00Z"), None), {"told": "a"}
    )
    assert [end for end, _ in _held(lakehouse)] == [
        T("2026-01-01T06:00:00Z"),
        T("2026-01-01T12:00:00.000001Z"),
        T("2026-01-01T12:00:00.000002Z"),
    ]


def test_a_row_outside_of_the_range_is_never_committed(lakehouse: Lakehouse) -> None:
    output = OutputRange(T("2026-01-02T06:00:00Z"), T("2026-01-02T07:00:00Z"))
    with pytest.raises(AssertionError, match="a row lies outside"):
        replace_rows(_rows("2026-01-02T07:00:00Z"), lakehouse, "windows/cars", WINDOWS, output, {})
    assert DeltaTable(lakehouse.uri("windows/cars")).version() == 0


def test_everything_is_replaced_columns_included(lakehouse: Lakehouse) -> None:
    rows = _rows("2026-01-09T00:00:00Z").rename_columns(["window_end", "most", "output_date"])
    replace_rows(rows, lakehouse, "windows/cars", WINDOWS, EVERYTHING, {})
    assert DeltaTable(lakehouse.uri("windows/cars")).to_pyarrow_table().column_names == [
        "window_end",
        "most",
        "output_date",
    ]


def _loaded(tmp_path: Path) -> Path:
    ingest(job(), "cars", [lines(tmp_path / "a.jsonl", *(record(n) for n in range(50)))], tmp_path / "lakehouse")
    return tmp_path / "lakehouse"


def _hopping(hop: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, n INT, x DOUBLE", timestamp_by: at}}}}
query: {{from: cars, window: {{hopping: {{size: 1h, hop: {hop}}}}}, aggregates: {{cars: "count(*)"}}}}
"""
    )


def test_how_many_rows_a_plan_can_give_decides_who_writes_them(tmp_path: Path) -> None:
    lakehouse = _loaded(tmp_path)
    assert MOST_ROWS // 50 < 3_600_000 < 3_600_000 * 50
    for hop, writer in (("1m", "driver"), ("1ms", "spark")):
        plan = make_plan(_hopping(hop), EVERYTHING, lakehouse)
        assert plan.writer == plan.as_dict()["writer"] == writer


def test_a_table_that_only_spark_can_write_is_left_to_it(tmp_path: Path) -> None:
    lakehouse = _loaded(tmp_path)
    assert make_plan(job(), EVERYTHING, lakehouse).writer == "driver"
    write_deltalake(
        lakehouse / "windows" / "cars_per_booth",
        _rows("2026-01-01T00:00:00Z"),
        partition_by=["output_date"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    assert make_plan(job(), EVERYTHING, lakehouse).writer == "spark"
