"""The steps of a query, live: slice by slice and over restarts they give what the rules say, each row once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.errors import DataRefused, JobFileError, UsageError
from pipelines.core.model import AnyOf, Arrival, Grid, Job, Reference, Session, Sliding, Snapshot
from pipelines.core.query import Aggregate, Column, SortKey
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Applied,
    Computed,
    Filtered,
    InputRows,
    Joined,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    Step,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import MINUTE, SECOND, format_instant, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.live.expressions import refuse
from pipelines.live.local_log import announcement, messages
from pipelines.live.run import stream
from pipelines.live.spark.operator import run_batch
from pipelines.live.spark.sink import LiveTable
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import Slice
from pipelines.live.steps.expressions import Expressions
from pipelines.live.steps.outputs import outputs, shown
from pipelines.live.steps.references import listed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BASE = parse_job(
    """
tailrace: 1
job: alerts
profile: stream_analytics
inputs:
  cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE, axles ARRAY<INT>", timestamp_by: at}
  exits: {columns: "at TIMESTAMP, booth STRING, plate STRING", timestamp_by: at}
ordering: {late_arrival: 20s, out_of_order: 0s, action: adjust}
query: {from: cars, select: {booth: booth}}
"""
)
PLACES = Reference("places", (Column("booth", "string"), Column("town", "string"), Column("since", "timestamp")))
BEGIN = parse_instant("2026-01-01T12:00:00Z")
CARS, EXITS = InputRows("cars"), InputRows("exits")


def job(*outputs: Output, steps: Sequence[Step] = (), ansi: bool = False, **settings: Any) -> Job:
    """The job of :data:`BASE` with other steps."""
    return replace(BASE, query=Steps(tuple(steps), outputs, ansi), **settings)


def columns(*names: str, **computed: str) -> tuple[Computed, ...]:
    return (*(Computed(name, name) for name in names), *(Computed(*one) for one in computed.items()))


def car(minute: float, booth: str | None, toll: float | None = 1.0, axles: list[int] | None = None) -> Arrival:
    at = BEGIN + round(minute * MINUTE)
    return Arrival("cars", 0, 0, at + 5 * SECOND, {"at": at, "booth": booth, "toll": toll, "axles": axles})


def left(minute: float, booth: str | None, plate: str = "x") -> Arrival:
    at = BEGIN + round(minute * MINUTE)
    return Arrival("exits", 0, 0, at + 5 * SECOND, {"at": at, "booth": booth, "plate": plate})


Given = dict[str, list[tuple[Any, ...]]]


def plain(value: Any) -> Any:
    """Instants as minutes after :data:`BEGIN`."""
    if hasattr(value, "timestamp"):
        return round((value.timestamp() * SECOND - BEGIN) / MINUTE, 6)
    return value


class Live:
    """A job's engine, which goes through its saved form between two commits, and the rows of each output."""

    def __init__(
        self, spark: SparkSession, job: Job, references: dict[str, list[dict[str, Any]]] | None = None
    ) -> None:
        assert job.steps is not None
        self.job, self.evaluate = job, Expressions(spark, ansi=job.steps.ansi)
        self.references = listed(job, references or {})
        self.saved: list[bytes] = []

    def run(self, log: Sequence[Arrival], *cuts: int) -> tuple[Given, Given]:
        """The final and the provisional rows after ``log``, which comes in one commit, then in others at ``cuts``."""
        *commits, _ = messages(CompiledJob(self.job), log, None, cuts)  # type: ignore[arg-type]
        final: Given = {one.name: [] for one in self.job.steps.outputs}
        provisional: Given = {}
        partitions = {part.name: [0] for part in self.job.inputs}
        for number, commit in enumerate(commits):
            announced = announcement(number, commit, partitions, end_of_log=number == len(commits) - 1)
            output = run_batch(
                self.saved[-1] if self.saved else None, self.job, [*commit, announced], self.saved.append
            )
            if output.error is not None:
                raise output.error
            for name, rows in self.rows(output.slice).items():
                final[name] += rows
            provisional = self.rows(output.provisional_slice)
        return final, {name: provisional.get(name, []) for name in final}

    def rows(self, given: Slice | None) -> Given:
        if given is None:
            return {}
        found = outputs(self.job, given, self.references, self.evaluate)
        return {
            name: [tuple(map(plain, row.values())) for row in shown(rows).to_pylist()] for name, rows in found.items()
        }


