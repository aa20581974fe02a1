"""The description of a job by ``check``: its policy, and the questions that the product's documents leave open."""

from __future__ import annotations

import json

import pytest

from pipelines.cli.main import run
from pipelines.job.describe import ambiguities, describe_policy, describe_read_range, remarks
from pipelines.job.load import parse_job

ANALYTICS = """\
tailrace: 1
job: example
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 6m, out_of_order: 2m}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 10m}}
  aggregates: {n: "count(*)"}
"""
ATLAS = """\
tailrace: 1
job: example
profile: atlas
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
ordering: {allowed_lateness: 2m}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 5m}}
  aggregates: {n: "count(*)"}
"""
INSIGHT = """\
tailrace: 1
job: example
profile: stream_insight
inputs: {cars: {columns: "at TIMESTAMP, ends TIMESTAMP, edge STRING, plate STRING", timestamp_by: at}}
ordering: {advance: {every: 10}, delay: 5s, action: drop}
query:
  from: cars
  group_by: [plate]
  window: {tumbling: {size: 5s}}
  aggregates: {n: "count(*)"}
"""


def changed(base: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in base
        base = base.replace(old, new)
    return base


def policy(text: str) -> str:
    return "\n".join(describe_policy(parse_job(text)))


def open_points(text: str) -> str:
    return "\n".join(ambiguities(parse_job(text)))


# -- stream_analytics ------------------------------------------------------------------------------------------------


def test_the_policy_of_stream_analytics_is_described_test_by_test_in_their_order() -> None:
    assert describe_policy(parse_job(ANALYTICS)) == [
        "cars: event time is at; each input partition has a watermark of its own.",
        "cars: an event whose event time is null or not an instant is dropped.",
        "cars: an event more than 5m ahead of its arrival is dropped as early, whatever the action, and moves no"
        " watermark.",
        "cars: an event more than 6m behind its arrival is late and counts at its arrival minus 6m.",
        "cars: the watermark is the greatest time so far minus 2m; an event below it is out of order and counts at the"
        " watermark; so a late event may be moved twice.",
        "Windows: tumbling, 10m, (start, end], with ends at 0001-01-01T00:00:00Z and every 10m from there.",
        "Windows still open at the end of the log are emitted (end_of_log: flush).",
    ]


def test_under_drop_nothing_counts_elsewhere() -> None:
    described = policy(changed(ANALYTICS, ("2m}", "2m, action: drop}")))
    assert "late and is dropped" in described
    assert "out of order and is dropped" in described
    assert "counts at" not in described


def test_substreams_and_their_null_keys_are_described() -> None:
    described = policy(changed(ANALYTICS, ("timestamp_by: at", "timestamp_by: at, over: [booth, toll]")))
    assert "each input partition and (booth, toll) has a watermark of its own" in described
    assert "so is one with a null in (booth, toll)" in described


def test_without_timestamp_by_no_policy_is_described_and_nothing_about_it_is_open() -> None:
    text = changed(ANALYTICS, (", timestamp_by: at", ""))
    assert "cars: events count at their arrival time; no ordering policy applies." in policy(text)
    assert open_points(text) == ""
    assert "cars: without timestamp_by the ordering policy does not apply" in remarks(parse_job(text))


def test_every_ambiguity_has_an_answer() -> None:
    for base in (ANALYTICS, ATLAS, INSIGHT):
        found = ambiguities(parse_job(base))
        assert found
        assert all(" Tailrace " in entry for entry in found)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("late_arrival: 6m", "late_arrival: 6m, early_arrival: off", "no setting that switches its early guard off"),
        ("late_arrival: 6m", "late_arrival: 5s", "unset: 5s in the portal"),
        ("late_arrival: 6m", "late_arrival: 20d1h", "20 days on one page"),
        ("out_of_order: 2m", "out_of_order: 7m", "the smaller of the two"),
        ("out_of_order: 2m", "action: drop", "exactly at the watermark"),
        ("timestamp_by: at", "timestamp_by: at, over: [booth]", "late_arrival with over"),
        ("timestamp_by: at", "timestamp_by: at, over: [booth]", "early guard applies to substreams"),
        ("{size: 10m}", "{size: 10m, offset: -1ms}", "sign of a window's offset"),
        ("{size: 10m}", "{size: 7m}", "origin of a grid of 7m"),
        ("tumbling: {size: 10m}", "hopping: {size: 10m, hop: 20m}", "hop greater than the size"),
        ("tumbling: {size: 10m}", "sliding: {size: 10m}", "When a sliding window has a row"),
        ("tumbling: {size: 10m}", "session: {timeout: 1m, max_duration: 10m}", "exactly the timeout after the last"),
        ("tumbling: {size: 10m}", "session: {timeout: 1m, max_duration: 10m}", "exactly on a closing check point"),
        ("tumbling: {size: 10m}", "session: {timeout: 1m, max_duration: 10m}", "counts from its second event"),
        ("tumbling: {size: 10m}", "session: {timeout: 1m, max_duration: 11m}", "origin of a grid of 11m"),
        ("count(*)", "last(toll)", "order among events of equal time"),
        ("  group_by: [booth]\n", "", "query without keys"),
        ("query:", "end_of_log: hold\nquery:", "ends exactly at the watermark"),
    ],
)
def test_an_open_point_of_stream_analytics_is_listed_only_where_the_job_depends_on_it(
    old: str, new: str, text: str
) -> None:
    assert text not in open_points(ANALYTICS)
    assert text in open_points(changed(ANALYTICS, (old, new)))


