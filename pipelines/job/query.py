"""The query of a job file: its inputs, join, condition, group keys, window and aggregates, and their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.core.steps import EVENT_COLUMNS, SYSTEM_TIMESTAMP, Computed, Steps
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.expressions import check_column, check_expression, columns_read, parse_aggregate
from pipelines.job.one_step import all_columns, expressions_of, row_steps, window_steps
from pipelines.job.windows import build_window
from pipelines.job.yaml import Path as KeyPath

RESULT_COLUMNS = frozenset({"window_start", "window_end", "window_id", "output_date", "emitted_at"})
"""Columns of every result, whose names no group key and no aggregate may have."""


def build_query(file: JobFile, section: schema.JobSection, inputs: Mapping[str, model.Input]) -> model.Query | Steps:
    """The query, its expressions and names checked against the columns of the inputs it reads.

    It is :class:`Steps` if it has more than one step with one window can hold: ``having``, ``select``, no window, or an
    expression that names the arrival or the system timestamp.
    """
    part = section.query
    given = [key for key in ("from", "union", "join") if getattr(part, "from_" if key == "from" else key)]
    if len(given) != 1:
        raise file.error("needs exactly one of from, union and join", ("query", *given[1:2]))
    join = _join(file, part.join, section.profile, inputs) if part.join else None
    sources = tuple([part.from_] if part.from_ else part.union or [])
    for name in sources:
        if name not in inputs:
            raise file.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("query", given[0]))
    payload = _query_columns(file, sources, join, section.profile, inputs)
    columns = [*payload, SYSTEM_TIMESTAMP, *(EVENT_COLUMNS if join is None else ())]
    where = _expression(file, ("query", "where"), part.where, columns)
    group_by = tuple(
        file.at(("query", "group_by", index), partial(check_column, one, columns))
        for index, one in enumerate(part.group_by)
    )
    names = [model.output_name(column).lower() for column in group_by]
    aggregates = tuple(
        file.at(("query", "aggregates", name), partial(parse_aggregate, name, text, columns))
        for name, text in part.aggregates.items()
    )
    _check_result_names(file, names, part.aggregates)
    if part.window is None:
        _check_row_output(file, section)
        return row_steps(sources, join, where, _selected(file, part.select, columns) or all_columns(payload))
    if not aggregates:
        raise file.error("is missing; a window needs at least one, like {n: count(*)}", ("query", "aggregates"))
    window = build_window(file, part.window, section.profile, columns, ("query", "window"))
    query = model.Query(window, aggregates, sources, join, where, group_by)
    results = [*map(model.output_name, group_by), *(one.name for one in aggregates), SYSTEM_TIMESTAMP]
    having = _expression(file, ("query", "having"), part.having, results)
    select = _selected(file, part.select, results)
    read = columns_read(expressions_of(query))
    if having is None and select is None and read.isdisjoint((SYSTEM_TIMESTAMP, *EVENT_COLUMNS)):
        return query
    return window_steps(query, having, select)


def _expression(file: JobFile, path: KeyPath, text: str | None, columns: Sequence[str]) -> str | None:
    return None if text is None else file.at(path, lambda: check_expression(text, columns))


def _selected(file: JobFile, select: Mapping[str, str] | None, columns: Sequence[str]) -> tuple[Computed, ...] | None:
    """The columns of ``select``; ``system_timestamp`` is a column of every output without being named."""
    if select is None:
        return None
    seen = set(RESULT_COLUMNS)
    computed = []
    for name, text in select.items():
        path: KeyPath = ("query", "select", name)
        expression = file.at(path, partial(check_expression, text, columns))
        if name.lower() == SYSTEM_TIMESTAMP == expression.lower():
            continue
        if name.lower() in seen or name.lower() == SYSTEM_TIMESTAMP:
            raise file.error(f"'{name}' is taken in the result already", path)
        seen.add(name.lower())
        computed.append(Computed(name, expression))
    return tuple(computed)


def _check_row_output(file: JobFile, section: schema.JobSection) -> None:
    part = section.query
    if section.profile == "stream_insight":
        raise file.error("is missing; profile stream_insight counts in windows alone", ("query", "window"))
    for key, given in (("group_by", part.group_by), ("aggregates", part.aggregates), ("having", part.having)):
        if given:
            raise file.error("needs a window; a query without one gives a row for each event", ("query", key))


def build_stream_columns(
    file: JobFile, part: schema.StreamSection, names: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """(their column, ours) for each column of the live run's table that has another name there.

    ``names``: the columns of our result that are no window's.
    """
    known = [*names, "window_start", "window_end", "window_id", "emitted_at"]
    mapping: list[tuple[str, str]] = []
    for theirs, ours in part.columns.items():
        path: KeyPath = ("stream", "columns", theirs)
        column = file.at(path, partial(check_column, ours, known))
        if any(column == other for _, other in mapping):
            raise file.error(f"two columns are mapped to '{column}'", path)
        mapping.append((theirs, column))
    return tuple(mapping)


def build_stream_outputs(
    file: JobFile, section: schema.JobSection, query: model.Query | Steps
) -> tuple[tuple[str, str], ...]:
    """The live run's table of each output: as ``stream.outputs`` says, else ``stream_outputs/<job>/<output>``."""
    names = [one.name for one in query.outputs] if isinstance(query, Steps) else []
    for name in section.stream.outputs:
        if name.lower() not in names:
            raise file.error(f"there is no output '{name}'; {did_you_mean(name, names)}", ("stream", "outputs", name))
    given = {name.lower(): table for name, table in section.stream.outputs.items()}
    return tuple((name, given.get(name, f"stream_outputs/{section.job}/{name}")) for name in names)