def all_rows(spark: SparkSession, job: Job, log: Sequence[Arrival], **references: Any) -> Given:
    """The rows of each output, which must be the same in one commit and in a commit for each arrival."""
    log = [replace(row, sequence=number) for number, row in enumerate(log)]
    final, rest = Live(spark, job, references).run(log)
    whole = {name: [*final[name], *rest[name]] for name in final}
    final, rest = Live(spark, job, references).run(log, *range(1, len(log)))
    # what is given at once comes in the order of the commits
    assert {name: Counter(map(repr, [*final[name], *rest[name]])) for name in final} == {
        name: Counter(map(repr, rows)) for name, rows in whole.items()
    }
    assert any(final.values())
    return whole


@pytest.mark.spark
def test_a_row_output_has_a_row_for_each_event_that_the_filter_keeps(spark: SparkSession) -> None:
    rows = Projected(Filtered(CARS, "toll > 1"), columns("booth", double="toll * 2", seen="arrival_time"))
    log = [car(0, "a", 1.0), car(1, "b", 2.0), car(2, "a", None), car(3, None, 3.0), car(9, "a", 0.0)]
    assert all_rows(spark, job(Output("out", rows)), log) == {
        "out": [(1.0, "b", 4.0, pytest.approx(1.083333)), (3.0, None, 6.0, pytest.approx(3.083333))]
    }


@pytest.mark.spark
def test_two_outputs_read_one_step(spark: SparkSession) -> None:
    step = Step("dear", Filtered(CARS, "toll > 1"))
    counted = Windowed(StepRows("dear"), Grid(5 * MINUTE, 5 * MINUTE), columns("booth"), (Aggregate("n", "count"),))
    one = job(Output("each", Projected(StepRows("dear"), columns("toll"))), Output("some", counted), steps=[step])
    log = [car(0, "a", 2.0), car(1, "b", 3.0), car(2, "a", 4.0), car(3, "a", 1.0), car(5, "b", 5.0), car(6, "a", 6.0)]
    assert all_rows(spark, one, log) == {
        "each": [(0.0, 2.0), (1.0, 3.0), (2.0, 4.0), (5.0, 5.0), (6.0, 6.0)],
        # an event on an edge lies in the window that ends there
        "some": [
            (0.0, -5.0, 0.0, None, "a", 1),
            (5.0, 0.0, 5.0, None, "a", 1),
            (5.0, 0.0, 5.0, None, "b", 2),
            (10.0, 5.0, 10.0, None, "a", 1),
        ],
    }


@pytest.mark.spark
def test_analytic_functions_look_at_the_rows_up_to_their_own(spark: SparkSession) -> None:
    booth, when, within_us = ("booth",), "toll > 1", 3 * MINUTE
    functions = (
        Analytic("before", "lag", "toll", 1, "-1", booth, None, within_us),
        Analytic("second", "lag", "toll", 2, None, (), None, within_us),
        Analytic("newest", "last", "toll", 1, "0", booth, when, within_us),
        Analytic("first", "is_first", partition_by=booth, when=when, within_us=2 * MINUTE),
        Analytic(
            "total", "aggregate", partition_by=booth, within_us=within_us, aggregate=Aggregate("total", "sum", "toll")
        ),
        Analytic("most", "aggregate", when=when, within_us=within_us, aggregate=Aggregate("most", "count")),
    )
    rows = Projected(Analysed(CARS, functions), columns("before", "second", "newest", "first", "total", "most"))
    log = [car(0, "a", 1.0), car(1, "a", 2.0), car(2, "b", 3.0), car(3, "a", 4.0), car(4, "a", None), car(8, "a", 5.0)]
    assert all_rows(spark, job(Output("out", rows)), log) == {
        "out": [
            (0.0, -1.0, None, 0.0, 0, 1.0, 0),
            (1.0, 1.0, None, 2.0, 1, 3.0, 1),
            (2.0, -1.0, 1.0, 3.0, 1, 3.0, 2),
            # the row of 0 lies exactly three minutes back: out of reach
            (3.0, 2.0, 2.0, 4.0, 1, 6.0, 3),
            (4.0, 4.0, 3.0, 4.0, 0, 4.0, 2),
            (8.0, -1.0, None, 5.0, 1, 5.0, 1),
        ]
    }


