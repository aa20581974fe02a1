"""Compare what an engine gave with what a case expects; every difference is one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pipelines.core.errors import TailraceError, did_you_mean
from pipelines.core.model import Job, output_name
from pipelines.core.steps import SYSTEM_TIMESTAMP, WINDOW_COLUMNS, columns_of, origin_of
from pipelines.core.time import format_instant, parse_instant
from pipelines.plan.read_range import read_range
from pipelines.transcripts.read import Case

Row = Mapping[str, Any]

_INSTANTS = frozenset(
    {"arrival_time", "event_time", "system_timestamp", "lifetime_end", "watermark", "window_start", "window_end"}
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an engine gave for a case, in one form for all engines: instants are microseconds as ``int``.

    ``verdicts`` have the keys of a transcript's verdicts, ``windows`` the columns of the job's result, ``outputs`` the
    rows of each output of a job of steps, with :func:`output_columns`. ``error`` is set instead where reading or
    running was refused.
    """

    verdicts: tuple[Row, ...] = ()
    windows: tuple[Row, ...] = ()
    outputs: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    error: TailraceError | None = None


def judge(case: Case, outcome: Outcome) -> list[str]:
    """The differences between ``outcome`` and what ``case`` expects, worst first; empty: the case passes."""
    expect = case.expect
    if expect.error is not None:
        return _judge_error(expect.error, outcome.error)
    if outcome.error is not None:
        return [f"error: {outcome.error}"]
    assert case.job is not None
    differences: list[str] = []
    if expect.verdicts is not None:
        differences += _judge_verdicts(expect.verdicts, outcome.verdicts, expect.tolerance)
    if expect.windows is not None:
        differences += _judge_windows(case.job, expect.windows, outcome, expect.tolerance)
    for name, rows in expect.outputs.items():
        columns = output_columns(case.job, name)
        differences += _judge_rows(f"output '{name}'", columns, rows, outcome.outputs[name], expect.tolerance)
    if expect.plan is not None:
        differences += _judge_plan(case, expect.plan)
    return differences


def window_columns(job: Job) -> tuple[str, ...]:
    """The columns of the job's result, without the column it is partitioned by."""
    keys = (output_name(column) for column in job.window_query.group_by)
    aggregates = (aggregate.name for aggregate in job.window_query.aggregates)
    return ("window_start", "window_end", "window_id", *keys, *aggregates)


def output_columns(job: Job, name: str) -> tuple[str, ...]:
    """The columns of an output of steps, without the column it is partitioned by (Q93)."""
    assert job.steps is not None
    rows = job.steps.output(name).rows
    known = {one.name: [column.name for column in one.columns] for one in job.inputs}
    known |= {one.name: [column.name for column in one.columns] for one in job.references}
    window = WINDOW_COLUMNS if origin_of(rows, job.steps) == "window" else ()
    return (SYSTEM_TIMESTAMP, *window, *columns_of(rows, job.steps, known))


def _judge_error(expected: str, error: TailraceError | None) -> list[str]:
    if error is None:
        return [f"error: none, expected one that says '{expected}'"]
    if expected not in str(error):
        return [f"error: '{error}', expected one that says '{expected}'"]
    return []


def _judge_plan(case: Case, expected: Mapping[str, int | None]) -> list[str]:
    assert case.job is not None
    plan = read_range(case.job, case.output)
    actual = {"read_from": plan.from_us, "read_to": plan.to_us}
    return [
        f"plan: {key} is {_instant(actual[key])}, expected {_instant(value)}"
        for key, value in expected.items()
        if actual[key] != value
    ]


def _judge_verdicts(expected: Sequence[Row], actual: Sequence[Row], tolerance: float | None) -> list[str]:
    def identity(row: Row) -> tuple[Any, ...]:
        return row["input"], row["partition"], row["sequence"]

    def place(one: tuple[Any, ...]) -> str:
        return "verdicts: event " + "/".join(map(str, one))

    differences = []
    by_identity = {identity(row): row for row in actual}
    if len(by_identity) != len(actual):
        differences.append("verdicts: an event has more than one verdict")
    wanted = {identity(row): row for row in expected}
    for one, row in wanted.items():
        given = by_identity.get(one)
        if given is None:
            differences.append(f"{place(one)} is missing, expected {_shown(row)}")
            continue
        differences += [
            f"{place(one)}: {key} is {_value(given[key], key)}, expected {_value(value, key)}"
            for key, value in row.items()
            if not equal(value, given[key], tolerance)
        ]
    for one, row in by_identity.items():
        if one not in wanted:
            differences.append(f"{place(one)} is not expected: {_shown(row)}")
    return differences


def _judge_windows(job: Job, expected: Sequence[Row], outcome: Outcome, tolerance: float | None) -> list[str]:
    if job.steps is None:
        return _judge_rows("windows", window_columns(job), expected, outcome.windows, tolerance)
    if len(job.steps.outputs) > 1:
        return ["windows: the job has several outputs; expect 'outputs'"]
    (output,) = job.steps.outputs
    return _judge_rows("windows", output_columns(job, output.name), expected, outcome.outputs[output.name], tolerance)


