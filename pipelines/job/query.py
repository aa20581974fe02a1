"""The query of a job file: its inputs, join, condition, group keys, window and aggregates, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.expressions import check_column, check_expression, parse_aggregate
from pipelines.job.windows import build_window
from pipelines.job.yaml import Path as KeyPath

RESULT_COLUMNS = frozenset({"window_start", "window_end", "window_id", "output_date", "emitted_at"})
"""Columns of every result, whose names no group key and no aggregate may have."""


def build_query(file: JobFile, section: schema.JobSection, inputs: Mapping[str, model.Input]) -> model.Query:
    """The query; its expressions and names are checked against the columns of its inputs."""
    part = section.query
    given = [key for key in ("from", "union", "join") if getattr(part, "from_" if key == "from" else key)]
    if len(given) != 1:
        raise file.error("needs exactly one of from, union and join", ("query", *given[1:2]))
    join = _join(file, part.join, section.profile, inputs) if part.join else None
    sources = tuple([part.from_] if part.from_ else part.union or [])
    for name in sources:
        if name not in inputs:
            raise file.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("query", given[0]))
    columns = _query_columns(file, sources, join, section.profile, inputs)
    where = None
    if part.where is not None:
        text = part.where
        where = file.at(("query", "where"), lambda: check_expression(text, columns))
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
    window = build_window(file, part.window, section.profile, columns, ("query", "window"))
    return model.Query(window, aggregates, sources, join, where, group_by)


def build_stream_columns(file: JobFile, part: schema.StreamSection, query: model.Query) -> tuple[tuple[str, str], ...]:
    """(name there, our name) for each column of the live run's table that has another name there."""
    names = [model.output_name(column) for column in query.group_by] + [one.name for one in query.aggregates]
    known = [*names, "window_start", "window_end", "window_id", "emitted_at"]
    mapping: list[tuple[str, str]] = []
    for theirs, ours in part.columns.items():
        path: KeyPath = ("stream", "columns", theirs)
        column = file.at(path, partial(check_column, ours, known))
        if any(column == other for _, other in mapping):
            raise file.error(f"two columns are mapped to '{column}'", path)
        mapping.append((theirs, column))
    return tuple(mapping)


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
