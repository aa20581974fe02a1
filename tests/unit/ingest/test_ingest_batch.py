"""Ingest: good records are appended exactly and once, bad ones named and kept."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, WriterProperties, write_deltalake
from lakehouse_samples import job, lines, record

from pipelines.core.errors import DataRefused, EnvironmentUnfit, UsageError
from pipelines.ingest.batch import IngestSummary, ingest
from pipelines.job.load import load_job
from pipelines.lakehouse.arrival_log import end_of_log, log_files
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.lakehouse.sorted_files import sorted_files

JOB = job()


def _ingest(tmp_path: Path, *records: dict[str, Any] | str, **more: Any) -> IngestSummary:
    return ingest(JOB, "cars", [lines(tmp_path / "cars.jsonl", *records)], tmp_path / "lakehouse", **more)


def _rows(tmp_path: Path, table: str = "arrivals") -> list[dict[str, Any]]:
    rows = rows_of(JOB, table, tmp_path / "lakehouse")
    return [] if rows is None else plain_rows(rows)


def test_a_good_record_is_in_the_log_as_it_was_received(tmp_path: Path) -> None:
    summary = _ingest(tmp_path, record(7, at="2026-01-01T14:05:00.000001+02:00", n=None))
    assert (summary.events, summary.quarantined, summary.warnings) == (1, 0, ())
    (row,) = _rows(tmp_path)
    assert row == {
        "arrival_time": "2026-01-01T12:07:00Z",
        "input_partition": 0,
        "sequence": 7,
        "kind": "event",
        "punctuation_time": None,
        "cause": None,
        "batch_id": summary.batch_id,
        "at": "2026-01-01T12:05:00.000001Z",
        "booth": "a",
        "n": None,
        "x": 0.5,
        "arrival_date": "2026-01-01",
    }


def test_a_punctuation_may_speak_for_all_partitions(tmp_path: Path) -> None:
    punctuation = {"arrival_time": "2026-01-01T12:30:00Z", "input_partition": None, "sequence": 0, "cause": "idle"}
    summary = _ingest(tmp_path, {**punctuation, "punctuation_time": "2026-01-01T12:20:00Z"})
    assert (summary.events, summary.punctuations) == (0, 1)
    (row,) = _rows(tmp_path)
    assert (row["kind"], row["input_partition"], row["cause"]) == ("punctuation", None, "idle")


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"arrival_time": "2026', "malformed JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"sequence": 3, "sequence": 4}', "key 'sequence' occurs twice"),
        (record(3, arrival_time=None), "arrival_time is missing"),
        (record(3, arrival_time="noon"), "arrival_time: 'noon' is not an instant"),
        (record(3, arrival_time="2026-01-01T12:03:00.1234567Z"), "more than six fractional digits"),
        (record(3, arrival_time=1_767_268_800), "arrival_time: 1767268800 does not fit TIMESTAMP"),
        (record(3, sequence=None), "sequence is missing"),
        (record(3, sequence=-1), "sequence is negative"),
        (record(3, sequence=1.5), "sequence: 1.5 does not fit BIGINT"),
        (record(3, input_partition=None), "input_partition is missing"),
        (record(3, input_partition=-1), "input_partition is negative"),
        (record(3, input_partition="x"), "input_partition: 'x' does not fit INT"),
        (record(3, n="twelve"), "n: 'twelve' does not fit INT"),
        (record(3, n=2**31), "n: 2147483648 does not fit INT"),
        (json.dumps(record(3, x=7)).replace("7}", "1e400}"), "x: 1e400 does not fit DOUBLE"),
        (record(3, at="garbage"), "at: 'garbage' is not an instant"),
        (record(3, kind="tick"), "kind is neither event nor punctuation"),
        (record(3, kind="punctuation"), "a punctuation without punctuation_time"),
        (record(3, kind="event", punctuation_time="2026-01-01T12:00:00Z"), "an event with a punctuation_time"),
        (record(2, minute=3), "sequence 2 does not rise: 2 came before it in input partition 0"),
        (record(3, minute=1), "arrival_time 2026-01-01T12:01:00Z falls: 2026-01-01T12:02:00Z came before it"),
    ],
)
def test_a_bad_record_is_quarantined_with_its_line_and_its_neighbours_are_not(
    tmp_path: Path, bad: dict[str, Any] | str, reason: str
) -> None:
    summary = _ingest(tmp_path, record(1), record(2), "", bad, record(4))
    assert (summary.events, summary.quarantined) == (3, 1)
    (refused,) = _rows(tmp_path, "quarantine")
    assert reason in refused["reason"]
    assert refused["position"] == 4
    assert refused["source"] == str(tmp_path / "cars.jsonl")
    assert refused["raw"] == (bad if isinstance(bad, str) else json.dumps(bad))
    assert [row["sequence"] for row in _rows(tmp_path)] == [1, 2, 4]


def test_a_line_that_is_not_utf_8_is_quarantined(tmp_path: Path) -> None:
    file = lines(tmp_path / "cars.jsonl", record(1))
    file.write_bytes(b'{"booth": "\xff"}\n' + file.read_bytes())
    summary = ingest(JOB, "cars", [file], tmp_path / "lakehouse")
    assert [(one.position, one.reason) for one in summary.refused] == [(1, "not UTF-8 text")]


def test_a_partition_beyond_the_input_s_last_is_quarantined(tmp_path: Path) -> None:
    file = lines(tmp_path / "cars.jsonl", record(1, input_partition=1), record(2, input_partition=2))
    summary = ingest(job(partitions="2"), "cars", [file], tmp_path / "lakehouse")
    assert [one.reason for one in summary.refused] == ["input_partition is beyond 1, the input's last"]


@pytest.mark.parametrize("end", ["jsonl", "csv"])
def test_a_column_may_be_written_in_another_case(tmp_path: Path, end: str) -> None:
    text = {
        "jsonl": '{"arrival_time": "2026-01-01T12:07:00Z", "input_partition": 0, "sequence": 7,'
        ' "AT": "2026-01-01T12:05:00Z", "Booth": "b", "booth": "a", "N": 3, "x": 0.5}',
        "csv": "Arrival_Time,input_partition,sequence,AT,booth,N,x\n"
        "2026-01-01T12:07:00Z,0,7,2026-01-01T12:05:00Z,a,3,0.5",
    }
    path = tmp_path / f"cars.{end}"
    path.write_text(text[end])
    ingest(JOB, "cars", [path], tmp_path / "lakehouse")
    (row,) = _rows(tmp_path)
    assert (row["at"], row["booth"], row["n"]) == ("2026-01-01T12:05:00Z", "a", 3)


def test_a_record_without_a_column_of_create_table_is_no_event(tmp_path: Path) -> None:
    (tmp_path / "q.asaql").write_text("CREATE TABLE cars (At datetime, booth nvarchar(max)); SELECT booth FROM cars")
    (tmp_path / "q.yaml").write_text(
        'tailrace: 1\njob: q\nprofile: stream_analytics\ninputs: {cars: {columns: "at TIMESTAMP, booth STRING"}}\n'
        "query: {sql: q.asaql}\n"
    )
    order = {"arrival_time": "2026-01-01T12:07:00Z", "input_partition": 0}
    records = [
        {**order, "sequence": 0, "AT": "2026-01-01T12:05:00Z"},
        {**order, "sequence": 1, "AT": "2026-01-01T12:05:00Z", "booth": None},
        {**order, "sequence": 2, "punctuation_time": "2026-01-01T12:06:00Z"},
    ]
    (tmp_path / "cars.jsonl").write_text("\n".join(map(json.dumps, records)))
    found = ingest(load_job(tmp_path / "q.yaml"), "cars", [tmp_path / "cars.jsonl"], tmp_path / "lakehouse")
    assert (found.events, found.punctuations, found.quarantined) == (1, 1, 1)
    assert [one.reason for one in found.refused] == ["booth: is missing, which CREATE TABLE demands (Q29)"]


def test_unknown_keys_are_ignored_and_counted(tmp_path: Path) -> None:
    summary = _ingest(tmp_path, record(1, colour="red"), record(2), record(3, colour="blue"))
    assert summary.warnings == ("'colour' is not a column of input cars; it was ignored in 2 record(s)",)


def test_a_key_left_out_is_null(tmp_path: Path) -> None:
    short = record(1)
    del short["booth"]
    assert _ingest(tmp_path, short).events == 1
    assert _rows(tmp_path)[0]["booth"] is None


def test_the_order_goes_on_across_batches_and_files(tmp_path: Path) -> None:
    _ingest(tmp_path, record(1), record(2))
    first = lines(tmp_path / "one.jsonl", record(2), record(3))
    second = lines(tmp_path / "two.jsonl", record(3), record(4), record(9, input_partition=1, minute=0))
    summary = ingest(JOB, "cars", [first, second], tmp_path / "lakehouse")
    assert [(Path(one.source).name, one.position) for one in summary.refused] == [("one.jsonl", 1), ("two.jsonl", 1)]
    assert [row["sequence"] for row in _rows(tmp_path)] == [9, 1, 2, 3, 4]


@pytest.mark.parametrize("chunk", [1, 2, 3, 50])
@pytest.mark.parametrize("wild", [{"sequence": 10**12}, {"arrival_time": "2062-01-01T00:00:00Z"}])
def test_a_record_far_ahead_is_quarantined_alone_wherever_a_chunk_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int, wild: dict[str, Any]
) -> None:
    from pipelines.ingest import readers

    monkeypatch.setattr(readers, "CHUNK", chunk)
    good = [record(n) for n in range(6)]
    summary = _ingest(tmp_path, *good[:3], record(3, **wild), "bad", *good[3:])
    assert [(one.position, one.reason.split(",")[-1]) for one in summary.refused] == [
        (4, " is ahead of records that come after it in input partition 0"),
        (5, "malformed JSON: Expecting value (column 1)"),
    ]
    assert [row["sequence"] for row in _rows(tmp_path)] == [0, 1, 2, 3, 4, 5]
    assert len(_rows(tmp_path, "quarantine")) == 2
    assert _ingest(tmp_path, record(6)).appended == 1


def test_a_batch_in_disorder_names_each_refused_record_by_its_own_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.ingest import readers

    monkeypatch.setattr(readers, "CHUNK", 2)
    files = [
        lines(tmp_path / "a.jsonl", record(1), record(2, sequence=90), record(2)),
        lines(tmp_path / "b.jsonl", record(1, minute=2), record(3), record(2, minute=59, sequence=4), record(5)),
    ]
    summary = ingest(JOB, "cars", files, tmp_path / "lakehouse")
    assert [(Path(one.source).name, one.position, one.reason) for one in summary.refused] == [
        (
            "a.jsonl",
            2,
            "sequence 90, arrived 2026-01-01T12:02:00Z, is ahead of records that come after it in input partition 0",
        ),
        ("b.jsonl", 1, "sequence 1 does not rise: 2 came before it in input partition 0"),
        (
            "b.jsonl",
            3,
            "sequence 4, arrived 2026-01-01T12:59:00Z, is ahead of records that come after it in input partition 0",
        ),
    ]
    assert [row["sequence"] for row in _rows(tmp_path)] == [1, 2, 3, 5]


def test_text_used_as_the_timestamp_keeps_to_six_digits_but_need_not_be_a_time(tmp_path: Path) -> None:
    textual = job("at STRING, booth STRING")
    file = lines(tmp_path / "cars.jsonl", record(1, at="2026-01-01T12:00:00.1234567Z"), record(2, at="garbage"))
    summary = ingest(textual, "cars", [file], tmp_path / "lakehouse")
    assert [(one.position, one.reason) for one in summary.refused] == [(1, "at: has more than six fractional digits")]


def test_an_input_that_truncates_cuts_all_its_instants(tmp_path: Path) -> None:
    file = lines(tmp_path / "cars.jsonl", record(1, at="2026-01-01T12:00:00.1234569Z"))
    assert ingest(job(sub_microsecond="truncate"), "cars", [file], tmp_path / "lakehouse").quarantined == 0
    assert _rows(tmp_path)[0]["at"] == "2026-01-01T12:00:00.123456Z"


# -- batches ------------------------------------------------------------------------------------------------------


def test_the_same_content_twice_is_a_no_op_whatever_the_file_is_called(tmp_path: Path) -> None:
    first = _ingest(tmp_path, record(1), "bad")
    again = ingest(JOB, "cars", [lines(tmp_path / "other.jsonl", record(1), "bad")], tmp_path / "lakehouse")
    assert not first.already_ingested
    assert again.already_ingested
    assert len(_rows(tmp_path)) == 1
    assert len(_rows(tmp_path, "quarantine")) == 1


def test_a_named_batch_is_taken_once_even_with_other_content(tmp_path: Path) -> None:
    _ingest(tmp_path, record(1), batch="monday")
    assert _ingest(tmp_path, record(2), batch="monday").already_ingested
    assert [row["sequence"] for row in _rows(tmp_path)] == [1]


def test_an_empty_batch_makes_an_empty_log_and_is_remembered(tmp_path: Path) -> None:
    assert _ingest(tmp_path).appended == 0
    assert _ingest(tmp_path).already_ingested
    assert _rows(tmp_path) == []


def test_another_batch_committed_meanwhile_makes_the_records_be_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.ingest import batch as module

    _ingest(tmp_path, record(1))
    other = lines(tmp_path / "other.jsonl", record(2), record(3))
    plain_read = module.Batch.read
    disturbed: list[bool] = []

    def read(self: Any, *arguments: Any) -> None:
        plain_read(self, *arguments)
        if not disturbed:
            disturbed.append(True)
            ingest(JOB, "cars", [other], tmp_path / "lakehouse")

    monkeypatch.setattr(module.Batch, "read", read)
    summary = ingest(JOB, "cars", [lines(tmp_path / "mine.jsonl", record(3), record(4))], tmp_path / "lakehouse")
    assert [one.position for one in summary.refused] == [1]
    assert [row["sequence"] for row in _rows(tmp_path)] == [1, 2, 3, 4]


def test_rows_are_laid_out_by_arrival_so_that_statistics_prune(tmp_path: Path) -> None:
    early = lines(tmp_path / "b.jsonl", record(5, input_partition=1, minute=1))
    ingest(JOB, "cars", [lines(tmp_path / "a.jsonl", record(1, minute=50)), early], tmp_path / "lakehouse")
    ingest(JOB, "cars", [lines(tmp_path / "c.jsonl", record(2, minute=59))], tmp_path / "lakehouse")
    table = DeltaTable(tmp_path / "lakehouse" / "arrivals" / "cars")
    first = next(file for file in table.file_uris() if pq.read_metadata(file).num_rows == 2)
    assert pq.ParquetFile(first).read(["sequence"])["sequence"].to_pylist() == [5, 1]
    minute_59_us = 1_767_272_340_000_000
    assert [
        file.may_contain(minute_59_us, None) for file in sorted(log_files(table), key=lambda f: f.last_us or 0)
    ] == [
        False,
        True,
    ]
    assert end_of_log(log_files(table)) == minute_59_us


def test_large_batches_are_written_in_sorted_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.ingest import readers, sorted_runs

    monkeypatch.setattr(sorted_runs, "RUN_ROWS", 4)
    monkeypatch.setattr(readers, "CHUNK", 3)
    summary = _ingest(tmp_path, *[record(i) for i in range(20)], "bad")
    assert (summary.events, summary.quarantined) == (20, 1)
    assert [row["sequence"] for row in _rows(tmp_path)] == list(range(20))


def test_a_day_that_is_too_large_for_one_file_is_written_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.ingest import readers, sorted_runs
    from pipelines.lakehouse import append

    monkeypatch.setattr(readers, "CHUNK", 3)
    monkeypatch.setattr(sorted_runs, "RUN_ROWS", 3)
    monkeypatch.setattr(sorted_runs, "MARK_ROWS", 1)
    monkeypatch.setattr(sorted_runs, "ROWS_A_GROUP", 2)
    monkeypatch.setattr(append, "FILE_BYTES", 1)
    # two days
    hours = [record(n, arrival_time=f"2026-01-0{1 + n // 12}T{n % 12 + 6:02}:00:00Z") for n in range(24)]
    assert _ingest(tmp_path, *hours).appended == 24
    assert [(row["sequence"], row["arrival_time"]) for row in _rows(tmp_path)] == [
        (n, one["arrival_time"]) for n, one in enumerate(hours)
    ]


def test_each_partition_lies_in_order_in_its_files_however_many_runs_a_batch_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.ingest import sorted_runs

    many, noon_us = 300_000, 1_767_268_800_000_000
    # the second half is of the next day
    times_us = [noon_us + 250_000 * n for n in range(many)]
    rows = {
        "arrival_time": pa.array(times_us, pa.timestamp("us", "UTC")),
        "input_partition": pa.array([n % 3 for n in range(many)], pa.int32()),
        "sequence": pa.array(range(many), pa.int64()),
        "at": pa.array(times_us, pa.timestamp("us", "UTC")),
        "booth": pa.array(["a"] * many),
        "n": pa.array([1] * many, pa.int32()),
        "x": pa.array([0.5] * many),
    }
    pq.write_table(pa.table(rows), tmp_path / "big.parquet")
    monkeypatch.setattr(sorted_runs, "RUN_ROWS", 60_000)
    assert ingest(JOB, "cars", [tmp_path / "big.parquet"], tmp_path / "lakehouse").appended == many
    log = DeltaTable(str(tmp_path / "lakehouse" / "arrivals" / "cars"))
    files = sorted_files(log, [file.path for file in log_files(log)])
    midnight_us = noon_us + 12 * 3_600_000_000
    assert [one[1:] for one in files] == [(noon_us, midnight_us - 250_000), (midnight_us, times_us[-1])]
    for file in files:
        held = pq.read_table(tmp_path / "lakehouse" / "arrivals" / "cars" / file.path, columns=["sequence"])
        found = held["sequence"].to_pylist()
        assert found == sorted(found)


def test_files_that_overlap_or_lie_in_disorder_are_not_taken_to_be_in_order(tmp_path: Path) -> None:
    def log_of(name: str, *commits: list[int]) -> DeltaTable:
        for minutes in commits:
            times = pa.array([1_767_225_600_000_000 + 60_000_000 * each for each in minutes], pa.timestamp("us", "UTC"))
            rows = pa.table({"arrival_time": times, "arrival_date": pa.array(["2026-01-01"] * len(minutes))})
            small = WriterProperties(max_row_group_size=2)
            write_deltalake(
                tmp_path / name, rows, mode="append", partition_by=["arrival_date"], writer_properties=small
            )
        return DeltaTable(str(tmp_path / name))

    def found(log: DeltaTable) -> int:
        return len(sorted_files(log, [file.path for file in log_files(log)]))

    assert found(log_of("in order", [4, 4, 5, 9], [0, 1, 2, 3, 4])) == 2
    assert found(log_of("overlap", [4, 4, 5, 9], [0, 1, 2, 3, 5])) == 0
    assert found(log_of("disorder", [0, 1, 5, 9, 8, 10])) == 0
    # inside a row group footers tell nothing
    assert found(log_of("inside", [0, 1, 9, 5, 9, 10])) == 1
    assert sorted_files(log_of("none", [1]), []) == ()


# -- formats ------------------------------------------------------------------------------------------------------

HEADER = "arrival_time,input_partition,sequence,at,booth,n,x\n"


def _csv(tmp_path: Path, body: str, header: str = HEADER) -> IngestSummary:
    file = tmp_path / "cars.csv"
    file.write_text(header + body)
    return ingest(JOB, "cars", [file], tmp_path / "lakehouse")


def test_csv_knows_quoted_line_breaks_and_empty_fields_are_null(tmp_path: Path) -> None:
    time = "2026-01-01T12:00:00Z"
    summary = _csv(tmp_path, f'{time},0,1,{time},"two\nlines, ""quoted""",,\n{time},0,2,{time},NaN,3,0.1\n')
    assert summary.quarantined == 0
    assert [(row["booth"], row["n"], row["x"]) for row in _rows(tmp_path)] == [
        ('two\nlines, "quoted"', None, None),
        ("NaN", 3, 0.1),
    ]