def test_the_rule_of_sessions_states_when_they_open_at_a_check_point() -> None:
    sessions = changed(ANALYTICS, ("tumbling: {size: 10m}", "session: {timeout: 1m, max_duration: 10m}"))
    assert (
        "Windows: sessions, one chain for all, that end 1m after their last event, or at the first of the check points"
        " every 10m from 0001-01-01T00:00:00Z at which they are at least 10m old. After such a check point the next"
        " session opens there if its first event comes at most 1m after the last one, else at its first event."
    ) in describe_policy(parse_job(sessions))


def test_early_events_are_an_open_point_under_adjust_only() -> None:
    assert "Early events under Adjust" in open_points(ANALYTICS)
    assert "Early events" not in open_points(changed(ANALYTICS, ("2m}", "2m, action: drop}")))


def test_one_input_partition_has_nothing_to_merge() -> None:
    assert "Several input partitions" in open_points(ANALYTICS)
    assert "Several input partitions" not in open_points(
        changed(ANALYTICS, ("timestamp_by: at", "timestamp_by: at, partitions: 1"))
    )


JOIN = changed(
    ANALYTICS,
    (
        'inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}',
        'inputs:\n  a: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at, partitions: 1}\n'
        '  b: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}',
    ),
    ("from: cars", "join: {left: a, right: b, on: [booth], within: {unit: minute, from: 0, to: 10}, kind: left}"),
    ("[booth]\n  window", "[a.booth]\n  window"),
)


def test_a_join_is_described_with_its_bound_and_its_open_points() -> None:
    described = policy(JOIN)
    assert "a and b are joined on equal booth and DATEDIFF(minute, a, b) from 0 to 10" in described
    assert "an event of a without a match counts 10 minute(s) after its time." in described
    assert "DATEDIFF counts boundaries crossed" in open_points(JOIN)
    assert "left event without a match" in open_points(JOIN)
    assert "left event without" not in open_points(changed(JOIN, (", kind: left", "")))


def test_an_open_point_of_some_inputs_names_them() -> None:
    assert "\nb: Several input partitions" in open_points(JOIN)
    assert "\nEarly events under Adjust" in open_points(JOIN)


