"""Summaries of real Delta logs: what is kept, what is made again, and that neither ever changes a number."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.core.model import Arrival, Input, Job, OutputRange
from pipelines.core.time import DAY, HOUR, SECOND, format_instant, parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.cache.summaries import Summed, keep, summed
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import arrivals_schema
from pipelines.plan.initial_state import Summary, SummaryRow, summary_key_of
from pipelines.reference.events import place_of
from pipelines.replay.builder import make_plan
from pipelines.transcripts.listed_history import ListedHistory

BEGIN = parse_instant("2026-01-01T00:00:00Z")
DAYS = 4


def job(profile: str, ordering: str, window: str = "{tumbling: {size: 1h}}", more: str = "") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: example
profile: {profile}
inputs: {{cars: {{columns: "At TIMESTAMP, ends TIMESTAMP, lane INT, plate STRING", timestamp_by: at{more}}}}}
ordering: {ordering}
query: {{from: cars, window: {window}, aggregates: {{n: "count(*)"}}}}
"""
    )


ATLAS = job("atlas", "{allowed_lateness: 5m}", more=", partitions: 2")
JOBS = {
    "atlas": ATLAS,
    "sessions": job("atlas", "{allowed_lateness: 5m}", "{session: {gap: 90m}}"),
    "guarded": job("stream_analytics", "{early_arrival: 1h, late_arrival: unbounded}", more=", over: [LANE, plate]"),
    "late": job("stream_analytics", "{early_arrival: off, late_arrival: 2h}"),
    "every third": job("stream_insight", "{advance: {every: 3}, delay: -1us, action: drop}"),
    "every hour": job(
        "stream_insight", "{advance: {every: 1h}, delay: 5m, action: adjust}", more=", shape: interval, end_by: ends"
    ),
}


def arrivals(chance: Random, many: int) -> list[Arrival]:
    """A log of some days in which arrival times of two partitions rise, and event times lie anywhere."""
    found = []
    for partition in (0, 1):
        times = sorted(BEGIN + chance.randrange(DAYS * 24) * HOUR + chance.randrange(3) for _ in range(many))
        for sequence, arrival_us in enumerate(times):
            at_us = arrival_us + chance.choice([0, 1, -1, HOUR, HOUR + 1, -2 * HOUR, -2 * HOUR - 1, -30 * HOUR, 9**15])
            payload: dict[str, object] = {
                "At": None if chance.random() < 0.1 else at_us,
                "ends": None if chance.random() < 0.1 else at_us + chance.choice([0, 1, SECOND]),
                "lane": chance.choice([1, 2, None]),
                "plate": chance.choice(["x", 'y"', None]),
            }
            mark = chance.random() < 0.1
            if mark:
                payload = dict.fromkeys(payload)
            all_of_them = mark and chance.random() < 0.5
            found.append(
                Arrival(
                    "cars",
                    None if all_of_them else partition,
                    sequence + partition * many,
                    arrival_us,
                    payload,
                    at_us if mark else None,
                )
            )
    return sorted(found, key=place_of)


