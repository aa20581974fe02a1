"""Damaged and strange data: each record is taken exactly or quarantined with its reason, or nothing is written."""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.cli.main import run
from pipelines.core.errors import DataRefused
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of

JOB_TEXT = """
tailrace: 1
job: cars
profile: stream_analytics
inputs:
  cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE, n BIGINT, tags ARRAY<TIMESTAMP>", timestamp_by: at}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {cars: "count(*)"}}
"""
JOB = parse_job(JOB_TEXT)
NOON = "2026-01-01T12:00:00Z"
OUTSIDE = "is outside the years 1 to 9999"
WIDEST = [-(2**63) + 1, 2**63 - 1]

Given = Callable[[Path], Path]


def record(number: int, **changed: Any) -> dict[str, Any]:
    base = {"arrival_time": NOON, "input_partition": 0, "sequence": number, "at": NOON, "booth": "a"}
    return {**base, "toll": 1.0, "n": 1, "tags": [NOON], **changed}


def line(value: str, **changed: Any) -> bytes:
    """A record in which the text "?" is replaced by ``value`` as it is."""
    return json.dumps(record(1, **changed)).replace('"?"', value).encode()


def reasons(tmp_path: Path, file: Path) -> list[str | None]:
    """What became of each record: None, or why it is in the quarantine. Every record is in one table."""
    summary = ingest(JOB, "cars", [file], tmp_path / "lakehouse")
    taken, refused = (
        rows_of(JOB, "arrivals", tmp_path / "lakehouse"),
        rows_of(JOB, "quarantine", tmp_path / "lakehouse"),
    )
    assert (0 if taken is None else len(taken)) == summary.appended
    quarantined = [] if refused is None else [row["reason"] for row in plain_rows(refused)]
    assert len(quarantined) == summary.quarantined
    assert all(quarantined)
    return [*[None] * summary.appended, *quarantined]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (line("[" * 1000 + "]" * 1000, booth="?"), "malformed JSON: nested too deeply"),
        (line("[" * 100_000, booth="?"), "malformed JSON: nested too deeply"),
        (line('{"a":' * 1000 + "1" + "}" * 1000, booth="?"), "malformed JSON: nested too deeply"),
        (line("", booth="x" * 10_000_000), None),
        (line("", at="0001-01-01T00:00:00Z"), None),
        (line("", at="1969-12-31T23:59:59.999999Z"), None),
        (line("", at="9999-12-31T23:59:59.999999Z"), None),
        (line("", at="10000-01-01T00:00:00Z"), "is not an instant"),
        (line("", at="0000-12-31T23:59:59Z"), "is not an instant"),
        (line("", at="0001-01-01T00:00:00+01:00"), OUTSIDE),
        (line("", arrival_time="9999-12-31T23:59:59-01:00"), OUTSIDE),
        (line("", at="2026-01-01T00:00:00.123456789Z"), "more than six fractional digits"),
        (line("", at="2026-01-01T00:00:00.123456000Z"), None),
        (line("", tags=["10000-01-01"]), "is not an instant"),
        (line("NaN", toll="?"), "NaN is no JSON number"),
        (line("-Infinity", toll="?"), "-Infinity is no JSON number"),
        (line("-0.0", toll="?"), None),
        (line("1e400", toll="?"), "does not fit DOUBLE"),
        (line("1e999999999", n="?"), "does not fit BIGINT"),
        (line("9223372036854775808", n="?"), "does not fit BIGINT"),
        (line("9223372036854775808", sequence="?"), "does not fit BIGINT"),
        (line("1.5", input_partition="?"), "does not fit INT"),
        (line("null", sequence="?"), "sequence is missing"),
        (json.dumps(dict.fromkeys(record(1))).encode(), "arrival_time is missing"),
        (json.dumps(record(1, **dict.fromkeys(("at", "booth", "toll", "n", "tags")))).encode(), None),
        (b"null", "not a JSON object"),
        (b"\x00" * 100, "malformed JSON"),
        (line("", booth="a").replace(b'"a"', b'"\xc3"'), "not UTF-8 text"),
        (line('"\\ud800"', at="?"), r"'\ud800' is not an instant"),
        (line('"\\ud800"', booth="?"), "half of a surrogate pair"),
    ],
    ids=lambda given: repr(given)[:60] if isinstance(given, bytes) else None,
)
def test_a_strange_record_is_taken_or_quarantined_and_its_neighbour_is_taken(
    tmp_path: Path, body: bytes, reason: str | None
) -> None:
    file = tmp_path / "cars.jsonl"
    file.write_bytes(body + b"\n" + json.dumps(record(2)).encode())
    first, *rest = sorted(reasons(tmp_path, file), key=str, reverse=reason is not None)
    if reason is None:
        assert [first, *rest] == [None, None]
    else:
        assert [one is None for one in (first, *rest)].count(True) == 1
        assert any(one is not None and reason in one for one in (first, *rest))


