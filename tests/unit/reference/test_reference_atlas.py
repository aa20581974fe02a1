"""The documented tables of Atlas Stream Processing, row by row, and the rules around them."""

from __future__ import annotations

import pytest
from reference_logs import at, clock, counts, event, job, punctuation, ruling, run


def atlas_job(
    window="{tumbling: {size: 5m}}", ordering="{allowed_lateness: 0s}", end="hold", group="[]", where="", partitions=""
):
    return job(
        f"""
profile: atlas
inputs: {{events: {{columns: "at TIMESTAMP, device STRING, fine BOOLEAN", timestamp_by: at{partitions}}}}}
ordering: {ordering}
query: {{from: events, group_by: {group}, window: {window}, {where}aggregates: {{n: "count(*)"}}}}
end_of_log: {end}
"""
    )


def log(*rows):
    """Rows of (event time, arrival time)."""
    return [event(arrival, n, at=at(time), device="a", fine=True) for n, (time, arrival) in enumerate(rows)]


TABLE_1 = log(
    ("12:00", "12:00"),
    ("12:00", "12:01"),
    ("12:01", "12:03"),
    ("12:03", "12:04"),
    ("12:02", "12:05"),
    ("12:01", "12:06"),
    ("12:04", "12:06"),
    ("12:05", "12:07"),
    ("12:06", "12:07"),
    ("12:06", "12:08"),
)
TABLE_2 = log(
    ("12:00", "12:00"),
    ("12:01", "12:01"),
    ("12:03", "12:03"),
    ("12:02", "12:04"),
    ("12:04", "12:05"),
    ("12:01", "12:06"),
    ("12:05", "12:07"),
    ("12:06", "12:08"),
    ("12:04", "12:09"),
    ("12:07", "12:10"),
)


def test_the_first_table_closes_the_first_window_and_leaves_the_second_open():
    assert counts(run(atlas_job(), TABLE_1), "n") == [("12:00", "12:05", 7)]
    assert counts(run(atlas_job(end="flush"), TABLE_1), "n") == [("12:00", "12:05", 7), ("12:05", "12:10", 3)]


def test_the_first_table_has_the_documented_watermarks_and_no_late_document():
    decisions = run(atlas_job(), TABLE_1).decisions
    assert [clock(decision.watermark_us) for decision in decisions] == [
        None,
        "12:00",
        "12:00",
        "12:01",
        "12:03",
        "12:03",
        "12:03",
        "12:04",
        "12:05",
        "12:06",
    ]
    assert {decision.verdict for decision in decisions} == {"accepted"}


@pytest.mark.parametrize(("rows", "expected"), [(7, []), (8, [("12:00", "12:05", 7)])])
def test_the_first_table_closes_its_window_at_the_eighth_document(rows, expected):
    assert counts(run(atlas_job(), TABLE_1[:rows]), "n") == expected


def test_the_first_table_by_processing_time_counts_by_arrival():
    by_clock = atlas_job(ordering="{boundary: processing_time}")
    assert counts(run(by_clock, TABLE_1), "n") == [("12:00", "12:05", 4)]
    decisions = run(by_clock, TABLE_1).decisions
    assert ruling(decisions[4]) == ("accepted", (), "12:05")
    assert clock(decisions[4].event_time_us) == "12:02"


@pytest.mark.parametrize(("rows", "closed"), [(4, 0), (5, 1)])
def test_a_processing_time_window_closes_at_the_first_arrival_at_or_after_its_end(rows, closed):
    by_clock = atlas_job(ordering="{boundary: processing_time}")
    assert len(run(by_clock, TABLE_1[:rows]).windows) == closed


def test_a_document_stamped_0933_that_arrives_0937_is_in_the_processing_time_window_of_0935():
    by_clock = atlas_job(ordering="{boundary: processing_time}", end="flush")
    by_event = atlas_job(end="flush")
    one = log(("09:33", "09:37"))
    assert counts(run(by_clock, one), "n") == [("09:35", "09:40", 1)]
    assert counts(run(by_event, one), "n") == [("09:30", "09:35", 1)]


@pytest.mark.parametrize(("rows", "closed"), [(9, 0), (10, 1)])
def test_the_second_table_closes_its_window_two_minutes_of_event_time_later(rows, closed):
    assert len(run(atlas_job(ordering="{allowed_lateness: 2m}"), TABLE_2[:rows]).windows) == closed


def test_the_second_table_counts_the_late_but_allowed_document():
    outcome = run(atlas_job(ordering="{allowed_lateness: 2m}", end="flush"), TABLE_2)
    assert counts(outcome, "n") == [("12:00", "12:05", 7), ("12:05", "12:10", 3)]
    assert [decision.sequence for decision in outcome.decisions if decision.verdict != "accepted"] == []