def _judge_rows(
    what: str, columns: Sequence[str], expected: Sequence[Row], actual: Sequence[Row], tolerance: float | None
) -> list[str]:
    """Both as multisets of rows; only the columns that a row names are compared, and they are found without case."""
    own = {column.lower(): column for column in columns}
    wanted: list[Row] = [{own.get(key.lower(), key): value for key, value in row.items()} for row in expected]
    unknown = sorted({key for row in wanted for key in row} - set(columns))
    if unknown:
        return [f"{what}: there is no column '{key}'; {did_you_mean(key, columns)}" for key in unknown]
    fits = [
        [index for index, row in enumerate(actual) if all(equal(want[key], row[key], tolerance) for key in want)]
        for want in wanted
    ]
    taken = matching(fits)
    missing = [row for index, row in enumerate(wanted) if index not in taken]
    extra = [row for index, row in enumerate(actual) if index not in set(taken.values())]
    return _explain(what, missing, extra, tolerance)


def matching(fits: Sequence[Sequence[int]]) -> dict[int, int]:
    """A largest matching: ``fits[i]`` lists what ``i`` may be matched with; gives ``i`` to its partner.

    Augmenting paths: a row that only fits one partner takes it even where another row came first.
    """
    partner_of: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for partner in fits[row]:
            if partner in tried:
                continue
            tried.add(partner)
            if partner not in partner_of or place(partner_of[partner], tried):
                partner_of[partner] = row
                return True
        return False

    for row in range(len(fits)):
        place(row, set())
    return {row: partner for partner, row in partner_of.items()}


def _explain(what: str, missing: list[Row], extra: list[Row], tolerance: float | None) -> list[str]:
    """Say what differs: a missing and an extra row that agree in half of the columns are one row that differs."""
    differences = []
    rest = list(extra)
    for want in missing:
        scored = [(sum(equal(value, row[key], tolerance) for key, value in want.items()), row) for row in rest]
        score, best = max(scored, key=lambda pair: pair[0], default=(0, None))
        if best is None or 2 * score < len(want):
            differences.append(f"{what}: row {_shown(want)} is missing")
            continue
        rest.remove(best)
        wrong = [key for key, value in want.items() if not equal(value, best[key], tolerance)]
        values = ", ".join(f"{key} is {_value(best[key], key)}, expected {_value(want[key], key)}" for key in wrong)
        differences.append(f"{what}: row {_shown({k: v for k, v in want.items() if k not in wrong})}: {values}")
    return differences + [f"{what}: row {_shown(row)} is not expected" for row in rest]


def equal(expected: Any, actual: Any, tolerance: float | None = None) -> bool:
    """Is ``actual`` what a transcript wrote as ``expected``?

    Text stands for an instant where ``actual`` is microseconds, for an exact number where it is a decimal. Doubles
    must be equal, or differ by at most ``tolerance * max(1, |expected|)``; NaN equals NaN.
    """
    if expected is None or actual is None:
        return expected is None and actual is None
    if isinstance(expected, bool) or isinstance(actual, bool):
        return isinstance(expected, bool) and isinstance(actual, bool) and expected is actual
    if isinstance(actual, list | tuple):
        return (
            isinstance(expected, list | tuple)
            and len(expected) == len(actual)
            and all(equal(one, other, tolerance) for one, other in zip(expected, actual, strict=True))
        )
    if isinstance(actual, Mapping):
        return (
            isinstance(expected, Mapping)
            and expected.keys() == actual.keys()
            and all(equal(value, actual[key], tolerance) for key, value in expected.items())
        )
    if isinstance(actual, float):
        return isinstance(expected, int | float) and _equal_doubles(float(expected), actual, tolerance)
    if isinstance(actual, Decimal):
        return _decimal(expected) == actual
    if isinstance(actual, int):
        return _us(expected) == actual if isinstance(expected, str) else bool(expected == actual)
    if isinstance(actual, date):
        return bool(expected == actual.isoformat())
    if isinstance(actual, bytes | bytearray):
        return isinstance(expected, str) and expected.encode() == bytes(actual)
    return bool(expected == actual)


def _equal_doubles(expected: float, actual: float, tolerance: float | None) -> bool:
    if math.isnan(expected) or math.isnan(actual):
        return math.isnan(expected) and math.isnan(actual)
    if expected == actual:
        return True
    return tolerance is not None and abs(expected - actual) <= tolerance * max(1.0, abs(expected))


def _decimal(value: Any) -> Decimal | None:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return None


def _us(text: str) -> int | None:
    try:
        return parse_instant(text)
    except ValueError:
        return None


def _instant(instant_us: int | None) -> str:
    return "null" if instant_us is None else format_instant(instant_us)


def _value(value: Any, key: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool) and key in _INSTANTS:
        return format_instant(value)
    if isinstance(value, list | tuple):
        inner = "watermark" if key == "missed_windows" else ""
        return "[" + ", ".join(_value(item, inner) for item in value) + "]"
    return str(value)


def _shown(row: Row) -> str:
    return "{" + ", ".join(f"{key}: {_value(value, key)}" for key, value in row.items()) + "}"
