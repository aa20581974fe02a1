"""Somebody who can write a table of the lakehouse makes nothing outside of it be read, written or removed."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lakehouse_samples import job, lines, record

from pipelines.core.errors import EnvironmentUnfit, TailraceError, UsageError
from pipelines.core.model import EVERYTHING
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.documents import write_document
from pipelines.lakehouse.previews import drop_expired, previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.replay.builder import make_plan

JOB = job()
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def _lakehouse(tmp_path: Path) -> Lakehouse:
    root = tmp_path / "lakehouse"
    ingest(JOB, "cars", [lines(tmp_path / "cars.jsonl", record(1), record(2))], root)
    return Lakehouse.at(root)


def _run(**more: Any) -> dict[str, Any]:
    given = {"kind": "preview", "status": "succeeded", "started_at": LONG_AGO, "finished_at": LONG_AGO}
    return {"run_id": "1", "job": JOB.name, "process": runs.this_process(), **given, **more}


@pytest.mark.parametrize(
    "named",
    [
        lambda folder: str(folder),
        lambda folder: f"file://{folder}",
        lambda folder: "arrivals/cars",
        lambda folder: f"previews/{JOB.name}/../../../outside",
        lambda folder: "previews/another_job/preview/windows/cars",
    ],
    ids=["a path", "a URI", "another table", "two dots", "another job's"],
)
def test_an_expired_preview_removes_its_own_side_tables_whatever_the_ledger_names(
    tmp_path: Path, named: Callable[[Path], str]
) -> None:
    lakehouse = _lakehouse(tmp_path)
    outside = tmp_path / "outside"
    write_deltalake(outside, pa.table({"n": [1]}))
    write_deltalake(lakehouse.uri("previews/another_job/preview/windows/cars"), pa.table({"n": [1]}))
    before = sorted(tmp_path.rglob("*.parquet"))
    runs.record(lakehouse, _run(versions_written={named(outside): 0}))
    assert previews_of(lakehouse, JOB.name) == []
    assert drop_expired(lakehouse, JOB.name) == []
    assert set(before) <= set(tmp_path.rglob("*.parquet"))


def test_a_run_id_with_a_quote_replaces_its_own_row_alone(tmp_path: Path) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    runs.record(lakehouse, _run(run_id="1"))
    runs.record(lakehouse, _run(run_id="x' OR run_id <> '", status="failed"))
    assert [run["run_id"] for run in runs.runs_of(lakehouse, JOB.name)] == ["1", "x' OR run_id <> '"]


@pytest.mark.parametrize("process", ["host/", "", "/1; rm", f"{os.uname().nodename}/many", None])
def test_a_ledger_whose_process_is_no_number_ends_in_no_stack_trace(tmp_path: Path, process: str | None) -> None:
    lakehouse = Lakehouse.at(tmp_path)
    runs.record(lakehouse, _run(status="running", process=process))
    mine = (process or "").startswith(os.uname().nodename)
    assert runs.abandon_dead(lakehouse, JOB.name) == (["1"] if mine else [])


def test_a_table_that_is_a_link_out_of_the_lakehouse_is_refused_and_not_written(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path)
    (tmp_path / "lakehouse" / "arrivals").rename(tmp_path / "elsewhere")
    (tmp_path / "lakehouse" / "arrivals").symlink_to(tmp_path / "elsewhere")
    before = sorted((tmp_path / "elsewhere").rglob("*"))
    with pytest.raises(EnvironmentUnfit, match=r"leads out of the lakehouse, to .*elsewhere"):
        make_plan(JOB, EVERYTHING, lakehouse)
    with pytest.raises(TailraceError, match="leads out of the lakehouse"):
        ingest(JOB, "cars", [lines(tmp_path / "more.jsonl", record(3))], lakehouse)
    assert sorted((tmp_path / "elsewhere").rglob("*")) == before


def test_a_lakehouse_that_is_itself_a_link_is_read_as_a_folder(tmp_path: Path) -> None:
    _lakehouse(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "lakehouse")
    assert make_plan(JOB, EVERYTHING, tmp_path / "link").rows == 2


def test_a_document_is_not_written_through_a_link_out_of_the_lakehouse(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path)
    (tmp_path / "home").mkdir()
    (tmp_path / "lakehouse" / "reports").symlink_to(tmp_path / "home")
    with pytest.raises(EnvironmentUnfit, match="leads out of the lakehouse"):
        write_document(lakehouse, "reports/cars_per_booth/all.html", "text")
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("how", ["up", "up, encoded", "absolute", "file URI", "link", "linked day"])
def test_a_log_that_names_a_data_file_outside_of_its_table_is_refused(tmp_path: Path, how: str) -> None:
    lakehouse = _lakehouse(tmp_path)
    ingest(JOB, "cars", [tmp_path / "cars.jsonl"], tmp_path / "other")
    table = tmp_path / "lakehouse" / "arrivals" / "cars"
    (mine,) = table.rglob("*.parquet")
    (theirs,) = (tmp_path / "other" / "arrivals" / "cars").rglob("*.parquet")
    name = str(mine.relative_to(table))
    up = os.path.relpath(theirs, table)
    paths = {"up": up, "up, encoded": up.replace("../", "..%2F"), "absolute": str(theirs), "file URI": theirs.as_uri()}
    if how in paths:
        log = table / "_delta_log" / "00000000000000000000.json"
        log.write_text(log.read_text().replace(name, paths[how]))
    elif how == "link":
        mine.unlink()
        mine.symlink_to(theirs)
    else:
        mine.parent.rename(tmp_path / "day")
        mine.parent.symlink_to(tmp_path / "day")
    with pytest.raises(EnvironmentUnfit, match="names a data file outside of the table"):
        make_plan(JOB, EVERYTHING, lakehouse)


CANARY = "canary/Zx81qQ"


@pytest.mark.parametrize(
    "address",
    [
        f"s3://AKIA:{CANARY}@bucket/lake",
        f"s3a://{CANARY.replace('/', '')}@bucket/lake",
        f"https://account.blob.core.windows.net/lake?sv=2024&sig={CANARY}",
        f"abfss://user:{CANARY}@account.dfs.core.windows.net/lake",
    ],
)
def test_an_address_with_a_credential_is_refused_and_not_repeated(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError) as root:
        Lakehouse.at(address)
    with pytest.raises(UsageError) as table:
        Lakehouse.at(tmp_path).uri(address)
    text = "tailrace: 1\njob: cars\nprofile: atlas\ninputs: {cars: {columns: 'n INT'%s}}\nordering: {}\n%s"
    query = "query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: 'count(*)'}}\n"
    with pytest.raises(TailraceError) as stream:
        parse_job(text % ("", f"{query}stream: {{windows: '{address}'}}"))
    with pytest.raises(TailraceError) as source:
        parse_job(text % (f", source: {{kind: delta, path: '{address}'}}", query))
    for caught in (root, table, stream, source):
        assert "contains a credential" in str(caught.value)
        assert "Zx81qQ" not in str(caught.value)


def test_addresses_without_a_credential_are_taken(tmp_path: Path) -> None:
    for address in (
        "s3://bucket/lake",
        "abfss://c@account.dfs.core.windows.net/l",
        "hdfs://namenode:8020/user/me@corp",
    ):
        assert Lakehouse.at(address).root == address
    assert DeltaTable.is_deltatable(_lakehouse(tmp_path).uri("arrivals/cars"))