def test_the_second_table_without_lateness_loses_the_ninth_document():
    outcome = run(atlas_job(end="flush"), TABLE_2)
    assert ruling(outcome.decisions[8]) == ("dropped", ("late",), None)
    assert [clock(start) for start in outcome.decisions[8].missed_windows_us] == ["12:00"]
    assert counts(outcome, "n") == [("12:00", "12:05", 6), ("12:05", "12:10", 3)]


def test_the_third_table_closes_by_watermark_then_by_recorded_idleness():
    rows = [
        event("12:00", 0, at=at("12:00"), device="a", fine=True),
        event("12:04", 1, at=at("12:02"), device="a", fine=True),
        event("12:05", 2, at=at("12:05"), device="a", fine=True),
        punctuation("12:07", 3, "12:06"),
        event("12:09", 4, at=at("12:09"), device="a", fine=True),
    ]
    outcome = run(atlas_job("{tumbling: {size: 3m}}", "{allowed_lateness: 0s, idle_timeout: 1m}"), rows)
    assert counts(outcome, "n") == [("12:00", "12:03", 2), ("12:03", "12:06", 1)]
    assert [clock(decision.watermark_us) for decision in outcome.decisions] == [None, "12:00", "12:02", "12:06"]


@pytest.mark.parametrize(
    ("lateness", "time", "closed"),
    [
        ("3s", "12:05:02.999999", 0),
        ("3s", "12:05:03", 1),
        ("0s", "12:04:59.999999", 0),
        ("0s", "12:05", 1),
    ],
)
def test_a_window_closes_once_the_watermark_less_the_lateness_reaches_its_end(lateness, time, closed):
    outcome = run(atlas_job(ordering=f"{{allowed_lateness: {lateness}}}"), log(("12:01", "12:01"), (time, "12:09")))
    assert len(outcome.windows) == closed


@pytest.mark.parametrize(("time", "verdict"), [("12:05:02.999999", "accepted"), ("12:05:03", "dropped")])
def test_a_document_is_late_from_the_moment_its_window_closes(time, verdict):
    rows = log(("12:01", "12:01"), (time, "12:09"), ("12:04:59", "12:09"))
    assert run(atlas_job(ordering="{allowed_lateness: 3s}"), rows).decisions[2].verdict == verdict