def test_a_broken_csv_record_costs_its_own_line_only(tmp_path: Path) -> None:
    time = "2026-01-01T12:00:00Z"
    good = [f"{time},0,{i},{time},a,1,1" for i in range(5)]
    body = "\n".join(
        [good[0], f'{time},0,9,{time},"never closed,1,1', good[1], "too,few", good[2], f"{good[3]},1", good[4]]
    )
    summary = _csv(tmp_path, body)
    assert [(one.position, one.reason.split(":")[0]) for one in summary.refused] == [
        (3, "malformed CSV"),
        (5, "has 2 fields, the header 7"),
        (7, "has 8 fields, the header 7"),
    ]
    assert [row["sequence"] for row in _rows(tmp_path)] == [0, 1, 2, 4]


def test_a_csv_file_that_lacks_a_column_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(DataRefused, match=r"cars\.csv: the file lacks the column 'booth'; did you mean 'boot'"):
        _csv(tmp_path, "", HEADER.replace("booth", "boot"))
    assert not (tmp_path / "lakehouse" / "arrivals").exists()


def test_an_empty_csv_file_has_no_header(tmp_path: Path) -> None:
    with pytest.raises(DataRefused, match="no header"):
        _csv(tmp_path, "", "")


def _parquet(tmp_path: Path, **changed: pa.Array) -> IngestSummary:
    time = pa.array([1_767_268_800_000_000, 1_767_268_860_000_000], pa.timestamp("us", "UTC"))
    columns = {
        "arrival_time": time,
        "input_partition": pa.array([0, 0]),
        "sequence": pa.array([1, 2]),
        "at": time,
        "booth": pa.array(["a", "b"]).dictionary_encode(),
        "n": pa.array([1, 2**40]),
        "x": pa.array([0.5, None], pa.float32()),
        **changed,
    }
    pq.write_table(
        pa.table({name: column for name, column in columns.items() if column is not None}), tmp_path / "c.parquet"
    )
    return ingest(JOB, "cars", [tmp_path / "c.parquet"], tmp_path / "lakehouse")


