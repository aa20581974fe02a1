"""The cause of one differing row: what a live run lost, counted twice, closed early or never had. No Spark."""

from __future__ import annotations

import datetime as dt
import itertools
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from reconcile_rows import Row, causes, ingested, policy, results

from pipelines.core.model import Job
from pipelines.core.time import format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.reconcile.causes.stream_stopped_or_restarted import OutputGap


def _job(profile: str, ordering: str, window: str, columns: str = "", shape: str = "", more: str = "") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP, n INT{columns}", timestamp_by: at{shape}}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{cars: "count(*)", numbers: "sum(n)"}}}}
{more}
"""
    )


def _trips(kind: str) -> Job:
    return parse_job(
        f"""
tailrace: 1
job: trips
profile: stream_analytics
inputs:
  entries: {{columns: "at TIMESTAMP, plate STRING", timestamp_by: at}}
  exits: {{columns: "at TIMESTAMP, plate STRING, toll INT", timestamp_by: at}}
ordering: {{late_arrival: 5m, out_of_order: 0s, action: adjust}}
query:
  join: {{left: entries, right: exits, on: [plate], within: {{unit: minute, from: 0, to: 10}}, kind: {kind}}}
  window: {{tumbling: {{size: 10m}}}}
  aggregates: {{trips: "count(*)", tolls: "sum(exits.toll)"}}
