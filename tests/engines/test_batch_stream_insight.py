"""Profile stream_insight in the batch engine. Times are microseconds after 2026-01-01; arrivals are 40 s apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.time import to_datetime

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.core.model import Input, Window

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("tiny_spark")]

ZERO_US = 1_767_225_600_000_000
Row = Mapping[str, Any]
Fate = tuple[str, list[str], int | None, int | None]


@dataclass(frozen=True)
class Played:
    """What a job made of its logs: by input and position, times relative to ZERO_US."""

    fates: dict[tuple[str, int], Fate]
    current: dict[tuple[str, int], int | None]
    windows: dict[tuple[int, int], list[str | None]]

    def fate(self, position: int, name: str = "a") -> Fate:
        return self.fates[name, position]

    def currents(self, name: str = "a") -> list[int | None]:
        return [at for (source, _), at in sorted(self.current.items()) if source == name]


def play(
    spark: SparkSession,
    ordering: str,
    *logs: Sequence[Row],
    shape: str = "point",
    match_on: str = "[]",
    query: str = "from: a, window: {tumbling: {size: 10us}}",
    end_of_log: str = "flush",
    timestamp_by: str = "at",
) -> Played:
    """The batch engine over inputs ``a``, ``b`` .. of one log each, verdicts and members in one Spark action."""
    from pyspark.sql import functions as F

    from pipelines.batch.normalise import normalise
    from pipelines.batch.stream_insight.ordering import decide
    from pipelines.job.load import parse_job

    by_shape = {
        "point": "",
        "interval": ", shape: interval, end_by: ends",
        "edge": f", shape: edge, end_by: ends, edge_by: edge, match_on: {match_on}",
    }
    names = "abc"[: len(logs)]
    inputs = "\n".join(
        f'  {name}: {{columns: "id STRING, at TIMESTAMP, ends TIMESTAMP, edge STRING, n INT",'
        f" timestamp_by: {timestamp_by}{by_shape[shape]}}}"
        for name in names
    )
    job = parse_job(
        f"tailrace: 1\njob: example\nprofile: stream_insight\ninputs:\n{inputs}\nordering: {ordering}\n"
        f'query: {{{query}, aggregates: {{n: "count(*)"}}}}\nend_of_log: {end_of_log}\n'
    )
    frames = {
        name: normalise(arrivals(spark, job.input(name), log), job.input(name), rank)
        for rank, (name, log) in enumerate(zip(names, logs, strict=True))
    }
    decided = decide(job, frames)
    assert decided.dead_letters is None
    text = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    both = decided.verdicts.select(F.lit("verdict"), text)
    return gather(both.union(decided.members.select(F.lit("member"), text)))


def arrivals(spark: SparkSession, source: Input, log: Sequence[Row]) -> DataFrame:
    """A table of arrivals of rows {id, at, ends, edge, punctuation, partition, after}: all but ``after`` optional."""
    schema = "arrival_time TIMESTAMP, input_partition INT, sequence BIGINT, kind STRING, punctuation_time TIMESTAMP, "
    schema += ", ".join(f"{column.name} {column.type}" for column in source.columns)
    data = []
    for position, row in enumerate(log):
        arrival_us = ZERO_US + row.get("after", 40_000_000 * (position + 1))
        is_punctuation = "punctuation" in row
        times = [to_datetime(ZERO_US + row[key]) if row.get(key) is not None else None for key in ("at", "ends")]
        payload = (row.get("id"), *times, row.get("edge"), row.get("n"))
        punctuation = to_datetime(ZERO_US + row["punctuation"]) if is_punctuation else None
        kind = "punctuation" if is_punctuation else "event"
        partition = row.get("partition", 0)
        data.append((to_datetime(arrival_us), partition, row.get("sequence", position), kind, punctuation, *payload))
    return spark.createDataFrame(data, schema)


def gather(both: DataFrame) -> Played:
    fates, current, windows = {}, {}, defaultdict(list)
    for kind, text in both.collect():
        row = json.loads(text)
        if kind == "member":
            assert row["__window_id"] is None
            window = (row["__window_start_us"] - ZERO_US, row["__window_end_us"] - ZERO_US)
            windows[window].append(row["id"])
            continue
        key = (row["__input"], row["__sequence"])
        assert key not in fates
        assert row["__missed_us"] == []
        times = [relative(row[name]) for name in ("__system_us", "__lifetime_end_us", "__watermark_us")]
        fates[key] = (row["__verdict"], row["__reasons"], *times[:2])
        current[key] = times[2]
    return Played(fates, current, {window: sorted(ids, key=str) for window, ids in sorted(windows.items())})


def relative(instant_us: int | None) -> int | None:
    return None if instant_us is None else instant_us - ZERO_US


def points(*starts: int) -> list[Row]:
    return [{"id": f"e{position}", "at": start} for position, start in enumerate(starts, 1)]


def accepted(start: int, end: int | None) -> Fate:
    return ("accepted", [], start, end)


def adjusted(start: int, end: int | None) -> Fate:
    return ("adjusted", ["before_current_time"], start, end)


def dropped(*reasons: str) -> Fate:
    return ("dropped", list(reasons), None, None)


LATE = dropped("before_current_time")

# -- generated CTIs --------------------------------------------------------------------------------------------------


def test_an_event_at_every_event_advances_the_time_to_its_start(spark: SparkSession) -> None:
    played = play(spark, "{advance: increasing_start_time}", points(10, 20, 20, 19, 30))
    assert played.currents() == [None, 10, 20, 20, 20]
    assert played.fate(2) == accepted(20, 21), "an equal start is no violation"
    assert played.fate(3) == LATE
    assert played.windows == {(10, 20): ["e1"], (20, 30): ["e2", "e3"], (30, 40): ["e5"]}


def test_a_delay_of_minus_one_microsecond_drops_the_second_of_two_equal_starts(spark: SparkSession) -> None:
    played = play(spark, "{advance: strictly_increasing_start_time}", points(10, 20, 20, 21, 30))
    assert played.currents() == [None, 11, 21, 21, 22]
    assert [played.fate(position) for position in range(5)] == [
        accepted(10, 11),
        accepted(20, 21),
        LATE,
        accepted(21, 22),
        accepted(30, 31),
    ]


def test_a_tolerance_accepts_disorder_up_to_and_including_it(spark: SparkSession) -> None:
    played = play(spark, "{advance: {unordered_start_time: 5us}}", points(20, 15, 14, 10, 22, 17, 16))
    assert played.currents() == [None, 15, 15, 15, 15, 17, 17]
    assert played.fate(1) == accepted(15, 16)
    assert played.fate(2) == LATE
    assert played.fate(5) == accepted(17, 18)
    assert played.fate(6) == LATE


def test_every_tenth_event_advances_the_time_to_its_start_less_the_delay(spark: SparkSession) -> None:
    ordering = "{advance: {every: 10}, delay: 5us, to_infinity_on_shutdown: true, action: drop}"
    played = play(spark, ordering, points(*range(100, 110), 104, 103, 112))
    assert played.currents() == [None] * 10 + [104] * 3
    assert [played.fate(position) for position in (9, 10, 11, 12)] == [
        accepted(109, 110),
        accepted(104, 105),
        LATE,
        accepted(112, 113),
    ]


def test_a_dropped_event_counts_towards_the_next_advance_and_an_unreadable_one_does_not(spark: SparkSession) -> None:
    log = [*points(10, 20, 5), {"id": "none"}, *points(30, 24, 40)]
    played = play(spark, "{advance: {every: 2}, action: drop}", log)
    # counted: 10, 20 (advances to 20), 5 (late, but counted), 30 (advances), 24, 40
    assert played.currents() == [None, None, 20, None, 20, 30, 30]
    assert played.fate(2) == LATE
    assert played.fate(3) == dropped("invalid_time")
    assert played.fate(5) == LATE


def test_the_last_received_event_is_the_base_and_the_time_never_goes_back(spark: SparkSession) -> None:
    played = play(spark, "{advance: {every: 2}, action: drop}", points(50, 20, 21, 10, 19, 15, 20))
    assert played.currents() == [None, None, 20, 20, 20, 20, 20]
    assert played.fate(3) == LATE


def test_application_time_advances_once_the_interval_since_the_last_base_has_passed(spark: SparkSession) -> None:
    # 0 triggers as the first; 9 is a microsecond short; 10 triggers; 95 jumps over periods; 104 is short, 105 is not
    log = points(0, 9, 10, 19, 12, 95, 104, 105, 94, 93)
    played = play(spark, "{advance: {every: 10us}, delay: 2us, action: drop}", log)
    assert played.currents() == [None, -2, -2, 8, 8, 8, 93, 93, 103, 103]
    assert played.fate(8) == LATE
    assert played.fate(4) == accepted(12, 13)


def test_more_triggers_than_one_chunk_holds_are_all_found(spark: SparkSession) -> None:
    from pipelines.batch.stream_insight import current_time as cti

    maxima = spark.range(0, 12_000, 3).selectExpr("id AS instant_us")
    found = sorted(row[0] for row in cti._jump_chain(maxima, 10, None).collect())
    assert found == list(range(0, 12_000, 12)), "every 10 among multiples of 3 is every 12"
    assert len(found) > cti._CHUNK


# -- the policy, row by row ------------------------------------------------------------------------------------------

INTERVALS: list[Row] = [
    {"punctuation": 100},
    {"id": "at the time", "at": 100, "ends": 101},
    {"id": "straddles", "at": 99, "ends": 101},
    {"id": "ends at it", "at": 99, "ends": 100},
    {"id": "ends before it", "at": 90, "ends": 99},
    {"id": "empty", "at": 200, "ends": 200},
    {"id": "backwards", "at": 200, "ends": 199},
    {"id": "endless", "at": 200},
    {"id": "shortest", "at": 200, "ends": 201},
]


@pytest.fixture(scope="module")
def intervals_dropped(spark: SparkSession) -> Played:
    return play(spark, "{action: drop}", INTERVALS, shape="interval")


@pytest.fixture(scope="module")
def intervals_adjusted(spark: SparkSession) -> Played:
    return play(spark, "{action: adjust}", INTERVALS, shape="interval")


def test_an_interval_at_the_current_time_is_unchanged(intervals_dropped: Played, intervals_adjusted: Played) -> None:
    assert intervals_dropped.fate(1) == intervals_adjusted.fate(1) == accepted(100, 101)


def test_an_interval_that_straddles_the_time_is_dropped_or_moved(
    intervals_dropped: Played, intervals_adjusted: Played
) -> None:
    assert intervals_dropped.fate(2) == LATE
    assert intervals_adjusted.fate(2) == adjusted(100, 101)
    assert intervals_adjusted.windows[100, 110] == ["at the time", "straddles"]


def test_an_interval_that_ends_at_or_before_the_time_is_dropped_by_both(
    intervals_dropped: Played, intervals_adjusted: Played
) -> None:
    assert {played.fate(at)[0] for played in (intervals_dropped, intervals_adjusted) for at in (3, 4)} == {"dropped"}
    assert intervals_adjusted.fate(3) == LATE


def test_an_interval_without_a_later_end_has_no_valid_time(intervals_adjusted: Played) -> None:
    assert [intervals_adjusted.fate(position) for position in (5, 6, 7)] == [dropped("invalid_time")] * 3
    assert intervals_adjusted.current["a", 5] is None
    assert intervals_adjusted.fate(8) == accepted(200, 201)


def test_a_point_before_the_time_is_dropped_by_adjust_too(spark: SparkSession) -> None:
    log = [{"punctuation": 100, "partition": None, "sequence": 0}, *points(0, 99, 100)[1:]]
    played = play(spark, "{action: adjust}", log)
    assert played.fate(1) == LATE
    assert played.fate(2) == accepted(100, 101)


def start(at: int, name: str | None = "x") -> Row:
    return {"id": name, "at": at, "edge": "start"}


def end(at: int | None, ends: int | None, name: str | None = "x") -> Row:
    return {"id": name, "at": at, "ends": ends, "edge": "end"}


EDGES: list[Row] = [
    start(90),  # 0
    start(80, "twice"),  # 1
    start(80, "twice"),  # 2
    start(85, "late end"),  # 3
    start(95, "cancelled"),  # 4
    end(95, 95, "cancelled"),  # 5
    end(90, 110),  # 6
    end(90, 111),  # 7: a second end
    end(70, 110),  # 8: nothing started at 70
    {"punctuation": 100},  # 9
    end(85, 99, "late end"),  # 10
    start(98, "late start"),  # 11
    start(97, "moved, cancelled"),  # 12
    end(80, 100, "twice"),  # 13: at the time, closes the first
    end(80, 120, "twice"),  # 14: closes the second
    end(98, 130, "late start"),  # 15
    end(97, 100, "moved, cancelled"),  # 16
    end(60, 99),  # 17: late, and nothing started
    {"id": "x", "at": 200, "edge": "middle"},  # 18
    end(200, 199),  # 19
    end(200, None),  # 20
    {"id": "x", "at": 200},  # 21
    start(100, "other"),  # 22
    end(100, 105, "another"),  # 23: another payload
    end(85, 140, "late end"),  # 24: in time, after a late one
]


@pytest.fixture(scope="module")
def edges_dropped(spark: SparkSession) -> Played:
    return play(spark, "{action: drop}", EDGES, shape="edge")


@pytest.fixture(scope="module")
def edges_adjusted(spark: SparkSession) -> Played:
    return play(spark, "{action: adjust}", EDGES, shape="edge")


def test_an_end_edge_closes_its_start_and_carries_its_end(edges_dropped: Played) -> None:
    assert edges_dropped.fate(0) == accepted(90, 110)
    assert edges_dropped.fate(6) == accepted(110, None)


def test_equal_starts_are_closed_in_the_order_in_which_they_arrived(edges_dropped: Played) -> None:
    assert edges_dropped.fate(1) == accepted(80, 100)
    assert edges_dropped.fate(2) == accepted(80, 120)


def test_an_end_at_its_start_cancels_both(edges_dropped: Played, edges_adjusted: Played) -> None:
    for played in (edges_dropped, edges_adjusted):
        assert played.fate(4) == played.fate(5) == dropped("cancelled")


def test_an_end_is_an_orphan_without_a_start_or_after_another_end(edges_dropped: Played) -> None:
    assert edges_dropped.fate(7) == edges_dropped.fate(8) == dropped("orphan_end")


def test_a_late_end_is_dropped_and_leaves_its_start_to_a_later_end(
    edges_dropped: Played, edges_adjusted: Played
) -> None:
    for played in (edges_dropped, edges_adjusted):
        assert played.fate(10) == LATE
        assert played.fate(3) == accepted(85, 140)
        assert played.fate(24) == accepted(140, None)


def test_an_end_edge_is_judged_by_its_end_however_old_its_start(edges_dropped: Played) -> None:
    assert edges_dropped.fate(13) == accepted(100, None)


def test_a_late_end_whose_start_is_gone_has_both_reasons(edges_adjusted: Played) -> None:
    assert edges_adjusted.fate(17) == dropped("before_current_time", "orphan_end")


def test_a_late_start_is_dropped_and_its_end_is_an_orphan(edges_dropped: Played) -> None:
    assert edges_dropped.fate(11) == LATE
    assert edges_dropped.fate(15) == dropped("orphan_end")


def test_a_late_start_is_moved_and_its_end_still_finds_it(edges_adjusted: Played) -> None:
    assert edges_adjusted.fate(11) == adjusted(100, 130)
    assert edges_adjusted.fate(15) == accepted(130, None)


def test_an_end_at_the_moved_start_cancels_both(edges_dropped: Played, edges_adjusted: Played) -> None:
    assert edges_adjusted.fate(12) == edges_adjusted.fate(16) == dropped("cancelled")
    assert edges_dropped.fate(16) == dropped("orphan_end")


def test_an_edge_that_cannot_be_read_has_no_valid_time(edges_adjusted: Played) -> None:
    assert [edges_adjusted.fate(position) for position in (18, 19, 20, 21)] == [dropped("invalid_time")] * 4
    assert edges_adjusted.current["a", 18] is None


def test_an_end_with_another_payload_closes_nothing(edges_adjusted: Played) -> None:
    assert edges_adjusted.fate(22) == accepted(100, None)
    assert edges_adjusted.fate(23) == dropped("orphan_end")


def test_an_open_edge_counts_up_to_the_window_of_the_last_endpoint(edges_adjusted: Played) -> None:
    assert edges_adjusted.windows[110, 120] == ["late end", "late start", "other", "twice"]
    assert list(edges_adjusted.windows)[-1] == (140, 150), "the last endpoint is 140"
    assert edges_adjusted.windows[140, 150] == ["other"]


def test_end_edges_do_not_count_for_either_kind_of_advance(spark: SparkSession) -> None:
    log = [start(10, None), end(10, 50, None), start(20, None), end(20, 60, None), start(30, None)]
    by_count = play(spark, "{advance: {every: 2}, action: drop}", log, shape="edge", match_on="[id]", end_of_log="hold")
    assert by_count.currents() == [None, None, None, 20, 20]
    assert by_count.fate(0) == accepted(10, 50), "null matches null"
    assert by_count.windows == {(10, 20): [None]}, "held at 20"
    by_time = play(spark, "{advance: {every: 15us}, action: drop}", log, shape="edge", match_on="[n]")
    assert by_time.currents() == [None, 10, 10, 10, 10]


# -- punctuations, imports, unions -----------------------------------------------------------------------------------


def test_all_partitions_and_punctuations_are_one_timeline(spark: SparkSession) -> None:
    log: list[Row] = [
        {"id": "first", "at": 10, "after": 0, "partition": 1},
        {"punctuation": 15, "after": 5, "partition": None},
        {"id": "same instant", "at": 14, "after": 5, "partition": 0},
        {"punctuation": 12, "after": 6, "partition": 0},
        {"id": "still", "at": 14, "after": 6, "partition": 1},
        {"id": "kept", "at": 15, "after": 7, "partition": 0},
    ]
    played = play(spark, "{advance: {every: 3}, action: drop}", log)
    assert played.current == {("a", 0): None, ("a", 2): 15, ("a", 4): 15, ("a", 5): 15}
    assert [played.fate(position)[0] for position in (0, 2, 4, 5)] == ["accepted", "dropped", "dropped", "accepted"]


IMPORT = "{a: {import_from: b, action: drop}, b: {advance: increasing_start_time}}"


def test_imported_times_stand_where_they_were_issued_and_win_ties(spark: SparkSession) -> None:
    own: list[Row] = [
        {"id": "before", "at": 5, "after": 9, "sequence": 0},
        {"id": "tie", "at": 19, "after": 10, "sequence": 1},
        {"id": "after", "at": 20, "after": 11, "sequence": 2},
        {"id": "later", "at": 21, "after": 90_000_000, "sequence": 3},
    ]
    other: list[Row] = [
        {"id": "b", "at": 20, "after": 10, "sequence": 1},
        {"punctuation": 22, "after": 80_000_000, "sequence": 2},
    ]
    played = play(spark, IMPORT, own, other, end_of_log="hold")
    assert played.currents() == [None, 20, 20, 22]
    assert [played.fate(position)[0] for position in range(4)] == ["accepted", "dropped", "accepted", "dropped"]
    assert played.fate(1, "b") == accepted(20, 21), "an input that only lends its time has verdicts too"
    assert played.windows == {(0, 10): ["before"]}, "held: the last CTI of the input read is 22"


def test_imports_hand_on_what_they_import(spark: SparkSession) -> None:
    ordering = (
        "{a: {import_from: b, action: drop}, b: {import_from: c, action: drop}, c: {advance: increasing_start_time}}"
    )
    played = play(spark, ordering, points(1, 2, 3), points(4), points(2))
    assert played.currents("a") == [2, 2, 2], "the same position is enough"
    assert played.currents("b") == [2]
    assert played.currents("c") == [None]


def test_a_union_holds_back_what_its_slowest_input_has_not_reached(spark: SparkSession) -> None:
    ordering = "{a: {advance: increasing_start_time}, b: {advance: {every: 2}, action: drop}}"
    query = "union: [a, b], where: \"id <> 'e2'\", window: {tumbling: {size: 10us}}"
    held = play(spark, ordering, points(1, 12, 45), points(3, 30, 25), query=query, end_of_log="hold")
    assert held.windows == {(0, 10): ["e1", "e1"]}, "where removed e2; 30 is the last CTI of b"
    assert held.fate(1) == accepted(12, 13), "where does not change a verdict"
    never = play(spark, ordering, points(1, 12, 45), points(3), query=query, end_of_log="hold")
    assert never.windows == {}, "b never had a CTI"


# -- windows over lifetimes ------------------------------------------------------------------------------------------


def members(
    spark: SparkSession,
    window: Window,
    *lifetimes: tuple[str, int, int | None],
    limit: int | None = None,
    hold: bool = False,
) -> dict[tuple[int, int], list[str]]:
    """Windows of lifetimes named ``group/name``: {(start, end): names}."""
    from pipelines.batch.columns import LIFETIME_END_US, SYSTEM_US, WINDOW_END_US, WINDOW_START_US
    from pipelines.batch.stream_insight.lifetimes import LIMIT_US, lifetime_members

    data = [
        (name.split("/")[0] or None, name, ZERO_US + begin, None if ends is None else ZERO_US + ends)
        for name, begin, ends in lifetimes
    ]
    frame = spark.createDataFrame(data, f"g STRING, name STRING, {SYSTEM_US} BIGINT, {LIFETIME_END_US} BIGINT")
    bound = None if limit is None else spark.createDataFrame([(ZERO_US + limit,)], f"{LIMIT_US} BIGINT")
    result = defaultdict(list)
    rows = lifetime_members(frame, window, ["g"], hold=hold, limit=bound)
    for begin, ends, name in rows.select(WINDOW_START_US, WINDOW_END_US, "name").collect():
        result[begin - ZERO_US, ends - ZERO_US].append(name)
    return {key: sorted(names) for key, names in sorted(result.items())}


def grid(size: int, hop: int, offset: int = 0) -> Window:
    from pipelines.core.model import Grid

    return Grid(size, hop, offset, ZERO_US)


def test_a_lifetime_falls_in_every_window_that_it_overlaps(spark: SparkSession) -> None:
    found = members(spark, grid(10, 5), ("g/to", 8, 15), ("g/over", 8, 16), ("g/point", 15, 16), ("g/old", -3, -2))
    assert found == {
        (-10, 0): ["g/old"],
        (-5, 5): ["g/old"],
        (0, 10): ["g/over", "g/to"],
        (5, 15): ["g/over", "g/to"],
        (10, 20): ["g/over", "g/point", "g/to"],
        (15, 25): ["g/over", "g/point"],
    }


def test_a_hop_longer_than_the_window_leaves_gaps(spark: SparkSession) -> None:
    found = members(spark, grid(3, 10, -1), ("g/in", 1, 2), ("g/gap", 2, 9), ("g/across", 1, 10), ("g/next", 9, 10))
    assert found == {(-1, 2): ["g/across", "g/in"], (9, 12): ["g/across", "g/next"]}


def test_the_grid_begins_in_the_year_one(spark: SparkSession) -> None:
    log = points(0, 3 * 86_400_000_000, 4 * 86_400_000_000 - 1, 4 * 86_400_000_000)
    played = play(spark, "{advance: increasing_start_time}", log, query="from: a, window: {tumbling: {size: 7d}}")
    monday = -3 * 86_400_000_000  # 2026-01-01 is a Thursday, 0001-01-01 was a Monday
    week = 7 * 86_400_000_000
    assert played.windows == {(monday, monday + week): ["e1", "e2", "e3"], (monday + week, monday + 2 * week): ["e4"]}


def test_an_open_lifetime_falls_in_windows_that_start_at_or_before_the_limit(spark: SparkSession) -> None:
    assert list(members(spark, grid(10, 5), ("g/open", 4, None), limit=10)) == [(-5, 5), (0, 10), (5, 15), (10, 20)]
    assert list(members(spark, grid(10, 5), ("g/open", 4, None), limit=9)) == [(-5, 5), (0, 10), (5, 15)]


def test_held_windows_end_at_or_before_the_limit(spark: SparkSession) -> None:
    both = (("g/open", 4, None), ("g/short", 4, 11))
    assert list(members(spark, grid(10, 5), *both, limit=15, hold=True)) == [(-5, 5), (0, 10), (5, 15)]
    assert list(members(spark, grid(10, 5), *both, limit=14, hold=True)) == [(-5, 5), (0, 10)]


def test_snapshots_lie_between_neighbouring_endpoints_of_their_group(spark: SparkSession) -> None:
    from pipelines.core.model import Snapshot

    lifetimes = (("g/a", 0, 10), ("g/b", 5, 20), ("g/c", 20, 21), ("g/d", 30, None), ("h/e", 7, 9), ("/null", 1, 2))
    found = members(spark, Snapshot(), *lifetimes)
    assert found == {
        (0, 5): ["g/a"],
        (1, 2): ["/null"],
        (5, 10): ["g/a", "g/b"],
        (7, 9): ["h/e"],
        (10, 20): ["g/b"],
        (20, 21): ["g/c"],
    }, "no row for the gap from 21 to 30, none for the snapshot that never ends"
    assert list(members(spark, Snapshot(), *lifetimes, limit=10, hold=True)) == [(0, 5), (1, 2), (5, 10), (7, 9)]


def test_count_windows_span_n_distinct_starts_of_their_group(spark: SparkSession) -> None:
    from pipelines.core.model import Count

    lifetimes = (
        ("g/a", 0, 1),
        ("g/long", 0, 7),
        ("g/b", 5, 6),
        ("g/c", 8, 9),
        ("g/open", 8, None),
        ("g/d", 9, 10),
        ("h/alone", 3, 4),
    )
    found = members(spark, Count(2), *lifetimes)
    assert found == {
        (0, 6): ["g/a", "g/b", "g/long"],
        (5, 9): ["g/b", "g/c", "g/long", "g/open"],
        (8, 10): ["g/c", "g/d", "g/open"],
    }
    assert list(members(spark, Count(2), *lifetimes, limit=9, hold=True)) == [(0, 6), (5, 9)]
    assert list(members(spark, Count(1), *lifetimes)) == [(0, 1), (3, 4), (5, 6), (8, 9), (9, 10)]


def test_snapshots_and_counts_without_groups_are_formed_over_everything(spark: SparkSession) -> None:
    minute = 60_000_000
    log = points(0, 2 * minute, 5 * minute)
    snapshots = play(spark, "{advance: increasing_start_time}", log, query="from: a, window: {snapshot: {}}")
    assert list(snapshots.windows) == [(start, start + 1) for start in (0, 2 * minute, 5 * minute)]
    counts = play(spark, "{advance: increasing_start_time}", log, query="from: a, window: {count: {n: 2}}")
    assert counts.windows == {(0, 2 * minute + 1): ["e1", "e2"], (2 * minute, 5 * minute + 1): ["e2", "e3"]}
