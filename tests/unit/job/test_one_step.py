"""A job file's query as steps: row outputs, having, select, and what an expression may name."""

from __future__ import annotations

import pytest

from pipelines.core.errors import JobFileError
from pipelines.core.model import Aggregate, Grid, Job, Query, Reference
from pipelines.core.query import Column
from pipelines.core.steps import Computed, Filtered, InputRows, Joined, Output, Projected, Side, Steps, Windowed
from pipelines.core.time import MINUTE
from pipelines.job.load import parse_job

JOB = """
tailrace: 1
job: tolls
profile: stream_analytics
inputs:
  cars: {{columns: "at TIMESTAMP, plate STRING, speed DOUBLE", timestamp_by: at}}
  exits: {{columns: "at TIMESTAMP, plate STRING", timestamp_by: at}}
query:
  {query}
{more}
"""
WINDOW = "window: {tumbling: {size: 5m}}, group_by: [plate], aggregates: {cars: 'count(*)'}"


def job(query: str, more: str = "") -> Job:
    return parse_job(JOB.format(query=f"{{{query}}}", more=more))


def output(query: str) -> object:
    steps = job(query).steps
    assert steps is not None
    assert not steps.steps
    (one,) = steps.outputs
    assert one == Output("output", one.rows)
    return one.rows


def test_a_query_without_a_window_gives_a_row_for_each_event_that_where_keeps() -> None:
    kmh = Computed("kmh", "speed * 1.609")
    assert output("from: cars, where: speed > 100, select: {kmh: speed * 1.609}") == Projected(
        Filtered(InputRows("cars"), "speed > 100"), (kmh,)
    )


def test_without_select_all_payload_columns_are_there() -> None:
    rows = output("from: cars")
    assert isinstance(rows, Projected)
    assert [one.name for one in rows.columns] == ["at", "plate", "speed"]


def test_a_join_without_a_window_names_columns_by_their_side() -> None:
    rows = output("join: {left: cars, right: exits, on: [plate], within: {unit: minute, from: 0, to: 5}}")
    joined = Joined(
        Side("cars", InputRows("cars")), Side("exits", InputRows("exits")), MINUTE, 0, 5, (("`plate`", "`plate`"),)
    )
    assert isinstance(rows, Projected)
    assert rows.rows == joined
    assert [one.name for one in rows.columns] == ["cars_at", "cars_plate", "cars_speed", "exits_at", "exits_plate"]


def test_having_and_select_come_after_the_window() -> None:
    windowed = Windowed(
        InputRows("cars"), Grid(5 * MINUTE, 5 * MINUTE), (Computed("plate", "`plate`"),), (Aggregate("cars", "count"),)
    )
    select = "select: {plate: plate, busy: cars > 9}"
    busy = (Computed("plate", "plate"), Computed("busy", "cars > 9"))
    assert output(f"from: cars, {WINDOW}, having: cars > 3, {select}") == Projected(
        Filtered(windowed, "cars > 3"), busy
    )


def test_one_window_alone_stays_a_query_of_one_step() -> None:
    assert isinstance(job(f"from: cars, {WINDOW}").query, Query)


@pytest.mark.parametrize("name", ["arrival_time", "input_partition", "sequence", "system_timestamp"])
def test_expressions_may_name_the_arrival_and_the_system_timestamp(name: str) -> None:
    assert isinstance(job(f"from: cars, where: '{name} is not null', {WINDOW}").query, Steps)


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("from: cars, having: cars > 3", "query.having: needs a window"),
        ("from: cars, group_by: [plate]", "query.group_by: needs a window"),
        ("from: cars, window: {tumbling: {size: 5m}}", "query.aggregates: is missing"),
        ("from: cars, select: {window_end: at}", "'window_end' is taken in the result already"),
        ("from: cars, select: {at: at, AT: at}", "'AT' is taken in the result already"),
        ("from: cars, select: {kmh: sped}", "there is no column 'sped'; did you mean 'speed'"),
        (f"from: cars, {WINDOW}, having: speed > 3", "there is no column 'speed'"),
    ],
)
def test_what_does_not_fit_one_step_is_refused_at_its_key(query: str, sentence: str) -> None:
    with pytest.raises(JobFileError, match=sentence):
        job(query)


def test_the_system_timestamp_is_there_without_being_selected() -> None:
    rows = output("from: cars, select: {system_timestamp: system_timestamp, plate: plate}")
    assert isinstance(rows, Projected)
    assert rows.columns == (Computed("plate", "plate"),)


def test_reference_data_is_static_or_has_snapshots() -> None:
    more = "references: {owners: {columns: 'plate STRING, since TIMESTAMP', effective: since, reference_time: arrival}}"
    assert job("from: cars", more).reference("owners") == Reference(
        "owners", (Column("plate", "string"), Column("since", "timestamp")), "since", "arrival"
    )
    with pytest.raises(JobFileError, match=r"references\.cars: an input is called so already"):
        job("from: cars", "references: {cars: {columns: 'plate STRING'}}")
    with pytest.raises(JobFileError, match=r"references\.owners\.effective: column 'plate' is not a TIMESTAMP"):
        job("from: cars", "references: {owners: {columns: 'plate STRING', effective: plate}}")


def test_an_output_of_the_live_run_may_be_another_table() -> None:
    assert job("from: cars").stream_outputs == (("output", "stream_outputs/tolls/output"),)
    named = job("from: cars", "stream: {outputs: {Output: stream_tables/cars}}")
    assert named.stream_outputs == (("output", "stream_tables/cars"),)
    with pytest.raises(JobFileError, match="there is no output 'alerts'"):
        job("from: cars", "stream: {outputs: {alerts: x}}")
