"""Two runs over the same range: the one that began earlier writes nothing after the newer one, and names it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.intervals import parse_range
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.commits import commits, metadata_of
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.live.run import stream
from pipelines.reconcile.run import reconcile
from pipelines.replay.run import replay

pytestmark = pytest.mark.spark

JOB = parse_job("""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
keep_verdicts: all
""")
NOON, ONE, TWO = "2026-01-01T12:00:00Z", "2026-01-01T13:00:00Z", "2026-01-01T14:00:00Z"
FIRST, SECOND = parse_range(NOON, "2026-01-01T13:30:00Z"), parse_range("2026-01-01T13:30:00Z", TWO)


def _arrive(folder: Path, *sequences: int) -> None:
    """Arrivals ten minutes apart."""
    rows = []
    for sequence in sequences:
        at = f"2026-01-01T{12 + sequence // 6}:{sequence % 6}0:30Z"
        rows.append(json.dumps({"arrival_time": at, "input_partition": 0, "sequence": sequence, "at": at}))
    (folder / "cars.jsonl").write_text("\n".join(rows))
    ingest(JOB, "cars", [folder / "cars.jsonl"], folder / "lakehouse")


def _before(sentence: str, then: Callable[[], Any]) -> Callable[[str], None]:
    """What calls ``then`` once, before the first stage whose sentence begins so."""
    left = [then]

    def progress(stage: str) -> None:
        if stage.startswith(sentence) and left:
            left.pop()()

    return progress


def _writers(lakehouse: Lakehouse) -> dict[str, str]:
    """The run that wrote each result table last."""
    found = {}
    for name, _ in result_tables(JOB):
        table = lakehouse.open(name)
        assert table is not None
        found[name] = next(metadata_of(about)["run_id"] for _, about in commits(table))
    return found


@pytest.fixture
def lakehouse(tmp_path: Path, spark: SparkSession) -> Lakehouse:
    """One in which six arrivals are replayed, and six more have come."""
    _arrive(tmp_path, *range(6))
    replay(JOB, EVERYTHING, tmp_path / "lakehouse", spark=spark)
    _arrive(tmp_path, *range(6, 12))
    return Lakehouse.at(tmp_path / "lakehouse")


@pytest.mark.parametrize("by_spark", [False, True])
@pytest.mark.parametrize("table", ["verdicts/cars", "windows/cars"])
def test_a_replay_that_finishes_after_a_newer_one_is_refused_and_names_it(
    lakehouse: Lakehouse, spark: SparkSession, table: str, by_spark: bool
) -> None:
    newer = []
    if by_spark:
        for name, _ in result_tables(JOB):
            # which deltalake does not write
            DeltaTable(lakehouse.uri(name)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    then = _before(f"replace {table} (", lambda: newer.append(replay(JOB, EVERYTHING, lakehouse, spark=spark)))
    with pytest.raises(EnvironmentUnfit) as caught:
        replay(JOB, EVERYTHING, lakehouse, spark=spark, as_of=0, progress=then)
    assert f"is older than run {newer[0].run_id} of [the beginning, the end), begun at" in str(caught.value)
    assert str(caught.value).endswith("; the older run writes nothing more; run the command again, which is safe")
    assert _writers(lakehouse) == dict.fromkeys(["verdicts/cars", "windows/cars"], newer[0].run_id)
    older = next(run for run in runs_of(lakehouse, "cars") if run["status"] == "failed")
    written = {"verdicts/cars": newer[0].found.versions_written["verdicts/cars"] - 1}
    assert older["versions_written"] == (written if table == "windows/cars" else {})
    assert older["error"].startswith("write conflict: run ")


def test_a_replay_whose_neighbour_is_replayed_meanwhile_succeeds(lakehouse: Lakehouse, spark: SparkSession) -> None:
    then = _before("replace windows", lambda: replay(JOB, SECOND, lakehouse, spark=spark))
    replay(JOB, FIRST, lakehouse, spark=spark, progress=then)
    assert [run["status"] for run in runs_of(lakehouse, "cars")] == ["succeeded"] * 3


def test_a_newer_replay_replaces_what_an_older_one_writes_meanwhile(lakehouse: Lakehouse, spark: SparkSession) -> None:
    """The older one has written one of its tables when the newer one begins, which is not refused."""
    done = []
    then = _before("replace windows", lambda: done.append(replay(JOB, FIRST, lakehouse, spark=spark)))
    with pytest.raises(EnvironmentUnfit, match="write conflict"):
        replay(JOB, EVERYTHING, lakehouse, spark=spark, progress=then)
    assert len(done) == 1


def test_a_reconciliation_that_finishes_after_a_newer_one_is_refused(lakehouse: Lakehouse, spark: SparkSession) -> None:
    stream(JOB, lakehouse, spark=spark)

    def compare(output: OutputRange, progress: Callable[[str], None] | None = None) -> Any:
        return reconcile(JOB, output, lakehouse, spark=spark, progress=progress)

    compare(FIRST, _before("writing", lambda: compare(SECOND)))
    with pytest.raises(EnvironmentUnfit, match=r"write conflict: .* reconciliations/cars meanwhile"):
        compare(EVERYTHING, _before("writing", lambda: compare(FIRST)))
    statuses = [run["status"] for run in runs_of(lakehouse, "cars") if run["kind"] == "reconcile"]
    assert statuses == ["succeeded", "succeeded", "failed", "succeeded"]