def append(lakehouse: Path, part: Input, rows: Sequence[Arrival], mode: str = "append") -> DeltaTable:
    """The rows written to the log, in one commit."""
    day_zero = date(1970, 1, 1)
    columns = {
        "arrival_time": [row.arrival_time_us for row in rows],
        "input_partition": [row.input_partition for row in rows],
        "sequence": [row.sequence for row in rows],
        "kind": ["event" if row.punctuation_us is None else "punctuation" for row in rows],
        "punctuation_time": [row.punctuation_us for row in rows],
        "arrival_date": [day_zero + timedelta(days=row.arrival_time_us // DAY) for row in rows],
        **{column.name: [row.payload[column.name] for row in rows] for column in part.columns},
    }
    schema = arrivals_schema(part)
    table = pa.table(
        {field.name: pa.array(columns.get(field.name, [None] * len(rows)), field.type) for field in schema}
    )
    uri = str(lakehouse / "arrivals" / part.name)
    write_deltalake(uri, table, mode=mode, partition_by=["arrival_date"])  # type: ignore[arg-type]
    return DeltaTable(uri)


def found(lakehouse: Path, of: Job, log: DeltaTable, before_us: int | None = None) -> Summed:
    setting = summary_key_of(of, "cars")
    assert setting is not None
    return summed(Lakehouse.at(lakehouse), "cars", setting, log, before_us)


def save(lakehouse: Path, of: Summed) -> None:
    if of.unsaved is not None:
        keep(Lakehouse.at(lakehouse), of.input, of.unsaved)


def merged(summary: Summary, gap_us: int | None = None) -> object:
    """A summary with rows that speak of the same put together; ``gap_us``: those of one island."""
    rows: dict[object, list[SummaryRow]] = {}
    islands: dict[object, tuple[int, int]] = {}
    for row in sorted(summary.rows, key=lambda row: row.first_us or 0):
        place: int | None = None
        if row.first_us is not None and row.last_us is not None:
            place = row.first_us // DAY
            if gap_us is not None:
                place, reach_us = islands.get((row.bucket, row.partition), (0, row.first_us))
                place += row.first_us - reach_us >= gap_us
                islands[row.bucket, row.partition] = place, max(reach_us, row.last_us)
        rows.setdefault((row.bucket, row.partition, row.timeline, place), []).append(row)

    def most(values: Sequence[int | None]) -> int | None:
        return max((value for value in values if value is not None), default=None)

    return summary.clocks, {
        key: (
            sum(row.rows for row in same),
            min((row.first_us for row in same if row.first_us is not None), default=None),
            most([row.last_us for row in same]),
            most([row.end_us for row in same]),
            most([row.punctuation_us for row in same]),
            max(row.last_arrival_us for row in same),
        )
        for key, same in rows.items()
    }


def gap(of: Job) -> int | None:
    setting = summary_key_of(of, "cars")
    return None if setting is None else setting.island_us


def listed(of: Job, rows: Sequence[Arrival]) -> object:
    """The same, arrival by arrival."""
    summary = ListedHistory(of, rows).summary("cars")
    assert summary is not None
    return merged(summary, gap(of))


@pytest.mark.parametrize("name", JOBS)
def test_a_summary_gives_what_the_arrivals_give_one_by_one(name: str, tmp_path: Path) -> None:
    for seed in range(6):
        rows = arrivals(Random(seed), 40)
        log = append(tmp_path, JOBS[name].inputs[0], rows, "overwrite")
        assert merged(found(tmp_path, JOBS[name], log).summary, gap(JOBS[name])) == listed(JOBS[name], rows)


@settings(
    max_examples=10,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**40), name=st.sampled_from(sorted(JOBS)))
def test_a_summary_extended_batch_by_batch_is_the_one_made_at_once(seed: int, name: str, tmp_path: Path) -> None:
    chance, of, lakehouse = Random(seed), JOBS[name], tmp_path / str(seed)
    rows = arrivals(chance, 25)
    # batches keep the order inside a partition and nothing else: one partition may come days after the other
    left = {part: [row for row in rows if row.input_partition == part] for part in (None, 0, 1)}
    taken: list[Arrival] = []
    while any(left.values()):
        part = chance.choice([part for part, some in left.items() if some])
        many = chance.randint(1, 20)
        batch, left[part] = left[part][:many], left[part][many:]
        taken += batch
        extended = found(lakehouse, of, append(lakehouse, of.inputs[0], batch))
        assert merged(extended.summary, gap(of)) == listed(of, taken)
        save(lakehouse, extended)
        again = found(lakehouse, of, DeltaTable(str(lakehouse / "arrivals" / "cars")))
        assert (again.days_made, again.files, again.unsaved) == (0, 0, None)
        assert merged(again.summary, gap(of)) == listed(of, taken)
    shutil.rmtree(lakehouse)


@pytest.mark.parametrize("name", JOBS)
def test_a_summary_up_to_an_instant_is_that_of_the_arrivals_before_it_and_is_not_kept(
    name: str, tmp_path: Path
) -> None:
    of, rows = JOBS[name], arrivals(Random(1), 40)
    log = append(tmp_path, of.inputs[0], rows)
    save(tmp_path, found(tmp_path, of, log))
    for cut in (*sorted(rows, key=place_of)[1::9], None):
        before_us = BEGIN + 2 * DAY if cut is None else cut.arrival_time_us
        short = found(tmp_path, of, log, before_us)
        earlier = [row for row in rows if row.arrival_time_us < before_us]
        assert merged(short.summary, gap(of)) == listed(of, earlier)
        assert short.unsaved is None


def one_a_day(days: Sequence[int], first_sequence: int = 0) -> list[Arrival]:
    return [
        Arrival("cars", 0, first_sequence + number, BEGIN + day * DAY, {"At": BEGIN + day * DAY, **NOTHING_ELSE})
        for number, day in enumerate(days)
    ]


NOTHING_ELSE = dict.fromkeys(["ends", "lane", "plate"])


def test_islands_of_time_are_kept_apart_by_the_gap_and_no_less(tmp_path: Path) -> None:
    of = JOBS["sessions"]
    times = [0, 90 * 60 * SECOND - 1, 180 * 60 * SECOND - 1]
    rows = [Arrival("cars", 0, n, BEGIN + n, {"At": BEGIN + at, **NOTHING_ELSE}) for n, at in enumerate(times)]
    kept = found(tmp_path, of, append(tmp_path, of.inputs[0], rows)).summary.rows
    assert sorted(((row.first_us or 0) - BEGIN, (row.last_us or 0) - BEGIN) for row in kept) == [
        (0, times[1]),
        (times[2], times[2]),
    ]


def test_only_the_days_that_grew_are_passed_over_again(tmp_path: Path) -> None:
    part = ATLAS.inputs[0]
    first = found(tmp_path, ATLAS, append(tmp_path, part, one_a_day(range(4))))
    assert (first.days, first.days_made, first.files, first.rows) == (4, 4, 4, 4)
    save(tmp_path, first)
    grown = found(tmp_path, ATLAS, append(tmp_path, part, one_a_day([3, 4, 5], 4)))
    assert (grown.days, grown.days_made, grown.files, grown.rows) == (6, 3, 4, 4)


def test_a_counter_goes_on_so_a_day_that_grew_makes_all_later_days_again(tmp_path: Path) -> None:
    of = JOBS["every third"]
    save(tmp_path, found(tmp_path, of, append(tmp_path, of.inputs[0], one_a_day(range(4)))))
    late = [Arrival("cars", 1, 0, BEGIN + DAY, {"At": BEGIN, **NOTHING_ELSE})]
    grown = found(tmp_path, of, append(tmp_path, of.inputs[0], late))
    assert (grown.days, grown.days_made) == (4, 3)
    assert grown.summary.clock().received == 5


def test_a_rewritten_log_is_summed_up_again(tmp_path: Path) -> None:
    part = ATLAS.inputs[0]
    save(tmp_path, found(tmp_path, ATLAS, append(tmp_path, part, one_a_day(range(3)))))
    other = [
        Arrival("cars", 0, n, row.arrival_time_us, {**row.payload, "At": 7}) for n, row in enumerate(one_a_day([0, 1]))
    ]
    corrected = found(tmp_path, ATLAS, append(tmp_path, part, other, "overwrite"))
    assert merged(corrected.summary) == listed(ATLAS, other)
    save(tmp_path, corrected)
    log = DeltaTable(str(tmp_path / "arrivals" / "cars"))
    log.optimize.compact()
    assert merged(found(tmp_path, ATLAS, log).summary) == listed(ATLAS, other)


def test_a_deleted_summary_and_one_of_other_settings_cost_a_pass_and_no_number(tmp_path: Path) -> None:
    rows = arrivals(Random(3), 30)
    log = append(tmp_path, ATLAS.inputs[0], rows)
    for of in JOBS.values():
        save(tmp_path, found(tmp_path, of, log))
    for of in JOBS.values():
        assert found(tmp_path, of, log).days_made == 0
        assert merged(found(tmp_path, of, log).summary, gap(of)) == listed(of, rows)
    shutil.rmtree(tmp_path / "_cache" / "summaries")
    again = found(tmp_path, ATLAS, log)
    assert again.days_made == again.days == DAYS
    assert merged(again.summary) == listed(ATLAS, rows)


def test_an_older_version_of_the_log_has_a_summary_of_its_own(tmp_path: Path) -> None:
    part = ATLAS.inputs[0]
    append(tmp_path, part, one_a_day(range(3)))
    save(tmp_path, found(tmp_path, ATLAS, append(tmp_path, part, one_a_day([2, 3], 3))))
    older = DeltaTable(str(tmp_path / "arrivals" / "cars"), version=0)
    assert merged(found(tmp_path, ATLAS, older).summary) == listed(ATLAS, one_a_day(range(3)))
    plan = make_plan(ATLAS, OutputRange(BEGIN + 2 * DAY, BEGIN + 3 * DAY), tmp_path, as_of=0)
    assert [(one.days_made, one.unsaved) for one in plan.summaries] == [(1, None)]


def test_a_plan_names_the_cost_of_the_initial_state_and_reads_a_day_and_the_window_before(tmp_path: Path) -> None:
    far = Arrival("cars", 1, 0, BEGIN, {"At": BEGIN + 900 * DAY, **NOTHING_ELSE})
    append(tmp_path, ATLAS.inputs[0], [far, *one_a_day(range(10))])
    output = OutputRange(BEGIN + 6 * DAY, BEGIN + 7 * DAY)
    plan = make_plan(ATLAS, output, tmp_path)
    assert (format_instant(plan.read.from_us or 0), format_instant(plan.read.to_us or 0)) == (
        "2026-01-07T00:00:00Z",
        "2026-01-07T23:59:59.999999Z",
    )
    assert (plan.settled, plan.unsettled) == (True, None)
    assert [(read.files, read.files_total) for read in plan.reads] == [(1, 10)]
    reported = plan.as_dict()["carry"]
    assert isinstance(reported, list)
    assert [(one["table"], one["days"], one["days_made"], one["rows"]) for one in reported] == [
        ("_cache/summaries/cars", 10, 10, 11)
    ]
    assert not (tmp_path / "_cache" / "summaries").exists()
    for one in plan.summaries:
        assert isinstance(one.unsaved, pa.Table)
        keep(Lakehouse.at(tmp_path), one.input, one.unsaved)
    again = make_plan(ATLAS, output, tmp_path)
    assert [one.days_made for one in again.summaries] == [0]
    assert (again.read, again.initial_states) == (plan.read, plan.initial_states)


def test_two_runs_that_keep_the_same_summary_at_once_leave_one(tmp_path: Path) -> None:
    log = append(tmp_path, ATLAS.inputs[0], one_a_day(range(5)))
    both = [found(tmp_path, of, log) for of in (ATLAS, JOBS["every third"], ATLAS, JOBS["every third"])]
    with ThreadPoolExecutor(len(both)) as threads:
        list(threads.map(lambda one: save(tmp_path, one), both))
    table = DeltaTable(str(tmp_path / "_cache" / "summaries" / "cars"))
    assert table.to_pyarrow_table().num_rows == 5 + 5 + 5
    for of in (ATLAS, JOBS["every third"]):
        again = found(tmp_path, of, log)
        assert (again.days_made, again.unsaved) == (0, None)
        assert merged(again.summary) == listed(of, one_a_day(range(5)))


def test_a_summary_that_is_kept_twice_means_it_once(tmp_path: Path) -> None:
    of = JOBS["every third"]
    log = append(tmp_path, of.inputs[0], one_a_day(range(5)))
    save(tmp_path, found(tmp_path, of, log))
    table = DeltaTable(str(tmp_path / "_cache" / "summaries" / "cars"))
    write_deltalake(table, table.to_pyarrow_table(), mode="append")
    again = found(tmp_path, of, log)
    assert again.days_made == 0
    assert merged(again.summary) == listed(of, one_a_day(range(5)))