@pytest.mark.parametrize(
    ("name", "column", "reason"),
    [
        ("at", pa.array(WIDEST, pa.timestamp("us", "UTC")), OUTSIDE),
        ("at", pa.array(WIDEST, pa.timestamp("ms")), OUTSIDE),
        ("at", pa.array([1, 2], pa.timestamp("ns")), "more than six fractional digits"),
        ("at", pa.array([2**31 - 1, -(2**31)], pa.date32()), OUTSIDE),
        ("arrival_time", pa.array(WIDEST, pa.timestamp("us", "UTC")), OUTSIDE),
        ("tags", pa.array([[one] for one in WIDEST], pa.list_(pa.timestamp("us", "UTC"))), OUTSIDE),
        ("booth", pa.array([b"\xff", b"\xed\xa0\x80"]).view(pa.string()), "is not UTF-8 text"),
        ("booth", pa.array([{"a": 1}] * 2), "does not fit STRING"),
        ("n", pa.array([2**64 - 1] * 2, pa.uint64()), "does not fit BIGINT"),
        ("n", pa.array([math.nan, math.inf]), "does not fit BIGINT"),
        ("sequence", pa.nulls(2), "sequence is missing"),
        ("toll", pa.array([math.nan, -math.inf]), None),
        ("toll", pa.array([-0.0, 5e-324]), None),
    ],
    ids=str,
)
def test_strange_values_of_parquet_are_taken_or_quarantined(
    tmp_path: Path, name: str, column: pa.Array, reason: str | None
) -> None:
    rows = pa.Table.from_pylist([record(1), record(2)])
    rows = rows.set_column(rows.column_names.index(name), name, [column])
    pq.write_table(rows, tmp_path / "cars.parquet")
    found = reasons(tmp_path, tmp_path / "cars.parquet")
    assert len(found) == 2
    assert all(one is None if reason is None else reason in str(one) for one in found)


def test_a_repeated_sequence_number_is_quarantined_whether_the_payload_is_the_same_or_not(tmp_path: Path) -> None:
    for changed in ({}, {"toll": 2.0}):
        file = tmp_path / "cars.jsonl"
        file.write_text("\n".join(map(json.dumps, (record(1), record(1, **changed), record(2)))))
        assert [one is None for one in reasons(tmp_path / str(len(changed)), file)] == [True, True, False]


def _parquet(tmp_path: Path) -> bytes:
    pq.write_table(pa.Table.from_pylist([record(number) for number in range(50)]), tmp_path / "whole.parquet")
    return (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("cars.parquet", lambda whole: b""),
        ("cars.parquet", lambda whole: whole[:-20]),
        ("cars.parquet", lambda whole: b"PAR2" + whole[4:-4] + b"PAR2"),
        ("cars.parquet", lambda whole: whole[:40] + b"\xff" * 400 + whole[440:]),
        ("cars.csv", lambda whole: b""),
        ("cars.jsonl.gz", lambda whole: gzip.compress(whole)[:-30]),
        ("cars.jsonl.gz", lambda whole: whole),
    ],
)
def test_a_damaged_file_is_refused_before_anything_is_written(
    tmp_path: Path, name: str, damage: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(damage(_parquet(tmp_path)))
    with pytest.raises(DataRefused, match=rf"{name}: "):
        ingest(JOB, "cars", [tmp_path / name], tmp_path / "lakehouse")
    assert list((tmp_path / "lakehouse").iterdir()) == []


# -- a damaged lakehouse ----------------------------------------------------------------------------------------------


def _remove(log: Path) -> None:
    next(log.glob("arrival_date=*/*.parquet")).unlink()


def _cut(log: Path) -> None:
    file = next(log.glob("arrival_date=*/*.parquet"))
    file.write_bytes(file.read_bytes()[:50])


def _break_entry(log: Path) -> None:
    (log / "_delta_log" / f"{0:020}.json").write_text('{"add": {')


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [(_remove, "is missing"), (_cut, "is damaged"), (_break_entry, "the table arrivals/cars cannot be opened")],
)
@pytest.mark.parametrize("command", ["ingest", "show"])
def test_a_damaged_lakehouse_is_named_in_one_sentence_and_left_as_it_is(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Path], None],
    sentence: str,
    command: str,
) -> None:
    job, file, lakehouse = tmp_path / "cars.yaml", tmp_path / "cars.jsonl", tmp_path / "lakehouse"
    job.write_text(JOB_TEXT)
    file.write_text(json.dumps(record(1)))
    ingest(JOB, "cars", [file], lakehouse)
    damage(lakehouse / "arrivals" / "cars")
    before = sorted(path for path in lakehouse.rglob("*") if path.is_file())
    file.write_text(json.dumps(record(2)))
    arguments = ["--input", "cars", str(file)] if command == "ingest" else ["arrivals"]
    assert run([command, str(job), *arguments, "--lakehouse", str(lakehouse)]) == 4
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert sentence in error
    assert error.count("\n") == 1
    assert sorted(path for path in lakehouse.rglob("*") if path.is_file()) == before


def test_a_column_that_changed_its_type_in_the_history_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "cars.jsonl"
    file.write_text(json.dumps(record(1)))
    ingest(JOB, "cars", [file], tmp_path / "lakehouse")
    changed = parse_job(JOB_TEXT.replace("n BIGINT", "n STRING"))
    file.write_text(json.dumps(record(2)))
    with pytest.raises(Exception, match="column 'n' is int64 in the log arrivals/cars, but string in the job file"):
        ingest(changed, "cars", [file], tmp_path / "lakehouse")
    log = Lakehouse.at(tmp_path / "lakehouse").open("arrivals/cars")
    assert log is not None
    assert log.version() == 0