@pytest.mark.parametrize(
    ("size", "hop", "second", "starts"),
    [
        ("20s", "5s", 0, [-15, -10, -5, 0]),
        ("20s", "5s", 4, [-15, -10, -5, 0]),
        ("20s", "5s", 5, [-10, -5, 0, 5]),
        ("20s", "5s", 19, [0, 5, 10, 15]),
        ("20s", "5s", 20, [5, 10, 15, 20]),
        ("3s", "5s", 0, [0]),
        ("3s", "5s", 2, [0]),
        ("3s", "5s", 3, []),
        ("3s", "5s", 4, []),
        ("3s", "5s", 5, [5]),
        ("3s", "5s", 7, [5]),
        ("3s", "5s", 8, []),
    ],
)
def test_a_document_is_in_every_hop_that_holds_it_and_in_none_in_a_gap(size, hop, second, starts):
    one = [event("12:30", 0, at=at("12:00") + second * 1_000_000, device="a", fine=True)]
    outcome = run(atlas_job(f"{{hopping: {{size: {size}, hop: {hop}}}}}", end="flush"), one)
    assert [(row.window_start_us - at("12:00")) // 1_000_000 for row in outcome.windows] == starts
    assert outcome.decisions[0].verdict == "accepted"


def test_a_document_that_misses_some_of_its_hops_is_partial_and_counts_in_the_others():
    rows = log(("12:00:12", "12:01"), ("12:00:22", "12:01"), ("12:00:14", "12:01"))
    outcome = run(atlas_job("{hopping: {size: 20s, hop: 5s}}", end="flush"), rows)
    decision = outcome.decisions[2]
    assert ruling(decision) == ("partial", ("late",), "12:00:14")
    assert [clock(start) for start in decision.missed_windows_us] == ["11:59:55", "12:00"]
    counted = {clock(row.window_start_us): row.values["n"] for row in outcome.windows}
    assert counted == {"11:59:55": 1, "12:00": 1, "12:00:05": 3, "12:00:10": 3, "12:00:15": 1, "12:00:20": 1}
    assert [letter.missed_windows_us for letter in outcome.dead_letters] == [decision.missed_windows_us]


def test_a_late_document_is_dead_lettered_in_the_words_of_the_product():
    rows = log(("12:01", "12:01"), ("12:05", "12:05"), ("12:04", "12:06"))
    (letter,) = run(atlas_job(), rows).dead_letters
    assert (letter.operator, letter.reason) == ("GroupOperator", "Input document arrived late.")
    assert (letter.sequence, [clock(start) for start in letter.missed_windows_us]) == (2, ["12:00"])
    assert letter.doc["at"] == at("12:04")


def test_a_document_without_a_time_is_dropped_dead_lettered_and_moves_nothing():
    rows = [
        event("12:00", 0, at=None, device="a", fine=True),
        event("12:01", 1, at=at("12:01"), device="a", fine=True),
    ]
    outcome = run(atlas_job(), rows)
    assert ruling(outcome.decisions[0]) == ("dropped", ("invalid_time",), None)
    assert outcome.decisions[1].watermark_us is None
    assert [letter.operator for letter in outcome.dead_letters] == ["KafkaConsumerOperator"]


def two_partitions(*rows):
    """Rows of (partition, event time, arrival time)."""
    sequences: dict[int, int] = {}
    found = []
    for partition, time, arrival in rows:
        sequences[partition] = sequences.get(partition, -1) + 1
        found.append(event(arrival, sequences[partition], partition, at=at(time), device="a", fine=True))
    return found


def test_the_slower_partition_holds_the_watermark_back():
    rows = two_partitions((0, "12:09", "12:09"), (1, "12:02", "12:10"), (0, "12:03", "12:11"), (1, "12:06", "12:12"))
    outcome = run(atlas_job(), rows)
    assert [clock(decision.watermark_us) for decision in outcome.decisions] == [None, None, "12:02", "12:02"]
    assert counts(outcome, "n") == [("12:00", "12:05", 2)]


def test_a_declared_partition_that_was_never_heard_keeps_every_window_open():
    rows = two_partitions((0, "12:01", "12:01"), (0, "12:30", "12:30"))
    assert len(run(atlas_job(), rows).windows) == 1
    assert run(atlas_job(partitions=", partitions: 2"), rows).windows == ()


def test_a_punctuation_of_a_silent_partition_lets_the_windows_close():
    rows = [*two_partitions((0, "12:01", "12:01"), (0, "12:30", "12:30")), punctuation("12:31", 0, "12:05", 1)]
    assert counts(run(atlas_job(partitions=", partitions: 2"), rows), "n") == [("12:00", "12:05", 1)]


def test_a_punctuation_without_a_partition_speaks_for_all():
    rows = [*two_partitions((0, "12:01", "12:01")), punctuation("12:31", 0, "12:05", None)]
    assert counts(run(atlas_job(partitions=", partitions: 3"), rows), "n") == [("12:00", "12:05", 1)]


def test_a_punctuation_for_all_acts_before_the_documents_of_its_arrival_time():
    rows = [*two_partitions((0, "12:01", "12:01"), (0, "12:04", "12:31")), punctuation("12:31", 0, "12:05", None)]
    assert [decision.verdict for decision in run(atlas_job(), rows).decisions] == ["accepted", "dropped"]


def test_a_punctuation_of_a_partition_acts_at_its_place_in_the_sequence():
    rows = [*two_partitions((0, "12:01", "12:01"), (0, "12:04", "12:31")), punctuation("12:31", 2, "12:05", 0)]
    assert [decision.verdict for decision in run(atlas_job(), rows).decisions] == ["accepted", "accepted"]


@pytest.mark.parametrize(("until", "closed"), [("12:04:59.999999", 0), ("12:05", 1)])
def test_a_punctuation_closes_windows_that_end_at_it_whatever_the_lateness(until, closed):
    rows = [*two_partitions((0, "12:01", "12:01")), punctuation("12:31", 1, until)]
    assert len(run(atlas_job(ordering="{allowed_lateness: 1h}"), rows).windows) == closed


def test_a_document_that_where_removes_moves_the_watermark_and_has_its_verdict():
    rows = [
        event("12:01", 0, at=at("12:01"), device="a", fine=True),
        event("12:05", 1, at=at("12:05"), device="a", fine=False),
        event("12:06", 2, at=at("12:04"), device="a", fine=True),
    ]
    outcome = run(atlas_job(where="where: fine, ", end="flush"), rows)
    assert [decision.verdict for decision in outcome.decisions] == ["accepted", "accepted", "dropped"]
    assert counts(outcome, "n") == [("12:00", "12:05", 1)]


SESSION = "{session: {gap: 5m}}"


def test_times_exactly_a_gap_apart_are_two_sessions():
    rows = log(("12:00", "12:00"), ("12:05", "12:05"))
    assert counts(run(atlas_job(SESSION, end="flush"), rows), "n") == [("12:00", "12:05", 1), ("12:05", "12:10", 1)]


def test_times_a_microsecond_less_than_a_gap_apart_are_one_session():
    rows = log(("12:00", "12:00"), ("12:04:59.999999", "12:05"))
    assert counts(run(atlas_job(SESSION, end="flush"), rows), "n") == [("12:00", "12:09:59.999999", 2)]


def test_an_out_of_order_document_merges_two_sessions():
    rows = log(("12:00", "12:00"), ("12:08", "12:08"), ("12:04", "12:09"))
    outcome = run(atlas_job(SESSION, "{allowed_lateness: 10m}", end="flush"), rows)
    assert counts(outcome, "n") == [("12:00", "12:13", 3)]


@pytest.mark.parametrize(("time", "closed"), [("12:05:02.999999", 0), ("12:05:03", 1)])
def test_a_session_closes_a_gap_and_the_lateness_after_its_latest_document(time, closed):
    rows = log(("12:00", "12:00"), (time, "12:06"))
    assert len(run(atlas_job(SESSION, "{allowed_lateness: 3s}"), rows).windows) == closed


def test_lateness_does_not_protect_a_document_that_would_open_a_session():
    rows = log(("12:00", "12:00"), ("12:30", "12:30"), ("12:20", "12:31"))
    outcome = run(atlas_job(SESSION, "{allowed_lateness: 1h}", end="flush"), rows)
    assert ruling(outcome.decisions[2]) == ("dropped", ("late",), None)
    assert outcome.decisions[2].missed_windows_us == ()
    assert counts(outcome, "n") == [("12:00", "12:05", 1), ("12:30", "12:35", 1)]


def test_a_document_at_the_watermark_opens_a_session():
    rows = [
        event("12:00", 0, at=at("12:00"), device="a", fine=True),
        event("12:30", 1, at=at("12:30"), device="a", fine=True),
        event("12:31", 2, at=at("12:30"), device="b", fine=True),
    ]
    chained = "{session: {gap: 5m, partition_by: [device]}}"
    assert run(atlas_job(chained), rows).decisions[2].verdict == "accepted"


def test_a_document_does_not_join_a_session_that_has_closed():
    rows = log(("12:00", "12:00"), ("12:05", "12:05"), ("12:04", "12:06"))
    outcome = run(atlas_job(SESSION, end="flush"), rows)
    # 12:04 lies within the gap of both; the session of 12:00 closed as the watermark reached 12:05
    assert counts(outcome, "n") == [("12:00", "12:05", 1), ("12:04", "12:10", 2)]


def test_sessions_are_chains_of_their_partition_then_grouped():
    rows = [
        event("12:00", 0, at=at("12:00"), device="a", fine=True),
        event("12:03", 1, at=at("12:03"), device="b", fine=True),
        event("12:06", 2, at=at("12:06"), device="a", fine=True),
    ]
    one_chain = run(atlas_job(SESSION, end="flush", group="[device]"), rows)
    assert counts(one_chain, "device", "n") == [("12:00", "12:11", "a", 2), ("12:00", "12:11", "b", 1)]
    chained = run(atlas_job("{session: {gap: 5m, partition_by: [device]}}", end="flush", group="[device]"), rows)
    assert counts(chained, "device", "n") == [
        ("12:00", "12:05", "a", 1),
        ("12:03", "12:08", "b", 1),
        ("12:06", "12:11", "a", 1),
    ]


def test_a_document_that_where_removes_never_joins_a_session():
    rows = [
        event("12:00", 0, at=at("12:00"), device="a", fine=True),
        event("12:04", 1, at=at("12:04"), device="a", fine=False),
        event("12:08", 2, at=at("12:08"), device="a", fine=True),
    ]
    outcome = run(atlas_job(SESSION, "{allowed_lateness: 1h}", end="flush", where="where: fine, "), rows)
    assert counts(outcome, "n") == [("12:00", "12:05", 1), ("12:08", "12:13", 1)]


def test_an_open_session_does_not_take_a_document_exactly_a_gap_after_it():
    rows = log(("12:00", "12:00"), ("12:05", "12:05"))
    outcome = run(atlas_job(SESSION, "{allowed_lateness: 1h}", end="flush"), rows)
    assert counts(outcome, "n") == [("12:00", "12:05", 1), ("12:05", "12:10", 1)]


@pytest.mark.parametrize(("time", "verdict"), [("12:05", "dropped"), ("12:05:00.000001", "accepted")])
def test_an_open_session_takes_an_older_document_that_is_less_than_a_gap_before_it(time, verdict):
    rows = log(("12:10", "12:10"), (time, "12:11"))
    assert run(atlas_job(SESSION, "{allowed_lateness: 1h}"), rows).decisions[1].verdict == verdict
