"""A log of plain Python rows as the messages that Spark would bring."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.core.expressions import Evaluate, as_declared, read
from pipelines.core.model import Arrival, Column, Input
from pipelines.lakehouse.schema import arrow_type
from pipelines.live.expressions import instant, readings
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import ANNOUNCEMENT, ROWS, Message, first_punctuation_us, pack, unpack


def messages(
    compiled: CompiledJob, arrivals: Sequence[Arrival], evaluate: Evaluate, cuts: Sequence[int] = ()
) -> list[list[Message]]:
    """``arrivals`` cut into commits at the indices ``cuts``, each commit one file an input; then an announcement of
    them all that asks for the end of the log. One list for each commit, the announcement last."""
    inputs = compiled.job.inputs
    indices = {part.name: [index for index, one in enumerate(arrivals) if one.input == part.log] for part in inputs}
    tables = {part.name: _table(compiled, part, [arrivals[i] for i in indices[part.name]], evaluate) for part in inputs}
    batches: list[list[Message]] = []
    for number, ends in enumerate(zip([0, *cuts], [*cuts, len(arrivals)], strict=True)):
        batches.append([])
        for name, table in tables.items():
            first, last = (bisect_left(indices[name], end) for end in ends)
            if first < last:
                body = pack(table.slice(first, last - first))
                batches[-1].append(Message(ROWS, name, f"{name}-{number}", last - first, body))
    files = [message for batch in batches for message in batch]
    partitions = {name: sorted(set(table["partition"].drop_null().to_pylist())) for name, table in tables.items()}
    return [*batches, [announcement(0, files, partitions, end_of_log=True)]]


def announcement(
    number: int, files: Sequence[Message], partitions: Mapping[str, list[int]], *, end_of_log: bool
) -> Message:
    """An announcement of ``files``, each as a commit."""
    commits = [
        {
            "input": one.input,
            "files": {one.file: one.row_count},
            "punctuation_us": first_punctuation_us(unpack(one.body), "arrival", "partition"),
        }
        for one in files
    ]
    body = {"number": number, "end_of_log": end_of_log, "commits": commits, "partitions": partitions}
    return Message(ANNOUNCEMENT, "", "", 0, json.dumps(body).encode())


def _table(compiled: CompiledJob, part: Input, arrivals: Sequence[Arrival], evaluate: Evaluate) -> pa.Table:
    """The columns of a :class:`~pipelines.live.state.messages.Commit`."""
    texts = _texts(compiled, part)
    events = [one.payload for one in arrivals if one.punctuation_us is None]
    found = iter(read(*_with_sides(compiled, part, events), list(texts.values()), evaluate))
    nothing = dict.fromkeys(texts.values())
    values = [nothing if one.punctuation_us is not None else next(found) for one in arrivals]
    columns: dict[str, Any] = {name: [row[text] for row in values] for name, text in texts.items()}
    if "passes" in columns:
        columns["passes"] = [value is True for value in columns["passes"]]
    if "edge" in columns:
        columns["edge"] = [None if value is None else str(value) for value in columns["edge"]]
    if compiled.job.steps is not None and compiled.reads(part.name):
        # steps take columns as they are, of whatever type
        for index, column in enumerate(part.columns):
            payload = [as_declared(column, one.payload.get(column.name)) for one in arrivals]
            columns[f"v{index}"] = pa.array(payload, arrow_type(column.type))
    own = {
        "partition": pa.array([one.input_partition for one in arrivals], pa.int32()),
        "sequence": pa.array([one.sequence for one in arrivals], pa.int64()),
        "arrival": pa.array([one.arrival_time_us for one in arrivals], pa.int64()),
        "punctuation": pa.array([one.punctuation_us for one in arrivals], pa.int64()),
    }
    return pa.table({**own, **columns})


def _with_sides(
    compiled: CompiledJob, part: Input, payloads: Sequence[Mapping[str, object]]
) -> tuple[tuple[Column, ...], Sequence[Mapping[str, object]]]:
    """Columns and rows; for a join also ``input.column`` of both sides, of which the side that is not there is null."""
    if not compiled.joins(part.name):
        return part.columns, payloads
    sides = {
        f"{one.name}.{column.name}": (column, one is part)
        for one in map(compiled.job.input, compiled.sources)
        for column in one.columns
    }
    columns = (*part.columns, *(Column(name, column.type) for name, (column, _) in sides.items()))
    return columns, [
        {**row, **{name: row[column.name] if is_own else None for name, (column, is_own) in sides.items()}}
        for row in payloads
    ]


def _texts(compiled: CompiledJob, part: Input) -> dict[str, str]:
    """:func:`readings`, with instants as the evaluator gives them and ``where`` as it is."""
    texts = {
        name: text for name, text in readings(compiled, part).items() if compiled.job.steps is None or name[0] != "v"
    }
    texts |= {n: instant(t, part) for n, t in (("time", part.timestamp_by), ("end", part.end_by)) if t is not None}
    if "passes" in texts and compiled.job.window_query.where is not None:
        texts["passes"] = compiled.job.window_query.where
    if part.edge_by is not None:
        texts["edge"] = part.edge_by
    return texts
