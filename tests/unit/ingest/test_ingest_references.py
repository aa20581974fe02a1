"""Loading reference data: a static set is replaced, snapshots are appended, bad records are named and kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakehouse_samples import lines

from pipelines.cli.main import run
from pipelines.core.errors import DataRefused, JobFileError, UsageError
from pipelines.core.model import Job
from pipelines.ingest.batch import ingest
from pipelines.ingest.references import ReferenceSummary, ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse.reference_data import open_reference
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of

TEXT = """
tailrace: 1
job: lines
profile: stream_analytics
inputs: {{readings: {{columns: "at TIMESTAMP, id STRING", timestamp_by: at}}}}
references: {{machines: {{columns: "id STRING, line INT{more}", effective: {effective}}}}}
query: {{from: readings, select: {{id: id}}}}
"""


def job(effective: str = "static", more: str = "") -> Job:
    return parse_job(TEXT.format(effective=effective, more=more))


STATIC = job()
SNAPSHOTS = job("since", ", since TIMESTAMP")


def load(tmp_path: Path, of: Job, *records: dict[str, Any] | str, **more: Any) -> ReferenceSummary:
    file = lines(tmp_path / "machines.jsonl", *records)
    return ingest_reference(of, "machines", [file], tmp_path / "lakehouse", **more)


def rows(tmp_path: Path, of: Job, table: str = "references/machines") -> list[dict[str, Any]]:
    found = rows_of(of, table, tmp_path / "lakehouse")
    return [] if found is None else plain_rows(found)


def machine(name: str, line: int, since: str | None = None) -> dict[str, Any]:
    return {"id": name, "line": line} | ({} if since is None else {"since": since})


def test_a_static_set_holds_always_and_keeps_the_order_of_its_file(tmp_path: Path) -> None:
    summary = load(tmp_path, STATIC, machine("b", 2), machine("a", 1), batch="first")
    assert (summary.rows, summary.version, summary.snapshots_us, summary.quarantined) == (2, 0, (), 0)
    one = {"effective_from": None, "batch_id": "first"}
    assert rows(tmp_path, STATIC) == [
        {**machine("b", 2), **one, "position": 1},
        {**machine("a", 1), **one, "position": 2},
    ]


def test_a_new_static_set_replaces_the_one_before_and_the_same_one_is_nothing_new(tmp_path: Path) -> None:
    first, second = machine("a", 1), machine("a", 2)
    load(tmp_path, STATIC, first)
    assert load(tmp_path, STATIC, second).version == 1
    assert load(tmp_path, STATIC, second).already_ingested
    assert [row["line"] for row in rows(tmp_path, STATIC)] == [2]
    assert load(tmp_path, STATIC, first).version == 2
    assert [row["line"] for row in rows(tmp_path, STATIC)] == [1]


def test_snapshots_are_appended_and_a_batch_is_loaded_once(tmp_path: Path) -> None:
    january, february = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    load(tmp_path, SNAPSHOTS, machine("a", 1, january), machine("b", 1, january))
    assert load(tmp_path, SNAPSHOTS, machine("a", 2, february)).rows == 1
    assert load(tmp_path, SNAPSHOTS, machine("a", 2, february)).already_ingested
    found = [(row["effective_from"], row["id"], row["line"]) for row in rows(tmp_path, SNAPSHOTS)]
    assert found == [(january, "a", 1), (january, "b", 1), (february, "a", 2)]
    table = open_reference(Lakehouse.at(tmp_path / "lakehouse"), SNAPSHOTS.references[0])
    assert (table.rows, list(table.snapshots.values())) == (3, [2, 1])


def test_a_record_that_is_in_no_snapshot_or_in_one_that_is_there_is_quarantined(tmp_path: Path) -> None:
    january, february = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
    load(tmp_path, SNAPSHOTS, machine("a", 1, january))
    bad = ({**machine("c", 1), "line": "x", "since": february}, machine("d", 1), machine("b", 1, january), "{")
    summary = load(tmp_path, SNAPSHOTS, *bad, machine("a", 2, february))
    assert (summary.rows, summary.quarantined) == (1, 4)
    assert [one.reason for one in summary.refused] == [
        "line: 'x' does not fit INT",
        "since is missing",
        f"the snapshot of {january} is there already, from another batch",
        "malformed JSON: Expecting property name enclosed in double quotes (column 2)",
    ]
    assert [row["position"] for row in rows(tmp_path, SNAPSHOTS, "quarantine/machines")] == [1, 2, 3, 4]
    assert [row["line"] for row in rows(tmp_path, SNAPSHOTS)] == [1, 2]


def test_the_column_of_the_snapshots_may_be_called_effective_from(tmp_path: Path) -> None:
    of = job("effective_from", ", effective_from TIMESTAMP")
    load(tmp_path, of, {**machine("a", 1), "effective_from": "2026-01-01T00:00:00Z"})
    assert [row["effective_from"] for row in rows(tmp_path, of)] == ["2026-01-01T00:00:00Z"]


@pytest.mark.parametrize("name", ["position", "effective_from", "Position"])
def test_a_column_of_the_tables_own_is_refused(name: str) -> None:
    with pytest.raises(JobFileError, match=f"'{name}' is a column of every table of reference data"):
        job(more=f", {name} TIMESTAMP")


def test_columns_that_are_not_the_tables_are_refused_for_snapshots_and_replaced_for_a_static_set(
    tmp_path: Path,
) -> None:
    january = "2026-01-01T00:00:00Z"
    load(tmp_path, SNAPSHOTS, machine("a", 1, january))
    wider = job("since", ", since TIMESTAMP, site STRING")
    with pytest.raises(UsageError, match="lacks the column 'site'"):
        load(tmp_path, wider, {**machine("a", 1, "2026-02-01T00:00:00Z"), "site": "x"})
    load(tmp_path, STATIC, machine("a", 1))
    assert "since" not in rows(tmp_path, STATIC)[0]


def test_a_file_that_lacks_a_column_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "machines.csv"
    file.write_text("id\na\n")
    with pytest.raises(DataRefused, match="lacks the column 'line'"):
        ingest_reference(STATIC, "machines", [file], tmp_path / "lakehouse")
    assert rows(tmp_path, STATIC) == []


def test_unknown_names_and_inputs_that_share_a_log_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no reference data 'machine'"):
        ingest_reference(STATIC, "machine", [tmp_path / "x.csv"], tmp_path)
    second = 'timestamp_by: at}, again: {columns: "at TIMESTAMP, id STRING", same_log_as: readings}}'
    shared = parse_job(TEXT.format(effective="static", more="").replace("timestamp_by: at}}", second))
    with pytest.raises(UsageError, match="input again reads the log of readings"):
        ingest(shared, "again", [tmp_path / "x.csv"], tmp_path)


def test_the_command_loads_reference_data_and_exits_with_3_where_it_quarantines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job_file = tmp_path / "lines.yaml"
    job_file.write_text(TEXT.format(effective="static", more=""))
    file = lines(tmp_path / "machines.jsonl", machine("a", 1), {"id": "b", "line": "x"})
    command = ["ingest", str(job_file), str(file), "--lakehouse", str(tmp_path / "lakehouse")]
    assert run([*command, "--reference", "machines"]) == 3
    told = capsys.readouterr()
    assert "references/machines: 1 row(s) loaded, version 0" in told.out
    assert "are in quarantine/machines; the other 1 were loaded" in told.err
    assert run([*command, "--reference", "machines", "--input", "readings"]) == 2
    assert run(command) == 2
