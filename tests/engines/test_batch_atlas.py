"""Atlas in the batch engine: watermark, closing, lateness, hops, sessions, punctuations, dead letters."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.batch.engine import run
from pipelines.batch.spark.local_rows import local_frame, local_rows
from pipelines.core.time import format_instant, parse_instant
from pipelines.job.load import parse_job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.batch.engine import Result

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]

_JOB = """
job: example
profile: atlas
inputs: {{docs: {{columns: "at TIMESTAMP, k STRING", timestamp_by: at{input_extra}}}}}
ordering: {{{ordering}}}
query:
  from: docs
  group_by: [{group_by}]
  window: {window}
  aggregates: {{n: "count(*)", ks: "collect(k)"}}
{query_extra}
{extra}
"""
_ARRIVALS = (
    ("at", "timestamp"),
    ("k", "string"),
    ("arrival_time", "timestamp"),
    ("input_partition", "int"),
    ("sequence", "bigint"),
    ("kind", "string"),
    ("punctuation_time", "timestamp"),
)
TUMBLING_5M = "{tumbling: {size: 5m}}"


class Outcome:
    """What a run gave, computed when asked for: verdicts and dead letters by sequence, windows by start."""

    def __init__(self, result: Result) -> None:
        self.result = result

    @cached_property
    def verdicts(self) -> list[dict[str, Any]]:
        return _sorted(self.result.verdicts, "sequence")

    @cached_property
    def windows(self) -> list[dict[str, Any]]:
        return _sorted(self.result.windows, "window_start", "window_end")

    @cached_property
    def dead_letters(self) -> list[dict[str, Any]]:
        assert self.result.dead_letters is not None
        return _sorted(self.result.dead_letters, "sequence")

    def column(self, name: str) -> list[Any]:
        return [row[name] for row in self.verdicts]

    def counts(self) -> dict[str, int]:
        return {f"{_clock(row['window_start'])}-{_clock(row['window_end'])}": row["n"] for row in self.windows}

    def watermarks(self) -> list[str | None]:
        return [_clock(value) if value else None for value in self.column("watermark")]


def _sorted(frame: DataFrame, *columns: str) -> list[dict[str, Any]]:
    return sorted(local_rows(frame), key=lambda row: [row[column] for column in columns])


def _clock(instant_us: int) -> str:
    return format_instant(instant_us).removeprefix("2026-01-01T").removesuffix("Z").removesuffix(":00")


def _instant(clock: str | None) -> int | None:
    return parse_instant(f"2026-01-01T{clock}Z") if clock else None


def _log(spark: SparkSession, rows: list[tuple[Any, ...]]) -> DataFrame:
    """Rows are (arrival, event time, k, partition) for an event and (arrival, None, [P], partition) for P."""
    table = []
    for sequence, (arrival, at, k, *partition) in enumerate(rows):
        part = partition[0] if partition else 0
        punctuation = _instant(k[0]) if isinstance(k, list) else None
        payload = (None, None) if punctuation else (_instant(at), k)
        kind = "punctuation" if punctuation else "event"
        table.append((*payload, _instant(arrival), part, sequence, kind, punctuation))
    return local_frame(spark, _ARRIVALS, table)


def replay(
    spark: SparkSession,
    rows: list[tuple[Any, ...]],
    *,
    window: str = TUMBLING_5M,
    ordering: str = "allowed_lateness: 0s",
    group_by: str = "",
    extra: str = "end_of_log: flush",
    input_extra: str = "",
    query_extra: str = "",
) -> Outcome:
    text = _JOB.format(
        window=window,
        ordering=ordering,
        group_by=group_by,
        extra=extra,
        input_extra=input_extra,
        query_extra=query_extra,
    )
    return Outcome(run(parse_job("tailrace: 1" + text), {"docs": _log(spark, rows)}))


TABLE_1 = [
    ("12:00", "12:00", "1"),
    ("12:01", "12:00", "2"),
    ("12:03", "12:01", "3"),
    ("12:04", "12:03", "4"),
    ("12:05", "12:02", "5"),
    ("12:06", "12:01", "6"),
    ("12:06", "12:04", "7"),
    ("12:07", "12:05", "8"),
    ("12:07", "12:06", "9"),
    ("12:08", "12:06", "10"),
]


def test_late_documents_of_the_published_table_count_in_their_own_window(spark: SparkSession) -> None:
    outcome = replay(spark, TABLE_1)
    assert outcome.counts() == {"12:00-12:05": 7, "12:05-12:10": 3}
    assert outcome.watermarks() == [
        None, "12:00", "12:00", "12:01", "12:03", "12:03", "12:03", "12:04", "12:05", "12:06",
    ]  # fmt: skip


def test_holding_leaves_out_the_window_that_the_log_does_not_close(spark: SparkSession) -> None:
    assert replay(spark, TABLE_1, extra="").counts() == {"12:00-12:05": 7}


def test_windows_of_processing_time_take_documents_by_arrival_and_close_by_arrival(spark: SparkSession) -> None:
    outcome = replay(spark, TABLE_1, extra="end_of_log: hold", ordering="boundary: processing_time")
    assert outcome.counts() == {"12:00-12:05": 4}
    assert set(outcome.column("verdict")) == {"accepted"}
    assert [_clock(moment) for moment in outcome.column("system_timestamp")][:3] == ["12:00", "12:01", "12:03"]


def test_lateness_keeps_a_window_open_until_the_watermark_passes_its_end_by_it(spark: SparkSession) -> None:
    events = ["12:00", "12:01", "12:03", "12:02", "12:04", "12:01", "12:05", "12:06", "12:04", "12:07"]
    rows = [("13:00", at, str(index)) for index, at in enumerate(events)]
    assert replay(spark, rows, ordering="allowed_lateness: 2m", extra="").counts() == {"12:00-12:05": 7}
    assert replay(spark, rows, ordering="allowed_lateness: 2m1us", extra="").counts() == {}


def test_a_document_is_late_exactly_when_its_window_has_closed(spark: SparkSession) -> None:
    rows = [
        ("13:00", "12:06:59.999999", "a"),
        ("13:00", "12:04:59.999999", "taken"),
        ("13:00", "12:07", "closes"),
        ("13:00", "12:04:59.999999", "late"),
    ]
    outcome = replay(spark, rows, ordering="allowed_lateness: 2m")
    assert outcome.column("verdict") == ["accepted", "accepted", "accepted", "dropped"]
    assert outcome.column("reasons") == [[], [], [], ["late"]]
    assert outcome.verdicts[3]["system_timestamp"] is None
    assert [_clock(start) for start in outcome.verdicts[3]["missed_windows"]] == ["12:00"]


def test_idle_closes_recorded_as_punctuations_give_the_published_table(spark: SparkSession) -> None:
    rows = [
        ("12:00", "12:00", "a"),
        ("12:04", "12:02", "b"),
        ("12:05", "12:05", "c"),
        ("12:07", None, ["12:06"]),
        ("12:09", "12:09", "d"),
    ]
    outcome = replay(spark, rows, window="{tumbling: {size: 3m}}", extra="")
    assert outcome.counts() == {"12:00-12:03": 2, "12:03-12:06": 1}
    assert outcome.watermarks() == [None, "12:00", "12:02", "12:06"]


def test_a_punctuation_closes_windows_whatever_the_lateness(spark: SparkSession) -> None:
    rows = [("12:00", "12:01", "a"), ("12:06", None, ["12:05"]), ("12:07", "12:04", "late"), ("12:08", "12:05", "b")]
    outcome = replay(spark, rows, ordering="allowed_lateness: 1h", extra="")
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted"]
    assert outcome.watermarks() == [None, "12:05", "12:05"]
    assert outcome.counts() == {"12:00-12:05": 1}


def test_a_partition_not_yet_heard_holds_the_watermark_back(spark: SparkSession) -> None:
    rows = [
        ("12:00", "12:30", "a", 0),
        ("12:01", "12:01", "b", 0),
        ("12:02", "12:07", "c", 1),
        ("12:03", "12:04", "d", 0),
    ]
    outcome = replay(spark, rows)
    assert outcome.watermarks() == [None, None, None, "12:07"]
    assert outcome.column("verdict") == ["accepted", "accepted", "accepted", "dropped"]


def test_a_declared_partition_without_a_document_holds_every_window_open(spark: SparkSession) -> None:
    rows = [("12:00", "12:30", "a", 0), ("12:01", "12:01", "b", 0)]
    outcome = replay(spark, rows, input_extra=", partitions: 2", extra="")
    assert (outcome.watermarks(), outcome.counts()) == ([None, None], {})


def test_a_punctuation_for_one_partition_lifts_that_partition_only(spark: SparkSession) -> None:
    rows = [
        ("12:00", "12:30", "a", 0),
        ("12:01", None, ["12:10"], 1),
        ("12:02", "12:09", "b", 0),
        ("12:03", "12:10", "c", 0),
    ]
    outcome = replay(spark, rows, ordering="allowed_lateness: 10m")
    assert outcome.watermarks() == [None, "12:10", "12:10"]
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted"]


def test_the_lateness_still_holds_back_partitions_that_a_foreign_punctuation_does_not_name(spark: SparkSession) -> None:
    rows = [
        ("12:00", "12:12", "a", 0),
        ("12:01", None, ["12:20"], 1),
        ("12:02", "12:03", "b", 0),
        ("12:03", "12:01", "c", 0),
    ]
    outcome = replay(spark, rows, ordering="allowed_lateness: 8m")
    assert outcome.watermarks() == [None, "12:12", "12:12"]
    assert outcome.column("verdict") == ["accepted", "accepted", "accepted"]


def test_a_punctuation_without_a_partition_speaks_for_all(spark: SparkSession) -> None:
    rows = [("12:00", "12:01", "a", 0), ("12:01", None, ["12:10"], None), ("12:02", "12:04", "b", 1)]
    outcome = replay(spark, rows, extra="")
    assert outcome.watermarks() == [None, "12:10"]
    assert outcome.counts() == {"12:00-12:05": 1}


def test_a_document_without_a_time_is_dropped_and_moves_nothing(spark: SparkSession) -> None:
    outcome = replay(spark, [("12:00", "12:01", "a"), ("12:01", None, "bad"), ("12:02", "12:00", "b")])
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted"]
    assert outcome.column("reasons") == [[], ["invalid_time"], []]
    assert outcome.watermarks() == [None, None, "12:01"]


def test_where_acts_after_ordering(spark: SparkSession) -> None:
    rows = [
        ("12:00", "12:30", "gone"),
        ("12:01", "12:01", "late"),
        ("12:02", "12:31", "kept"),
        ("12:02", "12:31", None),
    ]
    outcome = replay(spark, rows, query_extra="  where: \"k <> 'gone'\"")
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted", "accepted"]
    assert outcome.counts() == {"12:30-12:35": 1}


# -- hopping ----------------------------------------------------------------------------------------------------------


def test_a_document_lies_in_every_hop_that_holds_it(spark: SparkSession) -> None:
    rows = [("12:01", f"12:00:{second:02}", str(second)) for second in (0, 4, 5, 19, 20)]
    outcome = replay(spark, rows, window="{hopping: {size: 20s, hop: 5s}}", ordering="allowed_lateness: 1h")
    starts: dict[str, list[str]] = {}
    for row in outcome.windows:
        for k in row["ks"]:
            starts.setdefault(k, []).append(_clock(row["window_start"]).removeprefix("12:00:"))
    assert starts["4"] == ["11:59:45", "11:59:50", "11:59:55", "12:00"]
    assert starts["5"] == ["11:59:50", "11:59:55", "12:00", "05"]
    assert starts["19"] == ["12:00", "05", "10", "15"]
    assert starts["20"] == ["05", "10", "15", "20"]


def test_documents_between_two_hops_are_accepted_and_count_nowhere(spark: SparkSession) -> None:
    rows = [("12:01", f"12:00:{second:02}", str(second)) for second in (2, 3, 4, 5, 7, 8)]
    outcome = replay(spark, rows, window="{hopping: {size: 3s, hop: 5s}}")
    assert outcome.column("verdict") == ["accepted"] * 6
    assert _clock(outcome.verdicts[1]["system_timestamp"]) == "12:00:03"
    assert [row["ks"] for row in outcome.windows] == [["2"], ["5", "7"]]


def test_a_document_late_for_some_windows_is_partial_and_counts_in_the_others(spark: SparkSession) -> None:
    rows = [("13:00", "12:00:29", "a"), ("13:00", "12:00:14", "partial"), ("13:00", "12:00:05", "late")]
    outcome = replay(spark, rows, window="{hopping: {size: 20s, hop: 5s}}")
    assert outcome.column("verdict") == ["accepted", "partial", "dropped"]
    assert outcome.column("reasons") == [[], ["late"], ["late"]]
    missed = [[_clock(start) for start in starts] for starts in outcome.column("missed_windows")]
    assert missed[1] == ["11:59:55", "12:00", "12:00:05"]
    assert missed[2] == ["11:59:50", "11:59:55", "12:00", "12:00:05"]
    assert "partial" in {row["window_start"]: row["ks"] for row in outcome.windows}[_instant("12:00:10")]


def test_an_offset_moves_the_grid_forward_from_the_epoch(spark: SparkSession) -> None:
    outcome = replay(spark, [("12:00", "12:01", "a")], window="{tumbling: {size: 5m, offset: 2m}}")
    assert outcome.counts() == {"11:57-12:02": 1}


# -- sessions ---------------------------------------------------------------------------------------------------------

SESSION = "{session: {gap: 5m, partition_by: [k]}}"


def test_a_pause_of_exactly_the_gap_makes_two_sessions(spark: SparkSession) -> None:
    rows = [("13:00", "12:00", "a"), ("13:00", "12:04:59.999999", "a"), ("13:00", "12:09:59.999999", "a")]
    outcome = replay(spark, rows, window=SESSION)
    assert outcome.counts() == {"12:00-12:09:59.999999": 2, "12:09:59.999999-12:14:59.999999": 1}


def test_sessions_are_apart_by_partition_value_and_null_is_a_value(spark: SparkSession) -> None:
    rows = [("13:00", "12:00", "a"), ("13:00", "12:01", "b"), ("13:00", "12:02", None), ("13:00", "12:03", "a")]
    outcome = replay(spark, rows, window=SESSION, group_by="k")
    found = {row["k"]: (row["n"], _clock(row["window_end"])) for row in outcome.windows}
    assert found == {"a": (2, "12:08"), "b": (1, "12:06"), None: (1, "12:07")}


def test_a_document_within_the_gap_of_two_open_sessions_merges_them(spark: SparkSession) -> None:
    rows = [("13:00", "12:00", "a"), ("13:00", "12:07", "a"), ("13:00", "12:03", "a")]
    assert replay(spark, rows, window=SESSION, ordering="allowed_lateness: 1h").counts() == {"12:00-12:12": 3}
    assert replay(spark, rows, window=SESSION, ordering="allowed_lateness: 0s").counts() == {
        "12:00-12:05": 1,
        "12:03-12:12": 2,
    }


def test_a_session_closes_when_the_watermark_passes_its_end_by_the_lateness(spark: SparkSession) -> None:
    rows = [
        ("13:00", "12:00", "a"),
        ("13:00", "12:05:59.999999", "b"),
        ("13:00", "12:04", "a"),
        ("13:00", "12:20", "b"),
    ]
    outcome = replay(spark, rows, window=SESSION, ordering="allowed_lateness: 1m", extra="")
    assert outcome.column("verdict") == ["accepted"] * 4
    assert outcome.counts() == {"12:00-12:09": 2, "12:05:59.999999-12:10:59.999999": 1}


def test_a_late_session_document_is_dropped_without_missed_windows(spark: SparkSession) -> None:
    rows = [("13:00", "12:00", "a"), ("13:00", "12:06", "b"), ("13:00", "12:04", "a"), ("13:00", "12:05", "c")]
    outcome = replay(spark, rows, window=SESSION, ordering="allowed_lateness: 1m")
    assert outcome.column("verdict") == ["accepted", "accepted", "dropped", "dropped"]
    assert outcome.column("missed_windows") == [[], [], [], []]


def test_the_lateness_does_not_protect_a_document_that_would_open_a_session(spark: SparkSession) -> None:
    rows = [("13:00", "12:30", "a"), ("13:00", "12:25", "a"), ("13:00", "12:25:00.000001", "a")]
    outcome = replay(spark, rows, window=SESSION, ordering="allowed_lateness: 1h")
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted"]


def test_a_punctuation_at_its_end_closes_a_session(spark: SparkSession) -> None:
    rows = [("12:00", "12:00", "a"), ("12:06", None, ["12:05"]), ("12:07", "12:04", "a"), ("12:08", "12:05", "a")]
    outcome = replay(spark, rows, window=SESSION, ordering="allowed_lateness: 1h", extra="")
    assert outcome.column("verdict") == ["accepted", "dropped", "accepted"]
    assert outcome.counts() == {"12:00-12:05": 1}


def test_sessions_of_processing_time_follow_arrivals(spark: SparkSession) -> None:
    rows = [("12:00", "11:00", "a"), ("12:04", "10:00", "a"), ("12:09", "12:00", "a"), ("12:14", None, "bad")]
    outcome = replay(spark, rows, window=SESSION, extra="", ordering="boundary: processing_time")
    assert outcome.counts() == {"12:00-12:09": 2, "12:09-12:14": 1}
    assert outcome.column("verdict") == ["accepted", "accepted", "accepted", "dropped"]


def test_a_document_that_where_removes_is_judged_but_holds_no_session_together(spark: SparkSession) -> None:
    rows = [("13:00", "12:00", "a"), ("13:00", "12:03", "gone"), ("13:00", "12:06", "a"), ("13:00", "11:00", "gone")]
    outcome = replay(spark, rows, window="{session: {gap: 5m}}", query_extra="  where: \"k = 'a'\"")
    assert outcome.column("verdict") == ["accepted", "accepted", "accepted", "dropped"]
    assert outcome.counts() == {"12:00-12:05": 1, "12:06-12:11": 1}


# -- dead letters -----------------------------------------------------------------------------------------------------


def test_dead_letters_hold_the_document_the_reason_and_the_missed_windows(spark: SparkSession) -> None:
    outcome = replay(spark, [("12:00", "12:07", "a"), ("12:01", "12:01", "b"), ("12:02", None, "c")])
    late, invalid = outcome.dead_letters
    assert late["reason"] == "Input document arrived late."
    assert [_clock(start) for start in late["missed_windows"]] == ["12:00"]
    assert json.loads(late["doc"])["k"] == "b"
    assert (late["operator"], invalid["operator"]) == ("GroupOperator", "KafkaConsumerOperator")
    assert (late["sequence"], late["input"], late["input_partition"]) == (1, "docs", 0)
    assert (invalid["sequence"], invalid["missed_windows"]) == (2, [])
