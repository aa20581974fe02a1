"""Tables that grow and files in a folder: rows with columns of their own become arrivals."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from source_rows import event, ingest, keys, rows, source_job

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Job
from pipelines.ingest.sources import bodies
from pipelines.ingest.values import decode_json

FIELDS = "{arrival_time: Enqueued, input_partition: PartitionId, sequence: Number%s}"


def bronze(*messages: tuple[int, int, str], **more: Any) -> pa.Table:
    """Rows of (partition, sequence, minute and second of arrival) with the payload as columns."""
    return pa.Table.from_pylist([row(*one) | more for one in messages])


def row(partition: int, sequence: int, time: str) -> dict[str, Any]:
    at = datetime.fromisoformat(f"2026-01-01T12:{time}+00:00")
    payload = {"at": datetime(2026, 1, 1, 12, tzinfo=UTC), "Booth": "a", "n": sequence}
    return {"Enqueued": at, "PartitionId": str(partition), "Number": sequence, **payload}


def delta_job(tmp_path: Path, more: str = "", fields: str = ", booth: Booth") -> Any:
    return source_job(f"{{kind: delta, path: '{tmp_path}/bronze', fields: {FIELDS % fields}{more}}}")


def test_a_table_that_grows_is_read_by_version(tmp_path: Path) -> None:
    of, house = delta_job(tmp_path), tmp_path / "house"
    write_deltalake(tmp_path / "bronze", bronze((1, 5, "02:00"), (0, 8, "01:00"), (0, 7, "01:00")))
    assert ingest(of, house).appended == 3
    assert ingest(of, house).version is None
    write_deltalake(tmp_path / "bronze", bronze((0, 9, "03:00")), mode="append")
    write_deltalake(tmp_path / "bronze", bronze((0, 10, "02:00"), (2, 1, "04:00")), mode="append")
    summary = ingest(of, house)
    assert (summary.appended, summary.quarantined) == (2, 1)
    assert "input partition 2 is new since the last batch" in summary.notes[0]
    assert keys(of, house) == [(0, 7), (0, 8), (0, 9), (1, 5), (2, 1)]
    assert rows(of, house)[0]["booth"] == "a"


def test_a_table_whose_old_versions_are_gone_is_read_as_a_whole(tmp_path: Path) -> None:
    of, house = delta_job(tmp_path), tmp_path / "house"
    write_deltalake(tmp_path / "bronze", bronze((0, 1, "01:00")))
    assert ingest(of, house).appended == 1
    for sequence in (2, 3):
        write_deltalake(tmp_path / "bronze", bronze((0, sequence, f"0{sequence}:00")), mode="append")
    table = DeltaTable(tmp_path / "bronze")
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    summary = ingest(of, house)
    assert (summary.appended, summary.duplicates, summary.quarantined) == (2, 1, 0)
    assert "version 1 of the table can no longer be read" in summary.notes[0]


def test_a_payload_in_one_column_is_decoded(tmp_path: Path) -> None:
    of = delta_job(tmp_path, ", body: json, events_per_message: many", ", body: Body")
    bodies = [json.dumps([event(1), event(2)]), "{", json.dumps(event(3))]
    table = bronze((0, 1, "01:00"), (0, 2, "01:00"), (0, 3, "02:00")).append_column("Body", pa.array(bodies))
    write_deltalake(tmp_path / "bronze", table)
    summary = ingest(of, tmp_path / "house")
    assert (summary.appended, summary.quarantined) == (3, 1)
    assert keys(of, tmp_path / "house") == [(0, 65536), (0, 65537), (0, 3 * 65536)]
    (refused,) = rows(of, tmp_path / "house", "quarantine")
    assert (refused["input_partition"], refused["sequence"], refused["raw"]) == (0, 2 * 65536, "{")


def test_a_column_that_a_table_lacks_is_named(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "bronze", bronze((0, 1, "01:00")).drop_columns(["Number"]))
    with pytest.raises(DataRefused, match="the source lacks the column 'Number'"):
        ingest(delta_job(tmp_path), tmp_path / "house")
    with pytest.raises(UsageError, match="there is no Delta table"):
        ingest(source_job(f"{{kind: delta, path: '{tmp_path}/other'}}"), tmp_path / "house")


def test_another_table_is_no_continuation_of_the_log(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "bronze", bronze((0, 1, "01:00")))
    ingest(delta_job(tmp_path), tmp_path / "house")
    write_deltalake(tmp_path / "new" / "bronze", bronze((0, 2, "02:00")))
    with pytest.raises(UsageError, match="was filled from delta"):
        ingest(delta_job(tmp_path / "new"), tmp_path / "house")


def test_until_cuts_a_version_and_the_rest_comes_with_the_next_batch(tmp_path: Path) -> None:
    of, house = delta_job(tmp_path), tmp_path / "house"
    write_deltalake(tmp_path / "bronze", bronze((0, 1, "01:00"), (0, 2, "03:00"), (1, 1, "01:00")))
    write_deltalake(tmp_path / "bronze", bronze((0, 3, "04:00"), (1, 2, "04:00")), mode="append")
    assert ingest(of, house, until="2026-01-01T12:02:00Z").appended == 2
    assert ingest(of, house, until="2026-01-01T12:04:00Z").appended == 1
    assert ingest(of, house).appended == 2


def write(path: Path, kind: str, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    elif kind == "avro":
        fields = [
            {"name": "Enqueued", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "PartitionId", "type": "string"},
            {"name": "Number", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "Booth", "type": "string"},
            {"name": "n", "type": "int"},
        ]
        with path.open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, records)
    elif kind == "csv":
        lines = [",".join(records[0]), *(",".join(map(str, one.values())) for one in records)]
        path.write_text("\n".join(lines))
    else:
        path.write_text("".join(json.dumps(one, default=str) + "\n" for one in records))


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "avro"])
def test_files_of_each_format_are_read_once(tmp_path: Path, kind: str) -> None:
    source = f"{{kind: files, format: {kind}, path: '{tmp_path}/dump', fields: {FIELDS % ', booth: Booth'}}}"
    of, house = source_job(source), tmp_path / "house"
    write(tmp_path / f"dump/2026/a.{kind}", kind, [row(0, 1, "01:00"), row(1, 4, "01:30")])
    assert ingest(of, house).appended == 2
    write(tmp_path / f"dump/2026/b.{kind}", kind, [row(0, 2, "02:00")])
    summary = ingest(of, house)
    assert (summary.appended, summary.quarantined, summary.notes) == (1, 0, ())
    assert keys(of, house) == [(0, 1), (0, 2), (1, 4)]
    write(tmp_path / f"dump/2025/z.{kind}", kind, [row(0, 3, "03:00")])
    assert f"2 file(s) up to 2026/b.{kind} were read, and 3 are there" in ingest(of, house).notes[0]


def test_a_dump_of_kcat_is_read_with_times_in_milliseconds(tmp_path: Path) -> None:
    fields = "{arrival_time: ts, input_partition: partition, sequence: offset, body: payload}"
    of = source_job(f"{{kind: files, format: jsonl, path: '{tmp_path}/dump.jsonl', fields: {fields}, body: json}}")
    line = {"topic": "t", "partition": 3, "offset": 17, "tstype": "logappend", "ts": 1_767_268_800_123}
    text = json.dumps({**line, "payload": json.dumps(event(1))}) + "\nnot json\n"
    (tmp_path / "dump.jsonl").write_text(text)
    summary = ingest(of, tmp_path / "house")
    assert (summary.appended, summary.quarantined) == (1, 1)
    (found,) = rows(of, tmp_path / "house")
    assert (found["arrival_time"], found["input_partition"], found["sequence"], found["n"]) == (
        "2026-01-01T12:00:00.123000Z",
        3,
        17,
        1,
    )


def dump_job(tmp_path: Path, fields: str, more: str = "") -> Job:
    return source_job(f"{{kind: files, format: jsonl, path: '{tmp_path}/dump.jsonl', fields: {fields}{more}}}")


def demanding(of: Job) -> Job:
    """The job, as a script with CREATE TABLE makes its input."""
    return dataclasses.replace(of, inputs=tuple(dataclasses.replace(part, complete=True) for part in of.inputs))


def test_undeclared_keys_are_counted_in_lines_and_in_bodies(tmp_path: Path) -> None:
    of = dump_job(tmp_path, FIELDS % ", body: Body", ", body: json")
    line = {"Enqueued": "2026-01-01T12:00:00Z", "PartitionId": 0, "Number": 1, "topic": "t"}
    write(tmp_path / "dump.jsonl", "jsonl", [line | {"Body": json.dumps(event(1) | {"color": "red"})}])
    assert ingest(of, tmp_path / "house").warnings == (
        "'color' is not a column of input cars; it was ignored in 1 record(s)",
        "'topic' is not a column of input cars; it was ignored in 1 record(s)",
    )


def test_a_folder_with_files_of_other_formats_alone_says_so(tmp_path: Path) -> None:
    for name in ("a.csv", "_SUCCESS", ".b.jsonl.crc"):
        (tmp_path / name).touch()
    of = source_job(f"{{kind: files, format: jsonl, path: '{tmp_path}', fields: {FIELDS % ''}}}")
    assert ingest(of, tmp_path / "house").notes == (
        "no file below the path has the name of a jsonl file; 1 other(s) are there, such as a.csv: change 'path' or"
        " 'format'",
    )


@pytest.mark.parametrize("until", ["2026-01-01T12:03:00Z", None])
def test_files_must_have_the_columns_that_create_table_demands(tmp_path: Path, until: str | None) -> None:
    of = demanding(dump_job(tmp_path, FIELDS % ", booth: Booth"))
    complete = [row(0, n, f"0{n}:00") for n in range(3)]
    complete[1].pop("Booth")
    write(tmp_path / "dump.jsonl", "jsonl", [*complete, row(1, 1, "05:00"), row(0, 3, "02:30")])
    summary = ingest(of, tmp_path / "house", until)
    assert keys(of, tmp_path / "house") == [(0, 0), (0, 2), (0, 3), *([] if until else [(1, 1)])]
    (refused,) = summary.refused
    assert (refused.position, refused.reason) == (2, "booth: is missing, which CREATE TABLE demands (Q29)")


def test_the_rows_behind_a_cut_keep_what_they_lack(tmp_path: Path) -> None:
    of = demanding(dump_job(tmp_path, FIELDS % ", booth: Booth"))
    later = row(0, 2, "05:00")
    later.pop("Booth")
    write(tmp_path / "dump.jsonl", "jsonl", [row(0, 1, "01:00"), later])
    assert ingest(of, tmp_path / "house", "2026-01-01T12:03:00Z").quarantined == 0
    (refused,) = ingest(of, tmp_path / "house").refused
    assert (refused.position, refused.reason) == (2, "booth: is missing, which CREATE TABLE demands (Q29)")


def test_one_field_may_be_two_columns(tmp_path: Path) -> None:
    of = dump_job(tmp_path, "{arrival_time: at, input_partition: p, sequence: o}")
    write(tmp_path / "dump.jsonl", "jsonl", [{"at": "2026-01-01T12:00:00Z", "p": 0, "o": 1, "booth": "a", "n": 1}])
    assert ingest(of, tmp_path / "house").appended == 1
    (found,) = rows(of, tmp_path / "house")
    assert (found["arrival_time"], found["at"]) == ("2026-01-01T12:00:00Z", "2026-01-01T12:00:00Z")


def test_one_bad_body_does_not_slow_down_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setitem(bodies._FORMATS, "json", lambda body: [decoded.append(body) or decode_json(body.decode())])
    of = dump_job(tmp_path, FIELDS % ", body: Body", ", body: json")
    line = {"Enqueued": "2026-01-01T12:00:00Z", "PartitionId": 0}
    lines = [line | {"Number": n, "Body": json.dumps(event(n)) if n != 700 else "{"} for n in range(2000)]
    write(tmp_path / "dump.jsonl", "jsonl", lines)
    summary = ingest(of, tmp_path / "house")
    assert (summary.appended, summary.quarantined) == (1999, 1)
    assert len(decoded) < 500
