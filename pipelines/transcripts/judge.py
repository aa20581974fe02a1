"""Compare the results of an engine with what a case expects; every difference is one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

from pipelines.core.columns import under_their_names
from pipelines.core.errors import TailraceError, did_you_mean
from pipelines.core.model import Decision, Job, WindowRow, output_name
from pipelines.core.steps import SYSTEM_TIMESTAMP, WINDOW_COLUMNS, columns_of, origin_of
from pipelines.core.time import format_instant, parse_instant
from pipelines.core.verdicts import VERDICT_FIELDS
from pipelines.plan.bounded_reads import BoundedReads, bounded_reads
from pipelines.plan.read_range import read_range
from pipelines.transcripts.listed_history import ListedHistory
from pipelines.transcripts.read import Case

Row = Mapping[str, Any]

_INSTANTS = {name for name, kind in VERDICT_FIELDS if "timestamp" in kind}
_INSTANTS |= {"window_start", "window_end", "read_from", "read_to"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results of an engine for a case, in one form for all engines: instants are microseconds as ``int``.

    ``verdicts`` have the keys of a transcript's verdicts, ``windows`` the columns of the job's result, ``outputs`` the
    rows of each output of a job of steps, with :func:`output_columns`. Where reading or running was refused, only
    ``error`` is set.
    """

    verdicts: tuple[Row, ...] = ()
    windows: tuple[Row, ...] = ()
    outputs: Mapping[str, tuple[Row, ...]] = field(default_factory=dict)
    error: TailraceError | None = None

    @classmethod
    def of(
        cls,
        decisions: Iterable[Decision],
        windows: Iterable[WindowRow],
        outputs: Mapping[str, tuple[Row, ...]] | None = None,
    ) -> Outcome:
        """From the rows of an engine that gives them as the core's."""
        return cls(tuple(map(_verdict, decisions)), tuple(row.as_row() for row in windows), outputs or {})


def _verdict(decision: Decision) -> Row:
    return {
        "input": decision.input,
        "partition": decision.input_partition,
        "sequence": decision.sequence,
        "arrival_time": decision.arrival_time_us,
        "event_time": decision.event_time_us,
        "verdict": decision.verdict,
        "reasons": list(decision.reasons),
        "system_timestamp": decision.system_timestamp_us,
        "lifetime_end": decision.lifetime_end_us,
        "watermark": decision.watermark_us,
        "missed_windows": list(decision.missed_windows_us),
    }


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
        return [f"error: none, expected one that contains '{expected}'"]
    if expected not in str(error):
        return [f"error: '{error}', expected one that contains '{expected}'"]
    return []


def planned_reads(case: Case) -> BoundedReads:
    """The arrivals that a plan for ``case`` reads, and the initial states it begins with."""
    assert case.job is not None
    return bounded_reads(case.job, case.output, ListedHistory(case.job, case.arrivals))


def _judge_plan(case: Case, expected: Mapping[str, int | None]) -> list[str]:
    """An expected instant is an end of the plan's read range; an expected null: no formula bounds that end."""
    assert case.job is not None
    formula, plan = read_range(case.job, case.output), planned_reads(case).range
    formula_ends = {"read_from": formula.from_us, "read_to": formula.to_us}
    plan_ends = {"read_from": plan.from_us, "read_to": plan.to_us}
    actual = {key: formula_ends[key] if value is None else plan_ends[key] for key, value in expected.items()}
    return [
        f"plan: {key} is {_value(actual[key], key)}, expected {_value(value, key)}"
        for key, value in expected.items()
        if actual[key] != value
    ]


def _judge_verdicts(expected: Sequence[Row], actual: Sequence[Row], tolerance: float | None) -> list[str]:
    def identity(row: Row) -> str:
        return f"verdicts: event {row['input']}/{row['partition']}/{row['sequence']}"

    differences = []
    given = {identity(row): row for row in actual}
    if len(given) != len(actual):
        differences.append("verdicts: an event has more than one verdict")
    wanted = {identity(row): row for row in expected}
    for event, row in wanted.items():
        if event not in given:
            differences.append(f"{event} is missing, expected {_row_text(row)}")
            continue
        differences += [
            f"{event}: {key} is {_value(given[event][key], key)}, expected {_value(value, key)}"
            for key, value in row.items()
            if not equal(value, given[event][key], tolerance)
        ]
    return differences + [
        f"{event} is not expected: {_row_text(row)}" for event, row in given.items() if event not in wanted
    ]


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
    wanted: list[Row] = [under_their_names(row, columns) for row in expected]
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
    return _row_differences(what, missing, extra, tolerance)


def matching(fits: Sequence[Sequence[int]]) -> dict[int, int]:
    """A largest matching: ``fits[i]`` lists what ``i`` may be matched with; the result maps ``i`` to its partner.

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


def _row_differences(what: str, missing: list[Row], extra: list[Row], tolerance: float | None) -> list[str]:
    """The differences: a missing and an extra row that agree in half of the columns are one row that differs."""
    differences = []
    rest = list(extra)
    for want in missing:
        scored = [(sum(equal(value, row[key], tolerance) for key, value in want.items()), row) for row in rest]
        score, best = max(scored, key=lambda pair: pair[0], default=(0, None))
        if best is None or 2 * score < len(want):
            differences.append(f"{what}: row {_row_text(want)} is missing")
            continue
        rest.remove(best)
        wrong = [key for key, value in want.items() if not equal(value, best[key], tolerance)]
        values = ", ".join(f"{key} is {_value(best[key], key)}, expected {_value(want[key], key)}" for key in wrong)
        differences.append(f"{what}: row {_row_text({k: v for k, v in want.items() if k not in wrong})}: {values}")
    return differences + [f"{what}: row {_row_text(row)} is not expected" for row in rest]


def equal(expected: Any, actual: Any, tolerance: float | None = None) -> bool:
    """Is ``actual`` the value that a transcript wrote as ``expected``?

    Text is an instant where ``actual`` is microseconds, and an exact number where it is a decimal. Doubles
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
            and all(equal(item, given, tolerance) for item, given in zip(expected, actual, strict=True))
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


def _value(value: Any, key: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, int) and not isinstance(value, bool) and key in _INSTANTS:
        return format_instant(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(item, key) for item in value) + "]"
    return str(value)


def _row_text(row: Row) -> str:
    return "{" + ", ".join(f"{key}: {_value(value, key)}" for key, value in row.items()) + "}"
