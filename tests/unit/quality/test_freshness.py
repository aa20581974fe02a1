"""The newest settled day: what a plan would call settled if the log ended with the slowest partition's last word."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from capture_files import message, write_capture

from pipelines.core.model import Job, OutputRange
from pipelines.core.time import DAY, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.ingest.from_source import ingest_source
from pipelines.ingest.references import ingest_reference
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.freshness import Settled, newest_settled_day, stale_days
from pipelines.replay.builder import make_plan


def job(profile: str, ordering: str, window: str = "{tumbling: {size: 1h}}", more: str = "") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: docks
profile: {profile}
inputs: {{bikes: {{columns: "at TIMESTAMP, until TIMESTAMP, edge STRING", timestamp_by: at{more}}}}}
ordering: {ordering}
query: {{from: bikes, window: {window}, aggregates: {{bikes: "count(*)"}}}}
"""
    )


ATLAS = job("atlas", "{allowed_lateness: 5m}", more=", partitions: 2")


def settled(tmp_path: Path, of: Job, *arrivals: tuple[int, str, str]) -> Settled:
    """The answer for a log of (partition, arrival, event time); an instant is ``03T00:10`` for the third of March."""
    sequences: dict[int, int] = {}
    lines = []
    for partition, arrival, at in arrivals:
        sequences[partition] = sequences.get(partition, -1) + 1
        record = {"arrival_time": f"2026-03-{arrival}Z", "at": f"2026-03-{at}Z", "until": f"2026-03-{at}Z"}
        lines.append(json.dumps({**record, "input_partition": partition, "sequence": sequences[partition]}) + "\n")
    file = tmp_path / "log.jsonl"
    file.write_text("".join(lines))
    assert ingest(of, "bikes", [file], tmp_path / "lakehouse").quarantined == 0
    return newest_settled_day(lakehouse(tmp_path), of)


def lakehouse(tmp_path: Path) -> Lakehouse:
    return Lakehouse.at(tmp_path / "lakehouse")


def plan_is_settled(tmp_path: Path, of: Job, day: str) -> bool:
    from_us = parse_instant(f"2026-03-{day}T00:00:00Z")
    return make_plan(of, OutputRange(from_us, from_us + DAY), tmp_path / "lakehouse").settled


FIRST = [(0, "01T12:00:00", "01T12:00:00"), (1, "01T12:00:00", "01T12:00:00")]
SECOND = [(0, "02T12:00:00", "02T12:00:00"), (1, "02T12:00:00", "02T12:00:00")]


def test_an_atlas_day_is_settled_once_every_partition_has_closed_its_last_window(tmp_path: Path) -> None:
    passed = [(0, "03T00:05:00", "03T00:05:00"), (1, "03T00:05:00", "03T00:05:00")]
    later = [(0, "03T00:06:00", "03T00:06:00"), (1, "03T00:07:00", "03T00:07:00")]
    found = settled(tmp_path, ATLAS, *FIRST, *SECOND, *passed, *later)
    assert found == Settled(
        date(2026, 3, 2), "the log has all of the slowest partition, bikes/0, up to 2026-03-03T00:06:00Z"
    )
    assert plan_is_settled(tmp_path, ATLAS, "02")
    assert not plan_is_settled(tmp_path, ATLAS, "03")


def test_a_watermark_a_microsecond_below_the_end_of_the_last_window_settles_no_day_after(tmp_path: Path) -> None:
    short = [(0, "03T00:05:00", "03T00:04:59.999998"), (1, "03T00:05:00", "03T00:05:00")]
    later = [(0, "03T00:06:00", "03T00:04:00"), (1, "03T00:07:00", "03T00:07:00")]
    assert settled(tmp_path, ATLAS, *FIRST, *SECOND, *short, *later).day == date(2026, 3, 1)
    assert not plan_is_settled(tmp_path, ATLAS, "02")


