"""Event Hubs Capture: folders as the product writes them become arrivals, exactly and once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import source_rows
from capture_files import message, write_capture
from lakehouse_samples import JOB_TEXT
from source_rows import event

from pipelines.cli.main import run
from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Job
from pipelines.ingest.batch import COUNTS, IngestSummary
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of


def capture_job(tmp_path: Path, regression: str = "quarantine", **more: str) -> Job:
    keys = "".join(f", {key}: {value}" for key, value in more.items())
    source = f"{{kind: eventhubs_capture, path: {tmp_path}/hub{keys}}}"
    return source_rows.source_job(source, regression)


def ingest(tmp_path: Path, of: Job | None = None, until: str | None = None) -> IngestSummary:
    return source_rows.ingest(of or capture_job(tmp_path), tmp_path / "house", until)


def rows(tmp_path: Path, of: Job, table: str = "arrivals") -> list[dict[str, Any]]:
    return source_rows.rows(of, tmp_path / "house", table)


def test_a_message_is_an_arrival_at_the_millisecond_it_was_enqueued(tmp_path: Path) -> None:
    write_capture(tmp_path / "hub", 3, "2026-01-01T12:05:00", [message(7, "2026-01-01T12:01:02.345Z", event(1))])
    summary = ingest(tmp_path)
    (row,) = rows(tmp_path, capture_job(tmp_path))
    assert (row["arrival_time"], row["input_partition"], row["sequence"]) == ("2026-01-01T12:01:02.345000Z", 3, 7)
    assert (row["booth"], row["n"], summary.appended, summary.notes) == ("a", 1, 1, ())


def test_whole_seconds_of_the_twelve_hour_clock_are_read_and_named(tmp_path: Path) -> None:
    late = message(7, "2026-01-01T00:01:02.345Z", event(1), exact=False)
    later = message(8, "2026-01-01T13:01:02.345Z", event(1), exact=False)
    write_capture(tmp_path / "hub", 0, "2026-01-01T13:05:00", [late, later])
    summary = ingest(tmp_path)
    times = [row["arrival_time"] for row in rows(tmp_path, capture_job(tmp_path))]
    assert times == ["2026-01-01T00:01:02Z", "2026-01-01T13:01:02Z"]
    assert "2 message(s) have no x-opt-enqueued-time" in summary.notes[0]


def test_only_what_is_new_is_read_the_next_time(tmp_path: Path) -> None:
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    assert ingest(tmp_path).appended == 1
    assert ingest(tmp_path).version is None
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:10:00", [])
    write_capture(tmp_path / "hub", 1, "2026-01-01T12:10:00", [message(9, "2026-01-01T12:06:00Z", event(2))])
    summary = ingest(tmp_path)
    assert summary.appended == 1
    assert "input partition 1 is new since the last batch" in summary.notes[0]
    assert [run["appended"] for run in runs_of(Lakehouse.at(tmp_path / "house"), "cars_per_booth")] == [1, 1]


def test_the_ledger_gets_a_batch_whose_process_was_killed_before_it_wrote_its_row(tmp_path: Path) -> None:
    messages = [message(n, "2026-01-01T12:01:00Z", body) for n, body in enumerate([event(1), b"{", event(3)])]
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", [*messages, messages[-1]])
    summary = ingest(tmp_path)
    shutil.rmtree(tmp_path / "house" / "runs")  # as if it had not been written
    assert ingest(tmp_path).version is None
    (run,) = runs_of(Lakehouse.at(tmp_path / "house"), "cars_per_booth")
    assert (run["run_id"], run["kind"], run["status"]) == (summary.batch_id, "ingest", "succeeded")
    assert [run[name] for name in COUNTS] == [2, 1, 1, 0]
    assert run["versions_written"] == {"arrivals/cars": summary.version}


def test_until_cuts_each_partition_at_its_first_later_message(tmp_path: Path) -> None:
    times = ["2026-01-01T12:01:00Z", "2026-01-01T12:02:00Z", "2026-01-01T12:03:00Z"]
    for partition in (0, 1):
        messages = [message(n, time, event(n)) for n, time in enumerate(times)]
        write_capture(tmp_path / "hub", partition, "2026-01-01T12:05:00", messages)
    assert ingest(tmp_path, until="2026-01-01T12:02:00Z").appended == 2
    assert ingest(tmp_path, until="2026-01-01T12:02:00Z").appended == 0
    assert ingest(tmp_path).appended == 4
    found = [(row["input_partition"], row["sequence"]) for row in rows(tmp_path, capture_job(tmp_path))]
    assert sorted(found) == [(partition, n) for partition in (0, 1) for n in range(3)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "malformed JSON"),
        (b"\xff", "not UTF-8 text"),
        (None, "the message has no body"),
        ([event(1), event(2)], "the message holds 2 events"),
        (b"[1]", "not a JSON object"),
        ({"n": "x"}, "n: 'x' does not fit INT"),
    ],
)
def test_a_message_that_cannot_be_read_is_quarantined_and_the_rest_is_not(
    tmp_path: Path, body: Any, reason: str
) -> None:
    bodies = [event(1), body, event(3)]
    messages = [message(n, "2026-01-01T12:01:00Z", one) for n, one in enumerate(bodies)]
    write_capture(tmp_path / "hub", 2, "2026-01-01T12:05:00", messages)
    summary = ingest(tmp_path)
    assert (summary.appended, summary.quarantined) == (2, 1)
    (row,) = rows(tmp_path, capture_job(tmp_path), "quarantine")
    assert (row["input_partition"], row["sequence"], row["position"]) == (2, 1, 1)
    assert reason in row["reason"]


def test_many_events_of_a_message_keep_their_order(tmp_path: Path) -> None:
    of = capture_job(tmp_path, events_per_message="many")
    bodies = [[event(1), event(2)], b'{"n": 3}\n{"n": 4}\n', []]
    messages = [message(n, "2026-01-01T12:01:00Z", one) for n, one in enumerate(bodies, start=5)]
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", messages)
    assert ingest(tmp_path, of).appended == 4
    found = [(row["sequence"], row["n"]) for row in rows(tmp_path, of)]
    assert found == [(5 * 65536, 1), (5 * 65536 + 1, 2), (6 * 65536, 3), (6 * 65536 + 1, 4)]


def test_a_duplicate_is_dropped_and_another_payload_is_quarantined(tmp_path: Path) -> None:
    first = [message(n, "2026-01-01T12:01:00Z", event(n)) for n in (1, 2, 3)]
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", [*first, message(3, "2026-01-01T12:01:00Z", event(3))])
    assert (ingest(tmp_path).duplicates) == 1
    again = [message(2, "2026-01-01T12:01:00Z", event(2)), message(3, "2026-01-01T12:01:00Z", event(7))]
    new = [message(4, "2026-01-01T12:06:00Z", event(4)), message(0, "2026-01-01T12:06:00Z", event(0))]
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:10:00", [*again, *new])
    summary = ingest(tmp_path)
    assert (summary.appended, summary.duplicates, summary.quarantined) == (1, 1, 2)
    assert [one.reason for one in summary.refused] == [
        "sequence 3 does not rise: 3 came before it in input partition 0",
        "sequence 0 does not rise: 4 came before it in input partition 0",
    ]


def test_a_clock_that_steps_back_is_quarantined_or_held(tmp_path: Path) -> None:
    times = ["2026-01-01T12:01:00Z", "2026-01-01T12:05:00Z", "2026-01-01T12:04:00Z", "2026-01-01T12:06:00Z"]
    messages = [message(n, time, event(n)) for n, time in enumerate(times)]
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:10:00", messages)
    summary = ingest(tmp_path)
    assert (summary.appended, summary.quarantined) == (3, 1)
    held = capture_job(tmp_path, regression="hold_at_last")
    summary = source_rows.ingest(held, tmp_path / "other")
    assert (summary.appended, summary.quarantined, summary.held_at_last) == (4, 0, 1)
    found = source_rows.rows(held, tmp_path / "other")
    assert [(row["arrival_time"][11:19], row["source_time"]) for row in found] == [
        ("12:01:00", None),
        ("12:05:00", None),
        ("12:05:00", "2026-01-01T12:04:00Z"),
        ("12:06:00", None),
    ]


def test_a_pattern_of_ones_own_and_a_date_in_the_path_are_found(tmp_path: Path) -> None:
    written = write_capture(tmp_path, 4, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    moved = tmp_path / "hub" / "2026-01-01" / "east" / "p4-120500.avro"
    moved.parent.mkdir(parents=True)
    written.rename(moved)
    path, pattern = f"{tmp_path}/hub/{{date}}/*", "p{PartitionId}-{Hour}{Minute}{Second}"
    source = f"{{kind: eventhubs_capture, path: '{path}', pattern: '{pattern}'}}"
    of = source_rows.source_job(source)
    assert ingest(tmp_path, of).appended == 1
    assert rows(tmp_path, of)[0]["input_partition"] == 4


def test_files_that_do_not_match_the_pattern_are_named(tmp_path: Path) -> None:
    write_capture(tmp_path / "hub" / "east", 4, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    summary = ingest(tmp_path)
    assert summary.appended == 0
    assert summary.notes == (
        "1 .avro file(s) below the path do not match the pattern"
        " {PartitionId}/{Year}/{Month}/{Day}/{Hour}/{Minute}/{Second} and are not read, such as"
        " east/4/2026/01/01/12/05/00.avro: change 'path' or 'pattern'",
    )


def test_a_damaged_file_writes_nothing(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataRefused, match="the file is damaged"):
        ingest(tmp_path)
    assert rows(tmp_path, capture_job(tmp_path)) == []


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no folder"):
        ingest(tmp_path)


def test_check_and_plan_say_what_bounds_exactness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"{{kind: eventhubs_capture, path: {tmp_path}/hub, events_per_message: many}}"
    text = JOB_TEXT.replace("timestamp_by: at", f"timestamp_by: at, partitions: 2, source: {source}")
    (tmp_path / "cars.yaml").write_text(text)
    told = tailrace(capsys, "check", tmp_path)
    assert "the sequence of an event is its message's times 65536" in " ".join(told["warnings"])
    assert "an arrival time of whole seconds" in " ".join(told["warnings"])
    write_capture(tmp_path / "hub", 0, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    assert tailrace(capsys, "ingest", tmp_path, "--input", "cars")["appended"] == 1
    write_capture(tmp_path / "hub", 2, "2026-01-01T12:05:00", [message(1, "2026-01-01T12:01:00Z", event(1))])
    (tmp_path / "hub/0/2026/01/01/12/05/00.avro").unlink()
    sentences = " ".join(tailrace(capsys, "plan", tmp_path)["sources"]["cars"])
    assert "byte(s) that are not ingested" in sentences
    assert "input partition 2 is new since the last batch" in sentences
    assert "the job file says 'partitions: 2'" in sentences
    assert "the last file that was read of input partition 0 is gone" in sentences
    (tmp_path / "hub/2/2026/01/01/12/05/00.avro").unlink()
    (tmp_path / "hub").rename(tmp_path / "gone")
    assert "the source cannot be looked at" in tailrace(capsys, "plan", tmp_path)["sources"]["cars"][0]


def tailrace(capsys: pytest.CaptureFixture[str], command: str, folder: Path, *more: str) -> Any:
    options = ["--json", "--lakehouse", str(folder / "house")]
    run([command, str(folder / "cars.yaml"), *more, *options])
    return json.loads(capsys.readouterr().out)
