"""Suites over results, run by Great Expectations through pandas: they block, they name the rows, they are kept."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.quality import expectations
from pipelines.quality.check_result import CheckResult
from pipelines.quality.expectations import check_matches_stream, check_window_results

pytestmark = [
    # the library warns about what others have deprecated
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

JOB = parse_job(
    """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 1h}}
  aggregates: {cars: "count(*)", known: "count(n)", least: "min(n)", most: "max(n)", all_n: "collect(n)"}
"""
)
Row = dict[str, Any]


def _hour(hour: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC)


def _windows() -> list[Row]:
    """Windows ending at 1 to 12 o'clock, for booths a and b."""
    return [
        {
            "window_start": _hour(hour - 1),
            "window_end": _hour(hour),
            "window_id": None,
            "booth": booth,
            "cars": 2,
            "known": 2,
            "least": 1,
            "most": 3,
            "all_n": [1, 3],
            "output_date": _hour(hour).date(),
        }
        for hour in range(1, 13)
        for booth in "ab"
    ]


def _lakehouse(root: Path, table: str, rows: list[Row]) -> Lakehouse:
    kinds = {
        "window_start": TIMESTAMP,
        "window_end": TIMESTAMP,
        "output_date": pa.date32(),
        "all_n": pa.list_(pa.int32()),
    }
    numbers = {"cars": pa.int64(), "known": pa.int64(), "least": pa.int32(), "most": pa.int32()}
    schema = pa.schema([(name, {**kinds, **numbers}.get(name, pa.string())) for name in rows[0]])
    write_deltalake(f"{root}/{table}", pa.Table.from_pylist(rows, schema=schema))
    return Lakehouse.at(root)


def _checked(root: Path, change: Callable[[list[Row]], None]) -> CheckResult:
    rows = _windows()
    change(rows)
    result = check_window_results(_lakehouse(root, "windows/cars", rows), JOB, EVERYTHING)
    assert result is not None
    return result


def test_right_windows_pass_and_the_suite_is_kept_the_same_each_time(tmp_path: Path) -> None:
    result = _checked(tmp_path, lambda rows: None)
    assert (result.name, result.passed, result.failed_rows, result.sample) == ("window_contract", True, 0, ())
    document = tmp_path / "_quality" / "cars" / "windows.json"
    first = document.read_text()
    assert json.loads(first)["result"]["passed"] is True
    kinds = {one["type"] for one in json.loads(first)["suite"]["expectations"]}
    assert {"expect_compound_columns_to_be_unique", "expect_table_columns_to_match_set"} <= kinds
    check_window_results(Lakehouse.at(tmp_path), JOB, EVERYTHING)
    assert document.read_text() == first


def test_each_broken_row_is_named_with_all_that_is_wrong_with_it(tmp_path: Path) -> None:
    def change(rows: list[Row]) -> None:
        rows[4] |= {"cars": 0, "most": 0}
        rows[7] |= {"known": None}

    result = _checked(tmp_path, change)
    assert (result.passed, result.blocking, result.failed_rows) == (False, True, 2)
    assert [(row["window_end"], row["booth"], row["problem"]) for row in result.sample] == [
        ("2026-01-01T03:00:00Z", "a", "cars is below 1; most is less than least"),
        ("2026-01-01T04:00:00Z", "b", "known is null"),
    ]


def test_two_rows_of_one_key_both_fail(tmp_path: Path) -> None:
    result = _checked(tmp_path, lambda rows: rows.append(dict(rows[0])))
    assert (result.passed, result.failed_rows) == (False, 2)
    assert {row["problem"] for row in result.sample} == {"there is another row of this key"}


def test_a_window_that_ends_where_it_starts_fails(tmp_path: Path) -> None:
    result = _checked(tmp_path, lambda rows: rows[0].update(window_start=rows[0]["window_end"]))
    assert [row["problem"] for row in result.sample] == ["window_end is not after window_start"]


def test_a_column_that_is_not_the_jobs_fails_without_a_row(tmp_path: Path) -> None:
    def change(rows: list[Row]) -> None:
        for row in rows:
            row["extra"] = "x"

    result = _checked(tmp_path, change)
    assert (result.passed, result.failed_rows) == (False, 0)
    assert "extra" in result.description


def test_of_many_broken_rows_twenty_are_named_and_all_counted(tmp_path: Path) -> None:
    def change(rows: list[Row]) -> None:
        for row in rows:
            row["cars"] = 0

    result = _checked(tmp_path, change)
    assert (result.failed_rows, len(result.sample)) == (24, 20)


def test_only_the_range_is_checked(tmp_path: Path) -> None:
    rows = _windows()
    rows[-1]["cars"] = 0
    lakehouse = _lakehouse(tmp_path, "windows/cars", rows)
    before = check_window_results(lakehouse, JOB, OutputRange(None, parse_instant("2026-01-01T12:00:00Z")))
    after = check_window_results(lakehouse, JOB, OutputRange(parse_instant("2026-01-01T12:00:00Z"), None))
    assert before is not None
    assert after is not None
    assert (before.passed, after.passed) == (True, False)


def _differences(rows: list[tuple[int, str, str | None]]) -> list[Row]:
    return [
        {
            "window_start": _hour(hour - 1),
            "window_end": _hour(hour),
            "window_id": None,
            "booth": "a",
            "status": status,
            "cause": cause,
            "evidence": "{}",
            "output_date": _hour(hour).date(),
        }
        for hour, status, cause in rows
    ]


def test_a_true_difference_blocks_and_rounding_does_not(tmp_path: Path) -> None:
    rows = _differences(
        [(3, "different", "floating_point_only"), (5, "missing_in_stream", "another_policy"), (7, "odd", None)]
    )
    lakehouse = _lakehouse(tmp_path, "reconciliations/cars", rows)
    result = check_matches_stream(lakehouse, JOB, EVERYTHING)
    assert result is not None
    assert (result.name, result.passed, result.failed_rows) == ("matches_stream", False, 2)
    assert [(row["window_end"], row["problem"]) for row in result.sample] == [
        ("2026-01-01T05:00:00Z", "the replay and the live run differ"),
        ("2026-01-01T07:00:00Z", "the status is not known; no cause is named"),
    ]
    before = check_matches_stream(lakehouse, JOB, OutputRange(None, parse_instant("2026-01-01T05:00:00Z")))
    assert before is not None
    assert before.passed
    assert (tmp_path / "_quality" / "cars" / "reconciliations.json").is_file()


def test_no_difference_at_all_passes(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path, "reconciliations/cars", _differences([(3, "different", "another_policy")]))
    nothing = check_matches_stream(lakehouse, JOB, OutputRange(parse_instant("2026-01-02T00:00:00Z"), None))
    assert nothing is not None
    assert nothing.passed


def test_without_a_table_there_is_no_verdict(tmp_path: Path) -> None:
    assert check_window_results(Lakehouse.at(tmp_path), JOB, EVERYTHING) is None
    assert check_matches_stream(Lakehouse.at(tmp_path), JOB, EVERYTHING) is None


def test_a_suite_refuses_more_rows_than_it_is_made_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expectations, "MAX_ROWS", 3)
    with pytest.raises(UsageError, match="check a shorter range"):
        _checked(tmp_path, lambda rows: None)