def test_parquet_values_are_taken_where_they_fit_and_rows_are_counted_from_1(tmp_path: Path) -> None:
    summary = _parquet(tmp_path)
    assert [(one.position, one.reason) for one in summary.refused] == [(2, "n: 1099511627776 does not fit INT")]
    (row,) = _rows(tmp_path)
    assert (row["at"], row["booth"], row["n"], row["x"]) == ("2026-01-01T12:00:00Z", "a", 1, 0.5)
    (kept,) = _rows(tmp_path, "quarantine")
    assert json.loads(kept["raw"])["n"] == 2**40


def test_a_parquet_file_that_lacks_a_column_is_refused_as_a_whole(tmp_path: Path) -> None:
    with pytest.raises(DataRefused, match="lacks the column 'n'"):
        _parquet(tmp_path, n=None)


def test_gzipped_files_are_read_and_damaged_ones_write_nothing(tmp_path: Path) -> None:
    text = lines(tmp_path / "plain.jsonl", *[record(i) for i in range(50)]).read_bytes()
    whole, cut = tmp_path / "whole.jsonl.gz", tmp_path / "cut.jsonl.gz"
    whole.write_bytes(gzip.compress(text))
    cut.write_bytes(gzip.compress(text)[:-20])
    with pytest.raises(DataRefused, match="damaged"):
        ingest(JOB, "cars", [cut], tmp_path / "lakehouse")
    assert not (tmp_path / "lakehouse" / "arrivals").exists()
    assert ingest(JOB, "cars", [whole], tmp_path / "lakehouse").events == 50


