"""The inputs of a job file: columns, the expression of the event time, and for stream_insight the lifetime."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import partial

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.expressions import check_column, check_expression, columns_read, parse_columns
from pipelines.job.sources import build_source
from pipelines.job.yaml import Path as KeyPath

_SHAPES = ("end_by", "edge_by", "match_on")


def build_input(file: JobFile, name: str, section: schema.InputSection, profile: str) -> model.Input:
    """The input at key ``inputs.<name>``; its expressions are checked against its columns."""
    path: KeyPath = ("inputs", name)
    columns = file.at((*path, "columns"), lambda: parse_columns(section.columns))
    names = [column.name for column in columns]

    def expression(key: str, text: str | None) -> str | None:
        return None if text is None else file.at((*path, key), lambda: check_expression(text, names))

    def listed(key: str, given: list[str]) -> tuple[str, ...]:
        return tuple(file.at((*path, key), partial(check_column, column, names)) for column in given)

    if section.arrival_regression == "hold_at_last" and "source_time" in map(str.lower, names):
        raise file.error("'source_time' is the log's own column with 'hold_at_last'", (*path, "columns"))
    if section.over and profile != "stream_analytics":
        raise file.error(f"profile {profile} has no substreams; leave 'over' out", (*path, "over"))
    if section.over and section.timestamp_by is None:
        raise file.error("'over' needs 'timestamp_by': without it no policy applies", (*path, "over"))
    result = model.Input(
        name=name,
        columns=columns,
        timestamp_by=expression("timestamp_by", section.timestamp_by),
        over=listed("over", section.over),
        sub_microsecond=section.sub_microsecond,
        partitions=section.partitions,
        shape=section.shape,
        end_by=expression("end_by", section.end_by),
        edge_by=expression("edge_by", section.edge_by),
        match_on=listed("match_on", section.match_on),
        same_log_as=section.same_log_as,
        arrival_regression=section.arrival_regression,
        source=None if section.source is None else build_source(file, section.source, columns, (*path, "source")),
    )
    _check_timestamp_type(file, result, path)
    return _with_shape(file, result, profile, path)


def _check_timestamp_type(file: JobFile, source: model.Input, path: KeyPath) -> None:
    column = source.column(source.timestamp_by) if source.timestamp_by else None
    if column is not None and column.type not in ("timestamp", "string", "date"):
        raise file.error(
            f"column '{column.name}' is {column.type.upper()}, not an instant; convert it, for example"
            f" timestamp_millis({column.name})",
            (*path, "timestamp_by"),
        )


def _with_shape(file: JobFile, source: model.Input, profile: str, path: KeyPath) -> model.Input:
    if profile != "stream_insight":
        for key in ("shape", *_SHAPES):
            if (*file.root, *path, key) in file.document.lines:
                raise file.error(f"'{key}' belongs to profile stream_insight", (*path, key))
        return source
    allowed = {"point": (), "interval": ("end_by",), "edge": _SHAPES}[source.shape]
    for key in _SHAPES:
        given = bool(getattr(source, key))
        if given and key not in allowed:
            raise file.error(f"a {source.shape} has no '{key}'", (*path, key))
        if not given and key in allowed and key != "match_on":
            raise file.error(f"shape {source.shape} needs '{key}'", (*path, "shape"))
    if source.shape != "point" and source.timestamp_by is None:
        raise file.error(f"shape {source.shape} needs 'timestamp_by', its start", (*path, "shape"))
    if source.shape == "edge" and not source.match_on:
        read = columns_read(text for text in (source.timestamp_by, source.end_by, source.edge_by) if text is not None)
        rest = tuple(column.name for column in source.columns if column.name.lower() not in read)
        return dataclasses.replace(source, match_on=rest)
    return source


def check_same_log(file: JobFile, part: model.Input, inputs: Mapping[str, model.Input]) -> None:
    """An input that reads another one's log has its columns and partitions, and that one has a log of its own (Q5)."""
    if part.same_log_as is None:
        return
    path: KeyPath = ("inputs", part.name, "same_log_as")
    first = inputs.get(part.same_log_as)
    if first is None or first is part:
        raise file.error(
            f"there is no other input '{part.same_log_as}'; {did_you_mean(part.same_log_as, inputs)}", path
        )
    if part.source is not None:
        raise file.error(
            f"its arrivals are those of '{first.name}'; name the source there", ("inputs", part.name, "source")
        )
    if first.same_log_as is not None:
        raise file.error(f"'{first.name}' reads the log of '{first.same_log_as}'; name that one", path)
    if (part.columns, part.partitions) != (first.columns, first.partitions):
        raise file.error(f"columns and partitions differ from those of '{first.name}', which are one log's", path)
