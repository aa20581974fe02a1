"""The model of steps: columns, origins and fingerprints."""

from __future__ import annotations

import dataclasses

from pipelines.core.model import Aggregate, Snapshot
from pipelines.core.steps import (
    Applied,
    Computed,
    Filtered,
    InputRows,
    Joined,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Side,
    Step,
    StepRows,
    Steps,
    United,
    Windowed,
    columns_of,
    origin_of,
    walk,
)

KNOWN = {"cars": ("plate", "tolls"), "owners": ("plate", "owner")}
CARS = InputRows("cars")
BUSY = Windowed(Filtered(CARS, "tolls > 1"), Snapshot(), (Computed("plate", "plate"),), (Aggregate("n", "count"),))
STEPS = Steps((Step("busy", BUSY),), (Output("output", Projected(StepRows("busy"), (Computed("p", "plate"),))),))


def test_each_relation_gives_its_columns_in_order() -> None:
    assert columns_of(CARS, STEPS, KNOWN) == ("plate", "tolls", "arrival_time", "input_partition", "sequence")
    assert columns_of(StepRows("busy"), STEPS, KNOWN) == ("plate", "n")
    assert columns_of(STEPS.output("OUTPUT").rows, STEPS, KNOWN) == ("p",)
    assert columns_of(Applied(BUSY, "x", "e"), STEPS, KNOWN) == ("plate", "n", "e")
    pair = Referenced(Side("b", BUSY), Side("o", ReferenceRows("owners")), (("plate", "plate"),))
    assert columns_of(pair, STEPS, KNOWN) == ("b", "o")


def test_rows_stem_from_events_windows_or_several_rows() -> None:
    assert origin_of(Filtered(CARS, "true"), STEPS) == "event"
    assert origin_of(STEPS.outputs[0].rows, STEPS) == "window"
    assert origin_of(Joined(Side("a", CARS), Side("b", CARS), 1, 0, 0), STEPS) == "rows"
    assert origin_of(United((CARS, CARS)), STEPS) == "event"
    assert origin_of(United((CARS, BUSY)), STEPS) == "rows"
    assert origin_of(Referenced(Side("c", CARS), Side("o", ReferenceRows("owners"))), STEPS) == "event"


def test_a_walk_meets_every_relation_but_no_other_step() -> None:
    assert list(walk(BUSY)) == [BUSY, BUSY.rows, CARS]
    assert list(walk(StepRows("busy"))) == [StepRows("busy")]


def test_relations_are_frozen_and_compared_by_value() -> None:
    assert dataclasses.replace(BUSY) == BUSY
    assert hash(STEPS) == hash(dataclasses.replace(STEPS))