# -- errors of use ------------------------------------------------------------------------------------------------


def test_errors_of_use_say_what_to_do(tmp_path: Path) -> None:
    file = lines(tmp_path / "cars.jsonl", record(1))
    with pytest.raises(UsageError, match="no input 'car'; did you mean 'cars'"):
        ingest(JOB, "car", [file], tmp_path / "lakehouse")
    with pytest.raises(UsageError, match="cannot be read"):
        ingest(JOB, "cars", [tmp_path / "absent.jsonl"], tmp_path / "lakehouse")
    with pytest.raises(UsageError, match="format is not known"):
        ingest(JOB, "cars", [lines(tmp_path / "cars.txt")], tmp_path / "lakehouse")
    with pytest.raises(UsageError, match="not a batch id"):
        ingest(JOB, "cars", [file], tmp_path / "lakehouse", batch="a'b")


def test_a_lakehouse_that_cannot_be_written_is_the_environment_s_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentUnfit, match="cannot be written"):
        ingest(JOB, "cars", [lines(tmp_path / "cars.jsonl", record(1))], tmp_path / "file" / "house")


def test_a_log_of_other_columns_is_not_mixed_up(tmp_path: Path) -> None:
    _ingest(tmp_path, record(1))
    file = lines(tmp_path / "more.jsonl", record(2))
    with pytest.raises(UsageError, match="column 'n' is int32"):
        ingest(job("at TIMESTAMP, booth STRING, n STRING, x DOUBLE"), "cars", [file], tmp_path / "lakehouse")
    with pytest.raises(UsageError, match="has a column 'x' that the input does not name"):
        ingest(job("at TIMESTAMP, booth STRING, n INT"), "cars", [file], tmp_path / "lakehouse")
    assert ingest(job(f"{_COLUMNS}, lane INT"), "cars", [file], tmp_path / "lakehouse").events == 1
    assert [row["lane"] for row in _rows(tmp_path)] == [None, None]


