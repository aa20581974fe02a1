"""A job's fingerprint is of exactly the fields that engines read: each is changed alone."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest

from pipelines.core import model, steps
from pipelines.core.model import (
    Aggregate,
    AnyOf,
    AtlasOrdering,
    Column,
    Count,
    Grid,
    Input,
    Job,
    Join,
    Ordering,
    Query,
    Reference,
    Session,
    Sliding,
    Snapshot,
    SortKey,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
    Window,
)
from pipelines.core.steps import Steps

NOT_READ = {
    (Job, "name"),
    (Job, "strict_limits"),
    (Job, "stream_windows"),
    (Job, "stream_columns"),
    (Job, "stream_outputs"),
    (Input, "sub_microsecond"),
    (Input, "arrival_regression"),
    (Input, "source"),
    (Input, "complete"),
    (AtlasOrdering, "idle_timeout_us"),
    (AtlasOrdering, "idle_rule"),
    (AtlasOrdering, "partition_idle_timeout_us"),
    (StreamInsightOrdering, "to_infinity_on_shutdown"),
}
"""Fields that change no result: notes on the live job, bounds of what is accepted, places of tables."""

COUNT = Aggregate("n", "count")
PLAIN: dict[type, Any] = {
    Input: Input("cars", (Column("at", "timestamp"),)),
    StreamAnalyticsOrdering: StreamAnalyticsOrdering(),
    AtlasOrdering: AtlasOrdering(),
    StreamInsightOrdering: StreamInsightOrdering("drop"),
    Grid: Grid(60, 60),
    Sliding: Sliding(60),
    Session: Session(60),
    Snapshot: Snapshot(),
    Count: Count(3),
    AnyOf: AnyOf((("short", Grid(60, 60)),)),
    Join: Join("cars", "exits", (), "minute", 0, 5),
    Aggregate: COUNT,
    Column: Column("at", "timestamp"),
    Reference: Reference("owners", (Column("plate", "string"),)),
    SortKey: SortKey("at"),
}


def job_with(part: Any) -> Job:
    """A job in which ``part`` stands where its class belongs."""
    one = PLAIN[Input]
    if isinstance(part, Input):
        one = part
    if isinstance(part, Column):
        one = dataclasses.replace(one, columns=(part,))
    ordering = part if isinstance(part, get_args(Ordering)) else StreamAnalyticsOrdering()
    window = part if isinstance(part, (*get_args(Window), Sliding, Session, Snapshot, Count, Grid)) else Grid(60, 60)
    join = part if isinstance(part, Join) else None
    count = dataclasses.replace(COUNT, order_by=(part,)) if isinstance(part, SortKey) else COUNT
    query: Query | Steps = Query(window, (part if isinstance(part, Aggregate) else count,), ("cars",), join)
    if isinstance(part, (Query, Steps)):
        query = part
    references = (part,) if isinstance(part, Reference) else ()
    return Job("tolls", "stream_analytics", (one,), (("cars", ordering),), query, "flush", references=references)


def another(value: Any) -> Any:
    """A value of another meaning; its type does not matter here."""
    return (
        "another" if value is None or isinstance(value, (str, tuple, bool)) or not isinstance(value, int) else value + 1
    )


def fields() -> list[tuple[type, str]]:
    return [(of, field.name) for of in (Job, Query, *PLAIN) for field in dataclasses.fields(of)]


@pytest.mark.parametrize(("of", "name"), fields(), ids=lambda given: getattr(given, "__name__", given))
def test_a_field_changes_the_fingerprint_iff_engines_read_it(of: type, name: str) -> None:
    if of is Job:
        before = job_with(Grid(60, 60))
        after = dataclasses.replace(before, **{name: another(getattr(before, name))})
    else:
        plain = job_with(Grid(60, 60)).query if of is Query else PLAIN[of]
        before = job_with(plain)
        after = job_with(dataclasses.replace(plain, **{name: another(getattr(plain, name))}))
    assert (after.fingerprint != before.fingerprint) == ((of, name) not in NOT_READ)


def test_every_class_of_a_job_is_listed() -> None:
    outside = {model.OutputRange, model.Arrival, model.Decision, model.WindowRow, Steps}
    classes = {one for one in vars(model).values() if isinstance(one, type) and dataclasses.is_dataclass(one)} - outside
    assert classes == {Job, Query, *PLAIN}


def test_windows_of_equal_fields_and_different_kinds_differ() -> None:
    assert job_with(Sliding(60)).fingerprint != job_with(Count(60)).fingerprint


def relations() -> list[tuple[type, str]]:
    classes = [
        one for one in vars(steps).values() if dataclasses.is_dataclass(one) and one.__module__ == steps.__name__
    ]
    return [(one, field.name) for one in classes for field in dataclasses.fields(one)]


@pytest.mark.parametrize(("of", "name"), relations(), ids=lambda given: getattr(given, "__name__", given))
def test_every_field_of_steps_changes_the_fingerprint(of: type, name: str) -> None:
    values = {field.name: field.name for field in dataclasses.fields(of)}
    query = Steps((), (of(**values),)) if of is not Steps else of(**values)
    changed = dataclasses.replace(of(**values), **{name: "another"})
    after = changed if isinstance(changed, Steps) else Steps((), (changed,))
    assert job_with(query).fingerprint != job_with(after).fingerprint
