"""Reconcile over the files that a live job wrote: Parquet, and JSON as the products write it. In Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from reconcile_rows import ingested, results, written

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, Job
from pipelines.core.time import format_instant, to_datetime
from pipelines.job.load import parse_job
from pipelines.reconcile.result import Reconciliation
from pipelines.reconcile.run import reconcile

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

JOB = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, x DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 5m}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)", x: "avg(x)"}}
"""
CARS = {
    "cars": [
        {"arrival_time": at, "at": at, "booth": "ab"[minute % 2], "x": 0.1 * minute}
        for minute in range(40)
        for at in [f"2026-01-01T12:{minute:02d}:00Z"]
    ]
}


class Live:
    """A replayed log, and the folder in which a live job wrote its results."""

    def __init__(self, spark: SparkSession, folder: Path, more: str = "") -> None:
        self.spark, self.job, self.folder = spark, parse_job(JOB + more), folder / "out"
        self.lakehouse = ingested(self.job, folder / "lakehouse", CARS)
        self.rows = results(self.job, self.lakehouse)
        written(self.lakehouse, "windows/cars", self.rows)

    def file(self, name: str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def reconciled(self, job: Job | None = None) -> Reconciliation:
        return reconcile(job or self.job, EVERYTHING, self.lakehouse, against=str(self.folder), spark=self.spark)


def as_json(row: dict[str, Any]) -> str:
    """A row with instants of seven digits and text for a double, as Stream Analytics writes it."""
    end = format_instant(row["window_end"]).removesuffix("Z") + ".0000000Z"
    return json.dumps({"WindowEnd": end, "booth": row["booth"], "cars": row["cars"], "x": repr(row["x"])})


MAPPED = "stream: {columns: {WindowEnd: window_end}}\n"


def test_arrays_that_stay_open_below_folders_of_hours_are_read_and_what_came_twice_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path, MAPPED)
    texts = [as_json(row) for row in live.rows]
    live.file("2026/01/01/12/0_a_1.json").write_text("[" + ",\n".join(texts[:3]))
    live.file("2026/01/01/13/0_a_2.json").write_text("[" + ",\n".join([texts[2], *texts[3:]]) + "]\n")
    live.file("_temporary/0_a_3.json").write_text("{")
    found = live.reconciled()
    assert (found.equal, found.by_status, found.by_cause) == (
        len(texts) - 1,
        {"duplicated_in_stream": 1},
        {"duplicate_emission": 1},
    )
    live.file("2026/01/01/13/0_a_4.json").write_text('{"WindowEnd": \n')
    with pytest.raises(UsageError, match="has lines that are not JSON"):
        live.reconciled()


def test_parquet_below_key_value_folders_is_read_with_the_keys_as_columns(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path)
    for booth in ("a", "b"):
        rows = [row for row in live.rows if row["booth"] == booth]
        table = pa.Table.from_pylist(
            [{"window_end": to_datetime(row["window_end"]), "cars": row["cars"], "x": row["x"]} for row in rows]
        )
        pq.write_table(table, live.file(f"booth={booth}/part.parquet"))
    found = live.reconciled()
    assert (found.equal, found.differing) == (len(live.rows), 0)
    live.file("late.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="files of two formats"):
        live.reconciled()


def test_documents_with_a_stream_meta_and_extended_json_are_read(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path)

    def document(row: dict[str, Any]) -> str:
        ends = {name: {"$date": format_instant(row[f"window_{name}"])} for name in ("start", "end")}
        counted = {"cars": {"$numberLong": str(row["cars"])}, "x": row["x"]}
        return json.dumps({"_stream_meta": {"window": ends}, "booth": row["booth"], **counted})

    live.file("export.jsonl").write_text("".join(document(row) + "\n" for row in live.rows))
    found = live.reconciled()
    assert (found.equal, found.differing) == (len(live.rows), 0)


SELECTED = (
    JOB[: JOB.index("query:")]
    + """\
query:
  sql: |
    SELECT System.Timestamp() AS EndedAt, booth, COUNT(*) AS cars, AVG(x) AS x INTO windows
    FROM cars TIMESTAMP BY at GROUP BY booth, TumblingWindow(minute, 10)
"""
)


def test_a_window_end_that_the_query_selects_under_another_name_identifies_live_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    live = Live(spark, tmp_path)
    shutil.rmtree(live.lakehouse / "windows")
    ended = [row | {"EndedAt": to_datetime(row["window_end"])} for row in live.rows]
    written(live.lakehouse, "windows/cars", ended)
    documents = [{"EndedAt": format_instant(row["window_end"])} | json.loads(as_json(row)) for row in live.rows]
    documents[0]["cars"] += 1
    for one in documents:
        del one["WindowEnd"]
    live.file("0.json").write_text("".join(json.dumps(one) + "\n" for one in documents))
    found = live.reconciled(parse_job(SELECTED))
    assert (found.equal, found.by_status) == (len(documents) - 1, {"different": 1})
