"""The inputs of a job file: columns, the expression of their time, and what a stream_insight event's lifetime is."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.expressions import check_column, check_expression, columns_read, parse_columns
from pipelines.job.yaml import Path as KeyPath

_SHAPES = ("end_by", "edge_by", "match_on")


def build_input(say: Complaints, name: str, part: schema.InputSection, profile: str) -> model.Input:
    """The input at key ``inputs.<name>``; every expression in it names its columns only."""
    path: KeyPath = ("inputs", name)
    columns = say.at((*path, "columns"), lambda: parse_columns(part.columns))
    names = [column.name for column in columns]

    def expression(key: str, text: str | None) -> str | None:
        return None if text is None else say.at((*path, key), lambda: check_expression(text, names))

    def listed(key: str, wanted: list[str]) -> tuple[str, ...]:
        return tuple(say.at((*path, key), partial(check_column, one, names)) for one in wanted)

    if part.over and profile != "stream_analytics":
        raise say.error(f"profile {profile} has no substreams; leave 'over' out", (*path, "over"))
    if part.over and part.timestamp_by is None:
        raise say.error("'over' needs 'timestamp_by': without it no policy applies", (*path, "over"))
    result = model.Input(
        name=name,
        columns=columns,
        timestamp_by=expression("timestamp_by", part.timestamp_by),
        over=listed("over", part.over),
        sub_microsecond=part.sub_microsecond,
        partitions=part.partitions,
        shape=part.shape,
        end_by=expression("end_by", part.end_by),
        edge_by=expression("edge_by", part.edge_by),
        match_on=listed("match_on", part.match_on),
        same_log_as=part.same_log_as,
    )
    _check_timestamp_type(say, result, path)
    return _with_shape(say, result, profile, path)


def _check_timestamp_type(say: Complaints, part: model.Input, path: KeyPath) -> None:
    column = part.column(part.timestamp_by) if part.timestamp_by else None
    if column is not None and column.type not in ("timestamp", "string", "date"):
        raise say.error(
            f"column '{column.name}' is {column.type.upper()}, not an instant; convert it, for example"
            f" timestamp_millis({column.name})",
            (*path, "timestamp_by"),
        )


def _with_shape(say: Complaints, part: model.Input, profile: str, path: KeyPath) -> model.Input:
    if profile != "stream_insight":
        for key in ("shape", *_SHAPES):
            if (*say.root, *path, key) in say.document.lines:
                raise say.error(f"'{key}' belongs to profile stream_insight", (*path, key))
        return part
    allowed = {"point": (), "interval": ("end_by",), "edge": _SHAPES}[part.shape]
    for key in _SHAPES:
        given = bool(getattr(part, key))
        if given and key not in allowed:
            raise say.error(f"a {part.shape} has no '{key}'", (*path, key))
        if not given and key in allowed and key != "match_on":
            raise say.error(f"shape {part.shape} needs '{key}'", (*path, "shape"))
    if part.shape != "point" and part.timestamp_by is None:
        raise say.error(f"shape {part.shape} needs 'timestamp_by', its start", (*path, "shape"))
    if part.shape == "edge" and not part.match_on:
        said = columns_read(text for text in (part.timestamp_by, part.end_by, part.edge_by) if text is not None)
        rest = tuple(column.name for column in part.columns if column.name.lower() not in said)
        return dataclasses.replace(part, match_on=rest)
    return part


def check_same_log(say: Complaints, part: model.Input, inputs: Mapping[str, model.Input]) -> None:
    """An input that reads another one's log has its columns and partitions, and that one has a log of its own (Q5)."""
    if part.same_log_as is None:
        return
    path: KeyPath = ("inputs", part.name, "same_log_as")
    first = inputs.get(part.same_log_as)
    if first is None or first is part:
        raise say.error(f"there is no other input '{part.same_log_as}'; {did_you_mean(part.same_log_as, inputs)}", path)
    if first.same_log_as is not None:
        raise say.error(f"'{first.name}' reads the log of '{first.same_log_as}'; name that one", path)
    if (part.columns, part.partitions) != (first.columns, first.partitions):
        raise say.error(f"columns and partitions differ from those of '{first.name}', which are one log's", path)
