"""Which columns of an output contain its system timestamp."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.core.results import time_columns
from pipelines.job.load import load_job


@pytest.mark.parametrize(
    ("script", "columns"),
    [
        ("SELECT n, System.Timestamp() AS seen INTO o FROM cars", ("seen",)),
        ("WITH s AS (SELECT n, System.Timestamp() AS seen FROM cars) SELECT n, seen AS t INTO o FROM s", ("t",)),
        ("WITH s AS (SELECT n, System.Timestamp() AS seen FROM cars) SELECT * INTO o FROM s", ("seen",)),
        (
            "WITH s AS (SELECT n, System.Timestamp() AS seen FROM cars)"
            " SELECT s.seen, m.name INTO o FROM s JOIN makers m ON s.n = m.n",
            ("seen",),
        ),
        ("WITH s AS (SELECT n, at AS seen FROM cars) SELECT n, seen INTO o FROM s", ()),
        (
            "WITH s AS (SELECT n, System.Timestamp() AS seen FROM cars)"
            " SELECT n, DATEADD(hour, 1, seen) AS t INTO o FROM s",
            (),
        ),
        (
            "WITH s AS (SELECT n, System.Timestamp() AS seen FROM cars)"
            " SELECT n, MAX(seen) AS t INTO o FROM s GROUP BY n, TumblingWindow(hour, 1)",
            (),
        ),
    ],
)
def test_a_column_is_followed_through_steps_that_keep_the_time(
    tmp_path: Path, script: str, columns: tuple[str, ...]
) -> None:
    (tmp_path / "o.asaql").write_text(script)
    (tmp_path / "o.yaml").write_text(
        "tailrace: 1\njob: o\nprofile: stream_analytics\n"
        'inputs: {cars: {columns: "at TIMESTAMP, n BIGINT", timestamp_by: at}}\n'
        'references: {makers: {columns: "n BIGINT, name STRING"}}\nquery: {sql: o.asaql}\n'
    )
    assert time_columns(load_job(tmp_path / "o.yaml"), "o") == columns