def joined(**more: Any) -> Rows:
    """Cars and the exits at most one minute boundary later, each pair as one row."""
    pairs = Joined(Side("c", CARS), Side("e", EXITS), MINUTE, 0, 1, (("booth", "booth"),), **{"kind": "left", **more})
    return Projected(pairs, columns(booth="c.booth", plate="e.plate", came="c.system_timestamp"))


@pytest.mark.spark
def test_a_left_row_waits_until_no_partner_can_come(spark: SparkSession) -> None:
    log = [car(0, "a"), left(0.5, "a", "p"), car(1, "b"), left(1.5, "a", "q"), left(3, "b", "r"), car(4, None)]
    log += [car(4.5, "a"), left(5.5, "a", "s"), left(6, "a", "t")]
    assert all_rows(spark, job(Output("out", joined())), log) == {
        "out": [
            (0.5, "a", "p", 0.0),
            (1.5, "a", "q", 0.0),
            (2.0, "b", None, 1.0),
            (5.0, None, None, 4.0),
            (5.5, "a", "s", 4.5),
        ]
    }
    # an exit of the minute after the next may still come when that minute has begun
    late = [car(1, "b"), left(2.5, "a", "o"), car(2.6, "z"), left(2.9, "b", "p"), car(9, "z"), left(9, "a", "o")]
    assert all_rows(spark, job(Output("out", joined())), late)["out"][:1] == [(2.9, "b", "p", 1.0)]
    matching = joined(condition="e.plate <> 'p' AND c.system_timestamp < e.system_timestamp")
    assert all_rows(spark, job(Output("out", matching)), log)["out"][:2] == [
        (1.5, "a", "q", 0.0),
        (2.0, "b", None, 1.0),
    ]
    assert all_rows(spark, job(Output("out", joined(kind="inner"))), log)["out"] == [
        (0.5, "a", "p", 0.0),
        (1.5, "a", "q", 0.0),
        (5.5, "a", "s", 4.5),
    ]


@pytest.mark.spark
def test_a_stream_is_joined_with_itself(spark: SparkSession) -> None:
    pairs = Joined(Side("a", CARS), Side("b", CARS), MINUTE, 1, 2, (("booth", "booth"),))
    rows = Projected(pairs, columns(first="a.toll", second="b.toll"))
    log = [car(0, "x", 1.0), car(1, "x", 2.0), car(2, "y", 3.0), car(2, "x", 4.0), car(5, "x", 5.0)]
    assert all_rows(spark, job(Output("out", rows)), log) == {
        "out": [(1.0, 1.0, 2.0), (2.0, 1.0, 4.0), (2.0, 2.0, 4.0)]
    }


@pytest.mark.spark
def test_windows_over_windows_see_each_result_once(spark: SparkSession) -> None:
    short = Windowed(CARS, Grid(MINUTE, MINUTE), columns("booth"), (Aggregate("n", "count"),))
    long = Windowed(
        StepRows("short"), Grid(2 * MINUTE, 2 * MINUTE), (), (Aggregate("most", "max", "n"), Aggregate("of", "count"))
    )
    one = job(Output("out", Filtered(long, "most > 1")), steps=[Step("short", short)])
    log = [car(0.2, "a"), car(0.5, "a"), car(0.6, "b"), car(1.5, "a"), car(2, "a"), car(2.5, "b"), car(6, "a")]
    assert all_rows(spark, one, log) == {"out": [(2.0, 0.0, 2.0, None, 2, 3)]}


