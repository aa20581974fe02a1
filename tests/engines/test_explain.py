"""Why: the story of an event and of a window, from the few arrivals that they depend on, without Spark."""

from __future__ import annotations

import datetime as dt
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from pipelines.cli.main import run as tailrace
from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.core.time import parse_instant
from pipelines.explain.event import why_event
from pipelines.explain.window import why_window
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job

Record = dict[str, Any]
T = parse_instant

_CARS = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
ordering: {early_arrival: 5m, late_arrival: 5m, out_of_order: 2m, action: adjust}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 10m}}, aggregates: {n: "count(*)"}}
"""
CARS = parse_job(_CARS)


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of this may start Spark."""

    def refuse(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("pipelines.runtime.session.session", refuse)


def _record(sequence: int, arrival: str, at: str | None, **more: Any) -> Record:
    """An event of partition 0 and booth a; times are of 2026-01-01 unless they bring a date."""

    def instant(text: str) -> str:
        return f"{text}Z" if "T" in text else f"2026-01-01T{text}:00Z"

    base = {"arrival_time": instant(arrival), "input_partition": 0, "sequence": sequence, "booth": "a"}
    return {**base, **({} if at is None else {"at": instant(at)}), **more}


def _lakehouse(tmp_path: Path, job: Job, records: list[Record]) -> Path:
    lakehouse = tmp_path / "lakehouse"
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    names = {column.name for column in job.inputs[0].columns}
    file.write_text(
        "".join(
            json.dumps({key: value for key, value in one.items() if key != "booth" or "booth" in names}) + "\n"
            for one in records
        )
    )
    assert ingest(job, job.inputs[0].name, [file], lakehouse).quarantined == 0
    return lakehouse


LOG = [
    _record(0, "12:07", "12:07"),
    _record(1, "12:09", "12:09"),
    _record(2, "12:11", "12:17"),
    _record(3, "12:12", "12:04"),
    _record(4, "12:13", "12:13", booth="b"),
    _record(5, "12:14", "12:09", booth="a"),
    _record(6, "2026-01-02T12:00:00", "12:08"),
]


def test_an_event_moved_twice_shows_both_tests_and_who_set_the_watermark(tmp_path: Path) -> None:
    answer = why_event(CARS, "cars/0/5", _lakehouse(tmp_path, CARS, LOG)).as_dict()
    assert (answer["verdict"], answer["reasons"]) == ("adjusted", ["out_of_order"])
    assert answer["watermark"]["value"] == "2026-01-01T12:11:00Z"  # type: ignore[index]
    assert answer["watermark"]["set_by"] == "cars/0/4"  # type: ignore[index]
    tests = {test["test"]: test for test in answer["tests"]}  # type: ignore[attr-defined]
    assert [test["hit"] for test in tests.values()] == [False, False, True]
    assert "2026-01-01T12:09:00Z < 2026-01-01T12:11:00Z" in tests["out_of_order"]["says"]
    assert "2026-01-01T12:09:00Z >= 2026-01-01T12:09:00Z" in tests["late"]["says"]
    (window,) = answer["windows"]  # type: ignore[misc]
    assert (window["window_end"], window["booth"], window["n"]) == ("2026-01-01T12:20:00Z", "a", 1)


def test_an_early_event_is_dropped_by_the_guard_and_counts_nowhere(tmp_path: Path) -> None:
    story = why_event(CARS, "cars/0/2", _lakehouse(tmp_path, CARS, LOG))
    answer = story.as_dict()
    assert (answer["verdict"], answer["reasons"], answer["windows"]) == ("dropped", ["early"], [])
    assert "2026-01-01T12:17:00Z > 2026-01-01T12:16:00Z" in " ".join(story.sentences)
    assert "it counts nowhere" in " ".join(story.sentences)


def test_a_window_names_its_events_and_those_the_policy_kept_out(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path, CARS, LOG)
    story = why_window(CARS, T("2026-01-01T12:10:00Z"), {"booth": "a"}, lakehouse)
    (window,) = story.as_dict()["windows"]  # type: ignore[misc]
    assert [event["id"] for event in window["events"]] == ["cars/0/0", "cars/0/3", "cars/0/1"]
    assert window["moved_in"] == []
    kept_out = {event["id"]: event for event in window["kept_out"]}
    assert list(kept_out) == ["cars/0/5", "cars/0/6"]
    # the last one came a day later: it is found by its event time, not by its arrival
    assert kept_out["cars/0/6"]["system_timestamp"] == "2026-01-02T11:55:00Z"
    assert any("2 event(s) happened in it" in sentence for sentence in story.sentences)


def test_a_window_without_events_names_those_that_would_have_been_in_it(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path, CARS, [_record(0, "12:31", "12:05"), _record(1, "12:32", "12:05", booth="b")])
    answer = why_window(CARS, T("2026-01-01T12:10:00Z"), {"booth": "a"}, lakehouse).as_dict()
    assert answer["windows"] == []
    assert [event["id"] for event in answer["kept_out"]] == ["cars/0/0"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "window",
    ["{hopping: {size: 20m, hop: 5m}}", "{session: {timeout: 5m, max_duration: 2m, partition_by: [booth]}}"],
)
def test_every_event_is_among_the_events_of_each_window_it_says_it_counts_in(tmp_path: Path, window: str) -> None:
    job = parse_job(_CARS.replace("{tumbling: {size: 10m}}", window))
    rng = random.Random(3)
    records, arrival = [], dt.datetime(2026, 1, 1, 12)
    for sequence in range(40):
        arrival += dt.timedelta(seconds=rng.randint(0, 200))
        at = arrival + dt.timedelta(seconds=rng.choice([0, 60, 400, -60, -200, -900]))
        more = {"booth": rng.choice("ab"), "input_partition": rng.randint(0, 1)}
        records.append(_record(sequence, arrival.isoformat(), at.isoformat(), **more))
    lakehouse = _lakehouse(tmp_path, job, records)
    counted: dict[tuple[str, str], set[str]] = {}
    for record in records:
        name = f"cars/{record['input_partition']}/{record['sequence']}"
        for window in why_event(job, name, lakehouse).as_dict()["windows"]:  # type: ignore[attr-defined]
            counted.setdefault((window["window_end"], window["booth"]), set()).add(name)
            assert window["n"] == window["events"]
    assert len(counted) > 20
    for (end, booth), names in counted.items():
        (window,) = why_window(job, T(end), {"booth": booth}, lakehouse).as_dict()["windows"]  # type: ignore[misc]
        assert {event["id"] for event in window["events"]} == names
        assert window["n"] == len(names)


def test_the_first_event_of_a_session_happened_in_it(tmp_path: Path) -> None:
    job = parse_job(_CARS.replace("{tumbling: {size: 10m}}", "{session: {timeout: 5m, max_duration: 10m}}"))
    log = [_record(0, "12:07", "12:07"), _record(1, "12:12", "12:12"), _record(2, "12:17", "12:17")]
    log += [_record(3, "12:22", "12:22"), _record(4, "12:29", "12:16")]
    story = why_window(job, T("2026-01-01T12:20:00Z"), {"booth": "a"}, _lakehouse(tmp_path, job, log))
    (window,) = story.as_dict()["windows"]  # type: ignore[misc]
    assert (window["window_start"], window["n"]) == ("2026-01-01T12:07:00Z", 3)
    assert window["moved_in"] == []
    assert [event["id"] for event in window["kept_out"]] == ["cars/0/4"]


_ATLAS = """
tailrace: 1
job: cars
profile: atlas
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
ordering: {allowed_lateness: 0s}
query: {from: cars, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
"""


def test_a_late_document_names_the_punctuation_that_closed_its_window(tmp_path: Path) -> None:
    job = parse_job(_ATLAS)
    close = {"arrival_time": "2026-01-01T12:06:00Z", "input_partition": None, "sequence": 0, "cause": "idle"}
    close |= {"kind": "punctuation", "punctuation_time": "2026-01-01T12:05:00Z"}
    lakehouse = _lakehouse(tmp_path, job, [_record(0, "12:01", "12:01"), close, _record(1, "12:07", "12:03")])
    answer = why_event(job, "cars/0/1", lakehouse).as_dict()
    assert (answer["verdict"], answer["missed_windows"]) == ("dropped", ["2026-01-01T12:00:00Z"])
    assert answer["watermark"]["value"] == "2026-01-01T12:05:00Z"  # type: ignore[index]
    assert "punctuation cars/all/0" in answer["watermark"]["says"]  # type: ignore[index]


def test_a_document_at_the_end_of_a_window_did_not_happen_in_it(tmp_path: Path) -> None:
    job = parse_job(_ATLAS)
    lakehouse = _lakehouse(tmp_path, job, [_record(0, "12:01", "12:01"), _record(1, "12:05", "12:05")])
    (window,) = why_window(job, T("2026-01-01T12:05:00Z"), {}, lakehouse).as_dict()["windows"]  # type: ignore[misc]
    assert (window["n"], window["kept_out"]) == (1, [])


def test_a_violating_event_names_the_event_that_issued_the_current_time(tmp_path: Path) -> None:
    job = parse_job(
        _ATLAS.replace("atlas", "stream_insight").replace(
            "{allowed_lateness: 0s}", "{advance: {every: 2}, action: drop}"
        )
    )
    log = [_record(0, "12:01", "12:01"), _record(1, "12:02", "12:02"), _record(2, "12:03", "12:00")]
    answer = why_event(job, "cars/0/2", _lakehouse(tmp_path, job, log)).as_dict()
    assert (answer["verdict"], answer["reasons"]) == ("dropped", ["before_current_time"])
    assert answer["watermark"]["set_by"] == "cars/0/1"  # type: ignore[index]


FAR = [
    _record(0, "2026-01-01T12:00:00", "2026-02-01T00:00:00"),
    _record(1, "2026-01-20T12:00:00", "2026-01-20T12:00:00"),
    *(_record(n, f"2026-01-{n + 20}T12:00:00", f"2026-01-{n + 20}T12:00:00") for n in range(2, 8)),
]
"""A stamp of the first of February, received a month early, and one event a day."""


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (_ATLAS, "the least over the input's partitions"),
        (
            _CARS.replace("early_arrival: 5m", "early_arrival: off").replace("action: adjust", "action: drop"),
            "an arrival before those read had brought the timeline to 2026-02-01T00:00:00Z",
        ),
        (
            _ATLAS.replace("atlas", "stream_insight").replace(
                "{allowed_lateness: 0s}", "{advance: {every: 1}, action: drop}"
            ),
            "issued by an arrival before those read",
        ),
    ],
    ids=["atlas", "stream_analytics", "stream_insight"],
)
def test_a_long_log_is_recomputed_from_the_state_that_its_earlier_arrivals_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: str, expected: str
) -> None:
    monkeypatch.setattr("pipelines.explain.recomputation.READ_AS_A_WHOLE", 3)
    parsed = parse_job(job)
    story = why_event(parsed, "cars/0/4", _lakehouse(tmp_path, parsed, FAR))
    assert story.data["verdict"] == "dropped"
    assert expected in " ".join(story.sentences)
    assert story.notes == ()