def test_what_a_partition_may_still_bring_before_the_others_closed_the_day_holds_it_back(tmp_path: Path) -> None:
    # partition 0 closes the second at half past; partition 1 may still bring an event of 00:20 that counts in it
    close = [(1, "03T00:05:00", "03T00:05:00"), (1, "03T00:20:00", "03T00:20:00"), (0, "03T00:30:00", "03T00:30:00")]
    assert settled(tmp_path, ATLAS, *FIRST, *SECOND, *close).day == date(2026, 3, 1)
    assert plan_is_settled(tmp_path, ATLAS, "02"), "a plan takes the log as it is for all there was"


def test_a_declared_partition_that_fell_silent_holds_atlas_days_back_for_good(tmp_path: Path) -> None:
    alone = [(0, f"{day:02d}T12:00:00", f"{day:02d}T12:00:00") for day in range(3, 9)]
    assert settled(tmp_path, ATLAS, *FIRST, *SECOND, *alone).day == date(2026, 3, 1)
    assert not plan_is_settled(tmp_path, ATLAS, "02")


def test_undeclared_partitions_settle_no_atlas_day_and_the_answer_says_what_would(tmp_path: Path) -> None:
    found = settled(
        tmp_path, job("atlas", "{allowed_lateness: 5m}"), *FIRST, *SECOND, (0, "05T12:00:00", "05T12:00:00")
    )
    assert found.day is None
    assert "no day is settled: the watermark would wait for an input partition" in found.why
    assert "set 'partitions' of input bikes" in found.why


def test_a_log_shorter_than_a_day_has_no_settled_day(tmp_path: Path) -> None:
    found = settled(tmp_path, ATLAS, *FIRST)
    assert found.day is None
    assert "windows of the range are still open" in found.why


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (
            job(
                "stream_insight",
                "{advance: {every: 1}, action: drop}",
                more=", shape: edge, end_by: until, edge_by: edge",
            ),
            "an edge that opened long ago may still be open",
        ),
        (
            job("atlas", "{boundary: processing_time}", "{session: {gap: 1h}}", ", partitions: 2"),
            "a session by processing time continues as long as arrivals follow each other",
        ),
    ],
)
def test_a_job_that_hangs_on_its_whole_log_has_no_settled_day(tmp_path: Path, of: Job, why: str) -> None:
    records = [
        {"arrival_time": f"2026-03-0{day}T12:00:00Z", "at": f"2026-03-0{day}T12:00:00Z", "edge": "start"}
        | {"until": "2026-04-01T00:00:00Z", "input_partition": 0, "sequence": day}
        for day in range(1, 5)
    ]
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(of, "bikes", [file], tmp_path / "lakehouse").quarantined == 0
    found = newest_settled_day(lakehouse(tmp_path), of)
    assert found.day is None
    assert why in found.why


def test_a_stream_insight_day_is_settled_once_the_current_time_has_passed_it(tmp_path: Path) -> None:
    of = job("stream_insight", "{advance: {every: 1}, delay: 1m, action: drop}")
    last = [(0, "03T00:01:00", "03T00:00:59.999998"), (0, "03T00:02:00", "03T00:00:30")]
    last += [(1, "03T00:02:00", "03T00:00:30")]
    assert settled(tmp_path, of, *FIRST, *SECOND, *last).day == date(2026, 3, 1)
    assert not plan_is_settled(tmp_path, of, "02")


def test_a_stream_insight_day_is_settled_by_the_event_that_moves_the_current_time_past_it(tmp_path: Path) -> None:
    of = job("stream_insight", "{advance: {every: 1}, delay: 1m, action: drop}")
    last = [(0, "03T00:01:00", "03T00:00:59.999999"), (0, "03T00:02:00", "03T00:00:30")]
    last += [(1, "03T00:02:00", "03T00:00:30")]
    assert settled(tmp_path, of, *FIRST, *SECOND, *last).day == date(2026, 3, 2)
    assert plan_is_settled(tmp_path, of, "02")