@pytest.mark.spark
def test_sessions_sliding_windows_and_ranked_rows(spark: SparkSession) -> None:
    window = AnyOf((("pause", Session(MINUTE, 4 * MINUTE, ("booth",))), ("moving", Sliding(90 * SECOND))))
    dearest = (SortKey("toll", descending=True),)
    aggregates = (
        Aggregate("top", "top_one", "struct(toll, booth)", order_by=dearest),
        Aggregate("two", "collect_top", "toll", order_by=dearest, limit=2),
        Aggregate("half", "percentile_disc", "toll", parameter=0.4, order_by=dearest),
    )
    rows = Windowed(CARS, window, (), aggregates, partition_by=())
    log = [car(0, "a", 1.0), car(0.5, "b", 3.0), car(1, "a", None), car(1, "a", 3.0), car(6, "a", 2.0)]
    found = all_rows(spark, job(Output("out", rows)), log)["out"]
    assert [row[:4] for row in found if row[3] == "pause"] == [
        (1.5, 0.5, 1.5, "pause"),
        (2.0, 0.0, 2.0, "pause"),
        (7.0, 6.0, 7.0, "pause"),
    ]
    two = [{"rank": 1, "value": 3.0}, {"rank": 2, "value": 3.0}]
    assert (1.0, -0.5, 1.0, "moving", {"toll": 3.0, "booth": "b"}, two, 3.0) in found


@pytest.mark.spark
def test_elements_and_unions_stay_in_the_order_of_arrival(spark: SparkSession) -> None:
    elements = Applied(CARS, "axles", "axle", outer=True)
    some = Projected(elements, columns("booth", weight="axle.ArrayValue", at="axle.ArrayIndex"))
    others = Projected(EXITS, columns("booth", weight="1.5D", at="CAST(NULL AS BIGINT)"))
    log = [car(0, "a", axles=[3, 4]), left(0, "e"), car(0, "b", axles=[]), left(1, "f"), car(3, "c", axles=[5])]
    assert all_rows(spark, job(Output("out", United((some, others)))), log) == {
        "out": [
            (0.0, "a", 3.0, 0),
            (0.0, "a", 4.0, 1),
            (0.0, "b", None, None),
            (0.0, "e", 1.5, None),
            (1.0, "f", 1.5, None),
            (3.0, "c", 5.0, 0),
        ]
    }


@pytest.mark.spark
def test_reference_data_gives_a_row_for_each_match_in_the_order_of_its_file(spark: SparkSession) -> None:
    places = Filtered(ReferenceRows("places"), "town <> 'x'")
    rows = Referenced(Side("c", CARS), Side("p", places), (("booth", "booth"),), kind="left")
    known = [{"booth": "a", "town": town, "since": None} for town in ("z", "x", "y")]
    log = [car(0, "a"), car(1, "b"), car(2, None), car(9, "a")]
    one = job(Output("out", Projected(rows, columns(town="p.town"))), references=(PLACES,))
    assert all_rows(spark, one, log, places=known) == {
        "out": [(0.0, "z"), (0.0, "y"), (1.0, None), (2.0, None), (9.0, "z"), (9.0, "y")]
    }


@pytest.mark.spark
def test_rows_before_the_first_snapshot_are_refused_and_later_ones_served_by_the_last(spark: SparkSession) -> None:
    snapshots = replace(PLACES, effective="since")
    rows = Referenced(Side("c", CARS), Side("p", ReferenceRows("places")), (), "c.booth = p.booth")
    one = job(Output("out", Projected(rows, columns(town="p.town"))), references=(snapshots,))
    known = [
        {"booth": "a", "town": "old", "since": BEGIN + MINUTE},
        {"booth": "a", "town": "new", "since": BEGIN + 3 * MINUTE},
        {"booth": "b", "town": "new", "since": BEGIN + 3 * MINUTE},
    ]
    log = [car(1, "a"), car(2, "b"), car(3, "a"), car(9, "b"), car(12, "a")]
    assert all_rows(spark, one, log, places=known) == {"out": [(1.0, "old"), (3.0, "new"), (9.0, "new"), (12.0, "new")]}
    with pytest.raises(
        DataRefused, match=r"no snapshot for a row of 2026-01-01T12:00:59Z: the first one is of .*12:01:00Z"
    ):
        Live(spark, one, {"places": known}).run([car(59 / 60, "a"), car(9, "a")])