# -- atlas -----------------------------------------------------------------------------------------------------------


def test_the_policy_of_atlas_is_described() -> None:
    described = policy(ATLAS)
    assert "the least over the input's partitions of each one's greatest event time" in described
    assert "once the watermark reaches its end plus 2m" in described
    assert "there is no early guard" in described
    assert "[start, end), with starts at 1970-01-01T00:00:00Z and every 5m from there" in described
    assert "are emitted (end_of_log: hold)" in described


def test_processing_time_windows_have_no_watermark_and_no_lateness() -> None:
    text = changed(ATLAS, ("allowed_lateness: 2m", "boundary: processing_time"))
    assert "cars: windows are those of the arrival time; nothing is ever late." in policy(text)
    assert "watermark is" not in policy(text)
    assert "server's clock" in open_points(text)
    assert "allowedLateness" not in open_points(text)


def test_idle_timeouts_are_described_as_closing_nothing_by_themselves() -> None:
    assert "idle timeouts" not in policy(ATLAS)
    text = changed(ATLAS, ("allowed_lateness: 2m", "allowed_lateness: 2m, idle_timeout: 1m"))
    assert "idle timeouts close nothing by themselves" in policy(text)
    assert "idleTimeout has three descriptions" in open_points(text)


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("allowed_lateness: 2m", "allowed_lateness: 3s", "allowedLateness left out"),
        ("{size: 5m}", "{size: 5m, offset: 1m}", "offsetFromUtc"),
        ("tumbling: {size: 5m}", "hopping: {size: 3s, hop: 5s}", "gap between two hops"),
        ("tumbling: {size: 5m}", "hopping: {size: 20s, hop: 5s}", "verdict partial"),
        ("tumbling: {size: 5m}", "session: {gap: 1m}", "exactly the gap apart"),
        ("tumbling: {size: 5m}", "session: {gap: 1m}", "When a session closes"),
    ],
)
def test_an_open_point_of_atlas_is_listed_only_where_the_job_depends_on_it(old: str, new: str, text: str) -> None:
    assert text not in open_points(ATLAS)
    assert text in open_points(changed(ATLAS, (old, new)))


def test_late_documents_of_sessions_are_described() -> None:
    sessions = changed(ATLAS, ("tumbling: {size: 5m}", "session: {gap: 1m, partition_by: [booth]}"))
    assert "A document below the watermark that fits no open session is late" in policy(sessions)
    assert "sessions of documents less than 1m apart, one chain for each (booth)," in policy(sessions)


# -- stream_insight --------------------------------------------------------------------------------------------------


def test_the_policy_of_stream_insight_is_described() -> None:
    described = policy(INSIGHT)
    assert "points: start time is at, and each lasts 1us; the whole input is one timeline" in described
    assert "time advances after every 10 event(s), to the last start minus 5s; end edges do not count." in described
    assert "a CTI at or below the current one changes nothing" in described
    assert "an event that starts before the current time is dropped." in described
    assert "only windows that ended at or before the last CTI are emitted" in described


def test_a_negative_delay_is_described_as_an_advance() -> None:
    assert "to the last start plus 1us" in policy(changed(INSIGHT, ("delay: 5s", "delay: -1us")))


def test_adjust_moves_no_point() -> None:
    assert "is dropped, under adjust, too" in policy(changed(INSIGHT, ("action: drop", "action: adjust")))


EDGES = ("timestamp_by: at", "timestamp_by: at, shape: edge, end_by: ends, edge_by: edge, match_on: [plate]")
INTERVALS = ("timestamp_by: at", "timestamp_by: at, shape: interval, end_by: ends")
ADJUST = ("action: drop", "action: adjust")


def test_adjust_moves_start_edges_and_leaves_a_late_end_open() -> None:
    described = policy(changed(INSIGHT, EDGES, ADJUST))
    assert "edges: edge is start or end; an end edge ends at ends the start edge of equal at and (plate)" in described
    assert "a start edge before the current time is moved to it." in described
    assert "and its start edge stays open" in described


