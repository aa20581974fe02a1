"""A query of several steps in plain sentences: what each step and output reads, does and gives, in that order."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pipelines.core import model
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Applied,
    Computed,
    Filtered,
    Gathered,
    InputRows,
    Joined,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    StepRows,
    Steps,
    United,
    Windowed,
)
from pipelines.core.time import UNIT_US, format_duration
from pipelines.job.describe.shared import window_sentences

_QUOTED_NAME = re.compile(r"`(\w+)`")
_GENERATED = re.compile(r"\b__(?:(analytic|aggregate|key|a|k|v)_?(\d*)_?\b)?")
_MEANING = {
    **dict.fromkeys(("key", "k"), "group key"),
    **dict.fromkeys(("aggregate", "a"), "aggregate"),
    **{"analytic": "looked-up value", "v": "value"},
}
"""What columns are that the query does not name."""
_WIDEST = 12
"""Of more columns the first are named, and how many there are."""
_LONGEST = 200
"""Characters of an expression that are printed. A conversion of a text to a number is longer."""
_PLACE = re.compile(r"raise_error\((?:concat\()?'([^']+?:\d+:\d+): ")
"""Where in the script an expression is, as its error gives it."""
_STAR = {"CAST(`input_partition` AS BIGINT)", "`arrival_time`"}
"""The columns of an event hub that * adds."""
_NOT_COMPARED = re.compile(r"NOT \([^()]* (=|<>|<|>|<=|>=|LIKE) ")
_TEXT_COMPARED = re.compile(r"(=|<>|LIKE|IN \() ?'")


def step_sentences(job: model.Job, steps: Steps) -> list[str]:
    """One sentence a step and an output."""
    sentences = [f"Step {one.name}: {_text(one.rows, job)}." for one in steps.steps]
    sentences += [f"Output {one.name}: {_text(one.rows, job)}." for one in steps.outputs]
    return [_GENERATED.sub(_meaning, one) for one in sentences]


def _meaning(found: re.Match[str]) -> str:
    return f"{_MEANING[found[1]]} {found[2] or 1}" if found[1] else ""


def reference_sentences(job: model.Job) -> list[str]:
    """One sentence for each set of reference data."""
    sentences = []
    for one in job.references:
        if one.effective is None:
            sentences.append(f"Reference data {one.name} is one static set for all rows.")
            continue
        time = "system timestamp" if one.time == "system_timestamp" else "arrival time"
        sentences.append(
            f"Reference data {one.name} comes in snapshots: a row uses the newest one whose {one.effective} is"
            f" at or before its {time}."
        )
    return sentences


def script_remarks(steps: Steps) -> list[str]:
    """Open points of the query language that a script depends on (Q24, Q31, Q39)."""
    if not steps.ansi:
        return []
    found = []
    for name, rows in steps.relations():
        texts = _expressions(rows)
        if set(texts) >= _STAR:
            found.append(
                f"{name}: in the product * also gives EventProcessedUtcTime, a clock that no log has; it is left out"
            )
        if any(_NOT_COMPARED.search(text) for text in texts):
            found.append(
                f"{name}: NOT is applied to a comparison; where a value is null, neither the comparison nor its"
                " opposite is true in Tailrace, and one page reads as if the opposite were"
            )
        if any(_TEXT_COMPARED.search(text) for text in texts):
            found.append(
                f"{name}: text is compared exactly, and no page says whether the product ignores case"
                " (string_comparison changes it)"
            )
    return list(dict.fromkeys(found))


def _expressions(rows: Rows) -> list[str]:
    """The expressions of one relation that decide which rows there are and what they contain."""
    match rows:
        case Filtered(condition=condition):
            return [condition]
        case Projected(columns=columns):
            return [one.expression for one in columns]
        case Analysed(functions=functions):
            return [text for one in functions for text in (one.argument, one.when) if text is not None]
        case Windowed(keys=keys, aggregates=aggregates):
            return [*(one.expression for one in keys), *(one.argument or "" for one in aggregates)]
        case Joined(condition=str(condition)) | Referenced(condition=str(condition)):
            return [condition]
        case _:
            return []


def _text(rows: Rows, job: model.Job) -> str:
    return ", then ".join(_phrases(rows, job))


def _phrases(rows: Rows, job: model.Job) -> list[str]:
    """What is done, one phrase after the other."""
    match rows:
        case InputRows(name):
            return [f"takes each event of {name} that counts"]
        case StepRows(name):
            return [f"takes each row of {name}"]
        case ReferenceRows(name):
            return [f"takes each row of {name}"]
        case Joined():
            return _joined(rows, job)
        case United(branches):
            return [f"puts together the rows that {' or '.join(_text(one, job) for one in branches)}"]
        case Referenced(side, reference):
            kept = "; a row that matches none stays" if rows.kind == "left" else ""
            keys = _conditions(rows.keys, rows.condition, side.name, reference.name)
            return [*_phrases(side.rows, job), f"looks up {_source(reference.rows, job)}{keys}{kept}"]
        case _:
            return [*_phrases(rows.rows, job), _phrase(rows, job)]


def _phrase(rows: Filtered | Projected | Applied | Gathered | Analysed | Windowed, job: model.Job) -> str:
    match rows:
        case Filtered(condition=condition):
            return f"keeps those with {_plain(condition)}"
        case Projected(columns=columns):
            return f"gives {_listed([_column(one) for one in columns])}"
        case Applied(argument=argument, name=name, of=kind, outer=outer):
            what = "element" if kind == "array" else "property"
            without = "stays" if outer else "is left out"
            return f"makes a row of each {what} of {_plain(argument)} ({name}); a row without one {without}"
        case Gathered(key=key, name=name):
            return f"gathers the rows of each {_plain(key.expression)} in an array ({name})"
        case Analysed(functions=functions):
            return f"adds {_listed([_analytic(one) for one in functions])}"
        case Windowed(window=window, keys=keys, aggregates=aggregates, partition_by=apart):
            by = f" by {_listed([_column(one) for one in keys])}" if keys else ""
            each = f", each value of {', '.join(apart)} apart" if apart else ""
            found = _listed([_aggregate(one) for one in aggregates]) if aggregates else "the groups alone"
            return f"counts in windows{by}{each}: {found} ({_window(window, job.profile)})"


def _joined(rows: Joined, job: model.Job) -> list[str]:
    left, right = rows.left, rows.right
    unit = next((name for name, us in UNIT_US.items() if us == rows.unit_us), format_duration(rows.unit_us))
    within = f"DATEDIFF({unit}, {left.name}, {right.name}) from {rows.from_units} to {rows.to_units}"
    keys = _conditions(rows.keys, rows.condition, left.name, right.name)
    sides = f"joins {_source(left.rows, job)} ({left.name}) with {_source(right.rows, job)} ({right.name})"
    alone = f"; a row of {left.name} without a partner stays" if rows.kind == "left" else ""
    return [f"{sides} within {within}{keys}{alone}"]


def _source(rows: Rows, job: model.Job) -> str:
    """A side of a join: a name where it is no more than that."""
    match rows:
        case InputRows(name) | StepRows(name) | ReferenceRows(name):
            return name
        case _:
            return f"what {_text(rows, job)}"


def _conditions(keys: Sequence[tuple[str, str]], condition: str | None, left: str, right: str) -> str:
    parts = [f"{left}.{_plain(one)} = {right}.{_plain(other)}" for one, other in keys]
    parts += [_plain(condition)] if condition is not None else []
    return f" where {' and '.join(parts)}" if parts else ""


def _analytic(one: Analytic) -> str:
    of = one.function if one.aggregate is None else _aggregate(one.aggregate).partition(" = ")[2]
    where = "" if one.argument is None else f" of {_plain(one.argument)}"
    which = f", {one.offset} rows before" if one.function == "lag" and one.offset != 1 else ""
    by = f" by {', '.join(map(_plain, one.partition_by))}" if one.partition_by else ""
    when = f" among rows with {_plain(one.when)}" if one.when is not None else ""
    within = "in its interval of" if one.function == "is_first" else "within the last"
    return f"{one.name} = {of}{where}{which}{by}{when} {within} {format_duration(one.within_us)}"


def _aggregate(one: model.Aggregate) -> str:
    distinct = "distinct " if one.distinct else ""
    argument = "*" if one.argument is None else _plain(one.argument)
    order = ", ".join(f"{_plain(key.expression)}{' desc' if key.descending else ''}" for key in one.order_by)
    limit = f" {one.limit}" if one.limit is not None else ""
    return f"{one.name} = {one.function}{limit}({distinct}{argument}{f' order by {order}' if order else ''})"


def _column(one: Computed) -> str:
    text = _plain(one.expression)
    return one.name if text.lower() == one.name.lower() else f"{one.name} = {text}"


def _plain(expression: str) -> str:
    """An expression with plain names unquoted; of a long one its beginning and its place in the script."""
    plain = _QUOTED_NAME.sub(r"\1", expression)
    if len(plain) <= _LONGEST:
        return plain
    place = _PLACE.search(plain)
    return f"the expression at {place[1]}" if place is not None else f"{plain[:_LONGEST]}.."


def _window(window: model.Window, profile: model.Profile) -> str:
    sentences = window_sentences(window, profile)
    return " ".join(sentence.replace("Windows: ", "").rstrip(".") for sentence in sentences)


def _listed(texts: Sequence[str]) -> str:
    if len(texts) > _WIDEST:
        return f"{', '.join(texts[:_WIDEST])} and {len(texts) - _WIDEST} more columns"
    return ", ".join(texts)