def _check_result_names(file: JobFile, keys: list[str], aggregates: Mapping[str, str]) -> None:
    for index, key in enumerate(keys):
        if key in RESULT_COLUMNS or key in keys[:index]:
            raise file.error(f"the result already has a column '{key}'", ("query", "group_by", index))
    seen = set(keys) | RESULT_COLUMNS
    for name in aggregates:
        if name.lower() in seen:
            raise file.error(f"the result already has a column '{name}'", ("query", "aggregates", name))
        seen.add(name.lower())


def _query_columns(
    file: JobFile,
    sources: tuple[str, ...],
    join: model.Join | None,
    profile: str,
    inputs: Mapping[str, model.Input],
) -> list[str]:
    if join is not None:
        return [f"{side}.{column.name}" for side in (join.left, join.right) for column in inputs[side].columns]
    if len(set(sources)) != len(sources):
        raise file.error("an input is listed twice", ("query", "union"))
    if len(sources) > 1 and profile == "atlas":
        raise file.error("profile atlas reads one source; a union needs a job for each", ("query", "union"))
    first = inputs[sources[0]]
    for name in sources[1:]:
        if inputs[name].columns != first.columns:
            raise file.error(f"'{name}' and '{first.name}' have different columns", ("query", "union"))
    return [column.name for column in first.columns]


def _join(file: JobFile, part: schema.JoinSection, profile: str, inputs: Mapping[str, model.Input]) -> model.Join:
    path: KeyPath = ("query", "join")
    if profile != "stream_analytics":
        raise file.error(f"profile {profile} has no joins; only stream_analytics has", path)
    for key, name in (("left", part.left), ("right", part.right)):
        if name not in inputs:
            raise file.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", (*path, key))
    if part.left == part.right:
        raise file.error("an input cannot be joined with itself; define it twice", (*path, "right"))
    if part.within.from_ > part.within.to:
        raise file.error("'from' is greater than 'to': nothing can match", (*path, "within", "from"))
    for side in (part.left, part.right):
        names = [column.name for column in inputs[side].columns]
        for index, name in enumerate(part.on):
            file.at((*path, "on", index), partial(check_column, name, names))
    return model.Join(
        part.left, part.right, tuple(part.on), part.within.unit, part.within.from_, part.within.to, part.kind
    )