_COLUMNS = "at TIMESTAMP, booth STRING, n INT, x DOUBLE"


def test_properties_that_a_struct_does_not_name_are_counted_by_their_path(tmp_path: Path) -> None:
    of = job(
        "at TIMESTAMP, booth STRING, place STRUCT<lat: DOUBLE>, stops ARRAY<STRUCT<n: INT>>,"
        " by MAP<STRING, STRUCT<n: INT>>"
    )
    order = {"input_partition": 0, "arrival_time": "2026-01-01T12:00:00Z"}
    records = [
        {**order, "sequence": 1, "place": {"LAT": 1.0, "alt": 5, "geo": {"x": 1}}},
        {**order, "sequence": 2, "place": {"alt": 6}, "stops": [{"n": 1, "m": 2}, {"m": 3}, None]},
        {**order, "sequence": 3, "place": None, "stops": [], "by": {"a": {"n": 1}, "b": {"k": 1}}},
    ]
    file = lines(tmp_path / "cars.jsonl", *records)
    assert ingest(of, "cars", [file], tmp_path / "lakehouse").warnings == (
        "'by.k' is not a column of input cars; it was ignored in 1 record(s)",
        "'place.alt' is not a column of input cars; it was ignored in 2 record(s)",
        "'place.geo' is not a column of input cars; it was ignored in 1 record(s)",
        "'stops.m' is not a column of input cars; it was ignored in 1 record(s)",
    )