def test_an_unbounded_tolerance_settles_a_day_once_all_declared_partitions_have_passed_it(tmp_path: Path) -> None:
    of = job("stream_analytics", "{late_arrival: unbounded, out_of_order: 1m}", more=", partitions: 2")
    last = [(0, "03T00:02:00", "03T00:02:00"), (1, "03T00:02:00", "03T00:02:00")]
    later = [(0, "03T00:03:00", "03T00:03:00"), (1, "03T00:03:00", "03T00:03:00")]
    assert settled(tmp_path, of, *FIRST, *SECOND, *last, *later).day == date(2026, 3, 2)
    assert plan_is_settled(tmp_path, of, "02")


@pytest.mark.parametrize(("last", "day"), [("03T00:05:00", date(2026, 3, 1)), ("03T00:05:00.001", date(2026, 3, 2))])
def test_a_bounded_tolerance_settles_a_day_once_every_partition_spoke_after_it(
    tmp_path: Path, last: str, day: date
) -> None:
    of = job("stream_analytics", "{late_arrival: 5m, out_of_order: 0s}")
    assert settled(tmp_path, of, *FIRST, *SECOND, (0, "03T06:00:00", "03T06:00:00"), (1, last, last)).day == day


def test_empty_files_of_a_capture_settle_a_day_in_which_nothing_more_came(tmp_path: Path) -> None:
    source = f", source: {{kind: eventhubs_capture, path: '{tmp_path}/hub'}}"
    of = job("stream_analytics", "{early_arrival: 5m, late_arrival: 5m}", more=source)
    first = {"at": "2026-03-01T12:00:00Z", "until": "2026-03-01T12:00:00Z"}
    write_capture(tmp_path / "hub", 0, "2026-03-01T12:05:00", [message(1, "2026-03-01T12:00:00Z", first)])
    assert ingest_source(of, "bikes", lakehouse(tmp_path)).appended == 1
    assert newest_settled_day(lakehouse(tmp_path), of).day is None
    for time, day in (("2026-03-02T00:00:00", None), ("2026-03-02T01:00:00", "2026-03-01")):
        write_capture(tmp_path / "hub", 0, time, [])
        assert ingest_source(of, "bikes", lakehouse(tmp_path)).appended == 0
        found = newest_settled_day(lakehouse(tmp_path), of).day
        assert (None if found is None else found.isoformat()) == day


def test_static_reference_data_that_is_as_before_again_makes_no_day_stale(tmp_path: Path) -> None:
    of = parse_job(
        """
tailrace: 1
job: docks
profile: stream_analytics
inputs: {bikes: {columns: "at TIMESTAMP, until TIMESTAMP, edge STRING", timestamp_by: at}}
references: {ports: {columns: "edge STRING, port STRING"}}
query: {sql: "SELECT bikes.at, ports.port INTO o FROM bikes JOIN ports ON bikes.edge = ports.edge"}
"""
    )
    settled(tmp_path, of, *FIRST[:1])

    def reasons_with(*rows: dict[str, str]) -> set[str]:
        file = tmp_path / "ports.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        ingest_reference(of, "ports", [file], tmp_path / "lakehouse")
        return {why for day in stale_days(lakehouse(tmp_path), of) for why in day.why}

    north, south = {"edge": "a", "port": "north"}, {"edge": "a", "port": "south"}
    assert reasons_with(north, south) == set()
    versions = {"arrivals/bikes": 0, "references/ports": 0}
    began = datetime(2026, 3, 2, tzinfo=UTC)
    run = {"run_id": "r", "job": "docks", "kind": "replay", "status": "succeeded", "process": runs.this_process()}
    about = {"job_fingerprint": of.fingerprint, "versions_read": versions, "started_at": began, "end_of_log": began}
    runs.record(lakehouse(tmp_path), run | about)
    assert reasons_with(north) == {"reference data ports was at version 0, and is at 1 now"}
    assert reasons_with(south, north) == {"reference data ports was at version 0, and is at 2 now"}
    assert reasons_with(north, south) == set()
