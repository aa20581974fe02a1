"""Which snapshots of reference data a range reads, microsecond by microsecond."""

from __future__ import annotations

import dataclasses

import pytest

from pipelines.core.model import Column, Job, OutputRange, Reference
from pipelines.core.query import Grid
from pipelines.core.steps import InputRows, Output, Referenced, ReferenceRows, Side, Steps, Windowed
from pipelines.core.time import HOUR, MINUTE, SECOND
from pipelines.job.load import parse_job
from pipelines.plan.snapshots import Lookup, lookups, snapshots_read

BASE = parse_job(
    """
tailrace: 1
job: lines
profile: stream_analytics
inputs: {readings: {columns: "at TIMESTAMP, id STRING", timestamp_by: at}}
ordering: {late_arrival: 20s, early_arrival: 5m}
query: {from: readings, select: {id: id}}
"""
)


def job(reference: Reference) -> Job:
    looked_up = Referenced(Side("r", InputRows("readings")), Side("m", ReferenceRows("machines")))
    hourly = Windowed(looked_up, Grid(HOUR, HOUR), (), ())
    return dataclasses.replace(BASE, query=Steps((), (Output("output", hourly),)), references=(reference,))


SINCE = Reference("machines", (Column("id", "string"), Column("since", "timestamp")), "since")


def test_snapshots_are_looked_up_as_far_back_as_what_comes_after_the_join_looks() -> None:
    assert lookups(job(SINCE)) == (Lookup("machines", HOUR, 0),)


def test_by_arrival_time_the_guard_and_the_tolerance_come_on_top() -> None:
    by_arrival = dataclasses.replace(SINCE, time="arrival")
    assert lookups(job(by_arrival)) == (Lookup("machines", HOUR + 5 * MINUTE, 20 * SECOND),)


def test_a_static_set_and_one_that_no_output_reads_have_no_lookup() -> None:
    assert lookups(job(dataclasses.replace(SINCE, effective=None))) == ()
    assert lookups(dataclasses.replace(BASE, references=(SINCE,))) == ()


@pytest.mark.parametrize(
    ("from_us", "to_us", "expected"),
    [
        (None, None, (10, 20, 30)),
        (20, None, (20, 30)),
        (19, None, (10, 20, 30)),
        (21, None, (20, 30)),
        (20, 30, (20,)),
        (20, 31, (20, 30)),
        (30, None, (30,)),
        (5, 11, (10,)),
        (5, 10, ()),
    ],
)
def test_the_snapshot_that_holds_at_the_beginning_is_read_and_none_from_the_end_on(
    from_us: int | None, to_us: int | None, expected: tuple[int, ...]
) -> None:
    assert snapshots_read(OutputRange(from_us, to_us), (10, 20, 30)) == expected