@pytest.mark.spark
def test_hold_leaves_out_open_windows_and_rows_that_may_still_find_a_partner(spark: SparkSession) -> None:
    windows = Windowed(CARS, Grid(MINUTE, MINUTE), columns("booth"), (Aggregate("n", "count"),))
    rows = Projected(CARS, columns("booth"))
    under_hold = replace(
        job(Output("pairs", joined()), Output("rows", rows), Output("counts", windows)), end_of_log="hold"
    )
    log = [car(0, "a"), car(1, "b"), left(1, "a", "p"), car(2, "c"), left(2.5, "c", "q"), left(4, "z"), car(3, "d")]
    # the watermark stays at 3, which a window that ends there has not passed
    assert all_rows(spark, under_hold, log) == {
        "pairs": [(1.0, "a", "p", 0.0), (2.0, "b", None, 1.0), (2.5, "c", "q", 2.0)],
        "rows": [(0.0, "a"), (1.0, "b"), (2.0, "c"), (3.0, "d")],
        "counts": [(minute, minute - 1, minute, None, booth, 1) for minute, booth in ((0, "a"), (1, "b"), (2, "c"))],
    }


@pytest.mark.spark
def test_what_cannot_be_computed_stops_the_run_and_what_spark_refuses_is_named(spark: SparkSession) -> None:
    rows = Projected(CARS, columns(share="1 DIV CAST(toll AS BIGINT)"))
    strict, lax = (job(Output("out", rows), ansi=ansi) for ansi in (True, False))
    log = [car(0, "a", 1.0), car(1, "b", 0.0), car(5, "a", 1.0)]
    assert all_rows(spark, lax, log)["out"] == [(0.0, 1), (1.0, None), (5.0, 1)]
    with pytest.raises(DataRefused, match="DIVIDE_BY_ZERO"):
        Live(spark, strict).run(log)
    with pytest.raises(JobFileError, match="cannot evaluate 'nothing \\+ 1'"):
        Live(spark, job(Output("out", Projected(CARS, columns(more="nothing + 1"))))).run(log)
    with pytest.raises(JobFileError, match="'toll' is double, not a condition"):
        Live(spark, job(Output("out", Filtered(CARS, "toll")))).run(log)


ATLAS = parse_job(
    """
tailrace: 1
job: alerts
profile: atlas
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE, axles ARRAY<INT>", timestamp_by: at}}
ordering: {allowed_lateness: 1m}
query: {from: cars, select: {booth: booth}}
"""
)


@pytest.mark.spark
def test_windows_of_documents_begin_with_their_start_and_leave_out_what_came_too_late(spark: SparkSession) -> None:
    first = Windowed(Filtered(CARS, "toll > 0"), Grid(2 * MINUTE, MINUTE), columns("booth"), (Aggregate("n", "count"),))
    second = Windowed(StepRows("counts"), Snapshot(), (), (Aggregate("most", "max", "n"),))
    query = Steps(
        (Step("counts", first),), (Output("out", Filtered(StepRows("counts"), "n > 1")), Output("all", second))
    )
    # the document at 1 comes when [0, 2) is closed, and counts in [1, 3) alone
    log = [car(0, "a"), car(1, "a"), car(3, "b"), car(1, "a"), car(3.5, "b", 0.0), car(4, "a"), car(9, "a")]
    log = [replace(row, arrival_time_us=BEGIN + number) for number, row in enumerate(log)]
    assert all_rows(spark, replace(ATLAS, query=query), log) == {
        "out": [(2.0, 0.0, 2.0, None, "a", 2), (3.0, 1.0, 3.0, None, "a", 2)],
        "all": [(end, end, end, None, most) for end, most in ((1, 1), (2, 2), (3, 2), (4, 1), (5, 1), (6, 1))],
    }


@pytest.mark.spark
def test_documents_that_meet_no_window_are_given_at_once(spark: SparkSession) -> None:
    elements = Projected(Applied(CARS, "axles", "axle"), columns("booth", axle="axle.ArrayValue"))
    one = replace(ATLAS, query=Steps((), (Output("out", elements),)))
    log = [car(5, "a", axles=[1, 2]), car(0, "b", axles=[3]), car(4, "c")]
    log = [replace(row, arrival_time_us=BEGIN + number, sequence=number) for number, row in enumerate(log)]
    final, provisional = Live(spark, one).run(log)
    assert (final, provisional) == ({"out": [(0.0, "b", 3), (5.0, "a", 1), (5.0, "a", 2)]}, {"out": []})