def test_what_the_live_run_wrote_is_shown_too(tmp_path: Path) -> None:
    lakehouse = _lakehouse(tmp_path, CARS, LOG)
    end = dt.datetime(2026, 1, 1, 12, 10, tzinfo=dt.UTC)
    row = {"window_start": end - dt.timedelta(minutes=10), "window_end": end, "window_id": None, "booth": "a", "n": 2}
    rows = pa.Table.from_pylist([{**row, "output_date": end.date()}])
    rows = rows.set_column(2, "window_id", pa.array([None], pa.string()))
    write_deltalake(str(lakehouse / "stream_windows" / "cars"), rows, partition_by=["output_date"])
    story = why_event(CARS, "cars/0/3", lakehouse)
    assert "The live run wrote n 2 instead of 3" in " ".join(story.sentences)
    window = why_window(CARS, T("2026-01-01T12:10:00Z"), {"booth": "a"}, lakehouse).as_dict()["windows"][0]  # type: ignore[index]
    assert window["stream"][0]["n"] == 2


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("cars/0", "names no event"),
        ("carts/0/1", "did you mean 'cars'"),
        ("cars/0/99", "has no event 99"),
    ],
)
def test_an_event_that_is_not_there_is_refused(tmp_path: Path, event: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        why_event(CARS, event, _lakehouse(tmp_path, CARS, LOG))


def test_the_command_prints_sentences_or_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lakehouse, job = _lakehouse(tmp_path, CARS, LOG), tmp_path / "cars.yaml"
    job.write_text(_CARS)
    base = ["why", str(job), "--lakehouse", str(lakehouse)]
    assert tailrace([*base, "--event", "cars/0/5"]) == 0
    assert "Verdict: adjusted (out_of_order)" in capsys.readouterr().out
    assert tailrace([*base, "--window-end", "2026-01-01T12:10:00Z", "--key", "booth=a", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["windows"][0]["n"] == 3
    assert tailrace(base) == 2
    assert "give one of --event, --window-end and --at" in capsys.readouterr().err
    assert tailrace([*base, "--window-end", "2026-01-01T12:10:00Z", "--key", "both=a"]) == 2
    assert "did you mean 'booth'" in capsys.readouterr().err