def test_adjust_moves_an_interval_that_ends_after_the_current_time() -> None:
    assert "begins at it if it ends after it; else it is dropped" in policy(changed(INSIGHT, INTERVALS, ADJUST))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ((("delay: 5s", "delay: -1us"),), "tick is 100ns"),
        ((("delay: 5s", "delay: -1us"), INTERVALS, ADJUST), "old start or its new one"),
        ((("{every: 10}", "{every: 5s}"),), "Where the duration begins"),
        ((INTERVALS, ADJUST), "ends exactly at the current time"),
        ((EDGES, ADJUST), "A late end edge under Adjust"),
        ((EDGES,), "whose start edge was dropped"),
        ((EDGES,), "which one an end edge ends"),
        ((EDGES, ("query:", "end_of_log: flush\nquery:")), "event that never ends"),
        ((("tumbling: {size: 5s}", "count: {n: 3}"),), "Count windows have no built-in aggregates"),
    ],
)
def test_an_open_point_of_stream_insight_is_listed_only_where_the_job_depends_on_it(
    changes: tuple[tuple[str, str], ...], text: str
) -> None:
    assert text not in open_points(INSIGHT)
    assert text in open_points(changed(INSIGHT, *changes))


def test_a_cti_after_every_event_leaves_nothing_open_about_counting() -> None:
    each = changed(INSIGHT, ("{every: 10}", "{every: 1}"))
    assert "dropped events count towards" in open_points(INSIGHT)
    assert "dropped events count towards" not in open_points(each)
    assert "need not be the newest" in open_points(INSIGHT)
    assert "need not be the newest" not in open_points(each)


def test_an_import_is_described_and_its_interleaving_is_open() -> None:
    two = changed(
        INSIGHT,
        ("inputs: {cars: {", 'inputs: {pace: {columns: "at TIMESTAMP", timestamp_by: at}, cars: {'),
        (
            "ordering: {advance: {every: 10}, delay: 5s, action: drop}",
            "ordering: {pace: {advance: increasing_start_time}, cars: {import_from: pace, action: drop}}",
        ),
    )
    assert "cars: time also advances with input pace." in policy(two)
    assert "cars: The order of imported CTIs and events" in open_points(two)


# -- the command -----------------------------------------------------------------------------------------------------


def test_check_prints_the_open_points_under_a_heading_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("jobs") / "example.yaml"
    file.write_text(ANALYTICS)
    assert run(["check", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    heading = lines.index("  open in the product's documents:")
    assert [line.strip() for line in lines[heading + 1 : -1]] == ambiguities(parse_job(ANALYTICS))
    assert all(line.startswith("    ") for line in lines[heading + 1 : -1])


def test_check_lists_the_open_points_in_its_json(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("jobs") / "example.yaml"
    file.write_text(INSIGHT)
    assert run(["check", str(file), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    job = parse_job(INSIGHT)
    assert printed["ambiguities"] == ambiguities(job)
    assert printed["policy"] == describe_policy(job)
    assert printed["read_range"] == describe_read_range(job)


def test_an_open_read_range_states_whether_a_summary_bounds_it_and_why_not() -> None:
    text = """
tailrace: 1
job: example
profile: atlas
inputs: {{cars: {{columns: "at TIMESTAMP", timestamp_by: "{time}"}}}}
ordering: {{}}
query: {{from: cars, window: {{tumbling: {{size: 1h}}}}, aggregates: {{n: "count(*)"}}}}
"""
    assert describe_read_range(parse_job(text.format(time="at")))[-1] == (
        "A plan reads less: the log's summary gives the initial state that earlier arrivals led to."
    )
    assert (
        "A summary of the log does not bound it"
        in describe_read_range(parse_job(text.format(time="at + interval 1 hour")))[-1]
    )