def test_what_the_live_run_has_no_machinery_for_is_refused() -> None:
    window = Windowed(CARS, Session(MINUTE), (), (Aggregate("n", "count"),))
    sessions = replace(ATLAS, query=Steps((), (Output("out", window),)))
    with pytest.raises(UsageError, match="no sessions in a query of steps in profile atlas"):
        refuse(sessions)
    counts = Windowed(CARS, Grid(MINUTE, MINUTE), (), (Aggregate("n", "count"),))
    with pytest.raises(UsageError, match="one window over the documents of a job in profile atlas, or none"):
        refuse(replace(ATLAS, query=Steps((), (Output("out", counts), Output("all", CARS)))))
    with pytest.raises(UsageError, match="no steps in profile stream_insight"):
        refuse(replace(ATLAS, profile="stream_insight", query=Steps((), (Output("out", counts),))))


# -- from arrival logs into tables ------------------------------------------------------------------------------------


def load(lakehouse: Lakehouse, job: Job, log: Sequence[Arrival], folder: Path) -> None:
    """One batch of each input's arrival log."""
    for part in job.inputs:
        rows = [one for one in log if one.input == part.name]
        path = folder / f"{part.name}-{len(list(folder.iterdir()))}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            for row in rows:
                place = {"arrival_time": format_instant(row.arrival_time_us), "input_partition": 0}
                payload = row.payload | {"at": format_instant(row.payload["at"])}  # type: ignore[arg-type]
                file.write(json.dumps({**place, "sequence": row.sequence, **payload}) + "\n")
        ingest(job, part.name, [path], lakehouse)


def stored_rows(lakehouse: Lakehouse, table: str) -> list[tuple[Any, ...]]:
    """The rows of a table of the live run by their time, without ``emitted_at``."""
    found = lakehouse.open(table)
    assert found is not None
    rows = found.to_pyarrow_table().sort_by("system_timestamp").to_pylist()
    for row in rows:
        assert row.pop("emitted_at") is not None
        assert row.pop("output_date") == row["system_timestamp"].date()
    return [tuple(map(plain, row.values())) for row in rows]


@pytest.mark.spark
def test_a_stream_that_is_stopped_and_killed_gives_every_row_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = Windowed(StepRows("both"), Grid(2 * MINUTE, 2 * MINUTE), columns("booth"), (Aggregate("n", "count"),))
    before = Analytic("before", "lag", "toll", within_us=5 * MINUTE)
    one = job(
        Output("each", Projected(Analysed(CARS, (before,)), columns("booth", "before"))),
        Output("counts", windows),
        steps=[Step("both", joined())],
    )
    lakehouse, incoming = Lakehouse.at(tmp_path / "lake"), tmp_path / "incoming"
    incoming.mkdir()
    log = [
        replace(arrival, sequence=number)
        for number, arrival in enumerate(
            arrival
            for minute in range(0, 40, 2)
            for arrival in (car(minute, "ab"[minute % 4 // 2], minute / 2), left(minute + 0.5, "a", "p"))
        )
    ]
    whole = all_rows(spark, one, log)
    tables = {name: f"stream_outputs/alerts/{name}" for name in whole}

    load(lakehouse, one, log[:13], incoming)
    first = stream(one, lakehouse, spark=spark, files_per_trigger=1)
    assert first.rows_written.keys() == first.provisional_rows.keys() == set(tables.values())
    assert all(first.provisional_rows.values())
    load(lakehouse, one, log[13:26], incoming)

    # the process dies between the commits of the two tables
    write = LiveTable.write

    def dies(table: LiveTable, *rows: Any, **how: Any) -> None:
        if table.name == tables["counts"]:
            raise UsageError("killed")
        write(table, *rows, **how)

    with monkeypatch.context() as patched:
        patched.setattr(LiveTable, "write", dies)
        with pytest.raises(UsageError, match="killed"):
            stream(one, lakehouse, spark=spark)
    load(lakehouse, one, log[26:], incoming)
    stream(one, lakehouse, spark=spark)
    found = {name: stored_rows(lakehouse, table) for name, table in tables.items()}
    assert found == {name: sorted(rows, key=lambda row: row[0]) for name, rows in whole.items()}