"""
    )


def _at(minute: int, second: int = 0) -> str:
    return f"2026-01-01T12:{minute:02d}:{second:02d}Z"


TRIPS = {
    "entries": [{"arrival_time": _at(2 * i + 1), "at": _at(2 * i), "plate": f"p{i}"} for i in range(24)],
    "exits": [
        {"arrival_time": _at(2 * i + 6), "at": _at(2 * i + 5), "plate": f"p{i}", "toll": 2**i} for i in range(24)
    ],
}
"""Cars that enter every two minutes and leave five minutes later; each toll is another power of two."""

MINUTES = [0, 1, 2, 3, 10, 11, 12, 20, 21, 22, 23, 35, 36, 37, 50, 51, 52, 53, 54]
CARS = {"cars": [{"arrival_time": _at(m, 30), "at": _at(m), "n": 2**i} for i, m in enumerate(MINUTES)]}
STAYS = {"cars": [{**row, "until": _at(m + 5)} for row, m in zip(CARS["cars"], MINUTES, strict=True)]}
TUMBLING = _job("stream_analytics", "{late_arrival: 5m, action: adjust}", "{tumbling: {size: 10m}}")

Shown = tuple[str, str, list[str]]


def _shown(job: Job, lakehouse: Path, live: Sequence[Row], gaps: Sequence[OutputGap] = ()) -> list[Shown]:
    """Window end (minutes and seconds), cause and lost events of each row that differs."""
    return [
        (format_instant(one.end_us)[14:].rstrip("Z"), cause.name, cause.details.get("missing_events", []))  # type: ignore[misc]
        for one, cause in causes(job, lakehouse, live, gaps)
    ]


def _ending(rows: Sequence[Row], minute: int) -> Row:
    return next(row for row in rows if row["window_end"] == parse_instant(_at(minute)))


def test_an_event_that_a_join_lost_and_a_row_that_was_deleted_are_each_named(tmp_path: Path) -> None:
    job = _trips("inner")
    lakehouse = ingested(job, tmp_path / "lakehouse", TRIPS)
    live = results(job, lakehouse, [("exits", 0, 11)])
    live.remove(_ending(live, 50))
    (one, different), (_, missing) = causes(job, lakehouse, live)
    # a pair that is gone may have lost either event
    assert (one.end_us, different.name) == (parse_instant(_at(30)), "lost_events")
    assert different.details["missing_events"] == ["entries/0/11"]
    assert different.details["or_one_of"] == [["exits/0/11"]]
    assert missing.name == "row_missing_in_stream"


def test_an_unmatched_left_row_shows_which_event_of_the_pair_was_lost(tmp_path: Path) -> None:
    job = _trips("left")
    lakehouse = ingested(job, tmp_path / "lakehouse", TRIPS)
    assert _shown(job, lakehouse, results(job, lakehouse, [("exits", 0, 11)])) == [
        ("30:00", "lost_events", ["exits/0/11"]),
        ("40:00", "lost_events", ["exits/0/11"]),
    ]


def test_a_join_s_value_that_no_lost_event_gives_is_unexplained(tmp_path: Path) -> None:
    job = _trips("inner")
    lakehouse = ingested(job, tmp_path / "lakehouse", TRIPS)
    live = results(job, lakehouse)
    live[2]["tolls"] = -1
    assert [name for _, name, _ in _shown(job, lakehouse, live)] == ["unexplained"]
    assert policy(job, lakehouse, live) is None


def test_an_atlas_session_that_ended_early_is_one_loss_though_two_rows_differ(tmp_path: Path) -> None:
    job = _job("atlas", "{allowed_lateness: 1m}", "{session: {gap: 4m}}")
    lakehouse = ingested(job, tmp_path / "lakehouse", CARS)
    assert _shown(job, lakehouse, results(job, lakehouse, [("cars", 0, 10)])) == [
        ("26:00", "lost_events", ["cars/0/10"]),
        ("27:00", "lost_events", ["cars/0/10"]),
    ]


def test_an_event_that_a_stream_insight_run_lost_is_named(tmp_path: Path) -> None:
    job = _job("stream_insight", "{advance: {every: 3}, delay: 0s, action: adjust}", "{tumbling: {size: 10m}}")
    lakehouse = ingested(job, tmp_path / "lakehouse", CARS)
    live = results(job, lakehouse, [("cars", 0, 8)])
    live.remove(_ending(live, 40))
    assert _shown(job, lakehouse, live) == [
        ("30:00", "lost_events", ["cars/0/8"]),
        ("40:00", "row_missing_in_stream", []),
    ]


@pytest.mark.parametrize("window", ["{snapshot: {}}", "{count: {n: 3}}"])
def test_a_lost_lifetime_explains_every_window_whose_bounds_it_moved(window: str, tmp_path: Path) -> None:
    ordering = "{advance: {every: 1}, delay: 1m, action: drop}"
    job = _job("stream_insight", ordering, window, ", until TIMESTAMP", ", shape: interval, end_by: until")
    lakehouse = ingested(job, tmp_path / "lakehouse", STAYS)
    live = results(job, lakehouse, [("cars", 0, 8)])
    found = _shown(job, lakehouse, live)
    assert len(found) > 4
    assert {(cause, *lost) for _, cause, lost in found} == {("lost_events", "cars/0/8")}
    assert policy(job, lakehouse, live) is None


def test_an_event_that_was_delivered_twice_is_named(tmp_path: Path) -> None:
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", CARS)
    live = results(TUMBLING, lakehouse)
    row = _ending(live, 30)
    row["cars"] += 1
    row["numbers"] += 2**9
    ((_, cause),) = causes(TUMBLING, lakehouse, live)
    assert (cause.name, cause.details["event"]) == ("event_counted_twice", "cars/0/9")


def test_an_event_that_the_log_lost_shows_as_a_gap_of_its_sequences(tmp_path: Path) -> None:
    rows = [{**row, "sequence": number} for number, row in enumerate(CARS["cars"])]
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", {"cars": rows[:8] + rows[9:]})
    live = results(TUMBLING, lakehouse)
    row = _ending(live, 30)
    row["cars"] += 1
    row["numbers"] += 2**8
    ((_, cause),) = causes(TUMBLING, lakehouse, live)
    assert (cause.name, cause.details["missing_from_log"]) == ("lost_events", ["cars/0/8..8"])


def test_a_replay_that_is_older_than_the_log_is_to_be_run_again(tmp_path: Path) -> None:
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", CARS)
    live = results(TUMBLING, lakehouse)
    older = results(TUMBLING, lakehouse, [("cars", 0, 8)])
    assert [cause.name for _, cause in causes(TUMBLING, lakehouse, live, replay=older)] == ["replay_out_of_date"]


def test_a_stream_that_stopped_inside_a_window_counted_a_part_of_it(tmp_path: Path) -> None:
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", CARS)
    whole = results(TUMBLING, lakehouse)
    stopped = [row for row in whole if row["window_end"] <= parse_instant(_at(30))]
    row = _ending(stopped, 30)
    # of 21, 22 and 23 minutes past twelve the first alone
    row |= {"cars": 1, "numbers": 2**8}
    ends = [one["window_end"] for one in whole[len(stopped) :]]
    gap = OutputGap(None, ends[0], ends[-1], len(ends), len(ends), row["window_end"], None)
    (one, cause), *_ = causes(TUMBLING, lakehouse, stopped, [gap])
    assert (one.end_us, cause.name) == (row["window_end"], "stream_stopped_or_restarted")
    assert (cause.details["counted"], cause.details["of"]) == (1, 3)
    assert cause.details["counted_arrivals"] == f"before {_at(22, 30)}"


def test_a_join_that_stopped_inside_its_last_window_counted_a_part_of_it(tmp_path: Path) -> None:
    job = _trips("inner")
    lakehouse = ingested(job, tmp_path / "lakehouse", TRIPS)
    # what arrived after 12:27 never came
    later = [(name, 0, n) for name in TRIPS for n, row in enumerate(TRIPS[name]) if row["arrival_time"] > _at(27)]
    live = results(job, lakehouse, later)
    last = live[-1]["window_end"]
    replay = [row for row in results(job, lakehouse) if row["window_end"] <= last]
    ((one, cause),) = causes(job, lakehouse, live, replay=replay)
    assert (one.end_us, cause.name) == (last, "stream_stopped_or_restarted")
    assert cause.details["counted_arrivals"] == f"before {_at(28)}"


def test_arrivals_appended_after_the_output_are_named_with_their_batch(tmp_path: Path) -> None:
    rows = [{**row, "sequence": number, "input_partition": number % 2} for number, row in enumerate(CARS["cars"])]
    held_back = [row for row in rows if row["input_partition"] == 1][-3:]
    lakehouse = tmp_path / "lakehouse"
    ingested(TUMBLING, lakehouse, {"cars": [row for row in rows if row not in held_back]}, "first")
    live = results(TUMBLING, lakehouse)
    emitted = int(dt.datetime.now(dt.UTC).timestamp() * 1_000_000)
    time.sleep(0.01)
    ingested(TUMBLING, lakehouse, {"cars": held_back}, "straggler")
    found = causes(TUMBLING, lakehouse, [row | {"emitted_at": emitted} for row in live])
    assert {cause.name for _, cause in found} == {"late_arrivals_after_output"}
    assert found[0][1].details["batches"] == ["straggler"]


def test_a_live_run_that_closed_an_idle_window_is_named(tmp_path: Path) -> None:
    job = _job("atlas", "{allowed_lateness: 1h}", "{tumbling: {size: 10m}}", more="end_of_log: flush")
    minutes = [(0, 0), (4, 4), (6, 5), (7, 7), (30, 3), (31, 31), (40, 40)]
    rows = [{"arrival_time": _at(arrival), "at": _at(at), "n": n} for n, (arrival, at) in enumerate(minutes)]
    lakehouse = ingested(job, tmp_path / "lakehouse", {"cars": rows})
    live = results(job, lakehouse)
    assert live[0]["cars"] == 5
    live[0] |= {"cars": 4, "numbers": 6}
    ((_, cause),) = causes(job, lakehouse, live)
    assert cause.name == "idle_close_not_recorded"
    assert cause.details == {"punctuation_time": _at(10), "arrival_time_at_most": _at(30)}


def test_every_row_is_examined_however_long_it_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", CARS)
    hours = itertools.count(step=3600.0)
    monkeypatch.setattr("time.monotonic", lambda: next(hours))
    live = [{**row, "numbers": -1, "cars": 0} for row in results(TUMBLING, lakehouse)]
    found = causes(TUMBLING, lakehouse, live)
    assert len(found) == len(live)
    assert {cause.name for _, cause in found} == {"unexplained"}


def test_a_row_says_that_its_search_was_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.reconcile.causes.rebuilt_window.ARRIVALS_OF_A_ROW", 1)
    lakehouse = ingested(TUMBLING, tmp_path / "lakehouse", CARS)
    live = results(TUMBLING, lakehouse, [("cars", 0, 8)])
    ((_, cause),) = causes(TUMBLING, lakehouse, live)
    assert (cause.name, cause.sentence) == (
        "unexplained",
        "No recomputation within 1 arrivals gives the live run's row.",
    )


def test_a_row_of_a_long_log_is_recomputed_from_the_state_that_its_earlier_arrivals_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a stamp of February, received on the first, makes every later event late
    monkeypatch.setattr("pipelines.reconcile.causes.rebuilt_window.READ_AS_A_WHOLE", 3)
    job = _job("atlas", "{allowed_lateness: 1h}", "{tumbling: {size: 10m}}", more="end_of_log: flush")
    days = [f"2026-01-{day:02d}T12:00:00Z" for day in range(10, 20)]
    rows = [{"arrival_time": "2026-01-01T12:00:00Z", "at": "2026-02-01T00:00:00Z", "n": 0}]
    rows += [{"arrival_time": at, "at": at, "n": 1} for at in days]
    lakehouse = ingested(job, tmp_path / "lakehouse", {"cars": rows})
    live = results(job, lakehouse)
    assert len(live) == 1
    phantom = {**live[0], "window_start": parse_instant(days[4]), "window_end": parse_instant(days[4]) + 600_000_000}
    ((_, cause),) = causes(job, lakehouse, [*live, phantom | {"numbers": 1}])
    assert cause.name == "unexplained"
