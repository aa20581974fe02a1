"""A log of plain Python rows as the messages that the stream would bring."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from pipelines.core.expressions import Evaluate, read
from pipelines.core.model import Arrival, Column, Input
from pipelines.job.expressions import instant_sql
from pipelines.live.state.intake import ANNOUNCEMENT, PLAIN_ROWS, Message
from pipelines.live.state.program import Program


def messages(
    program: Program, arrivals: Sequence[Arrival], evaluate: Evaluate, cuts: Sequence[int] = ()
) -> list[list[Message]]:
    """``arrivals`` cut into commits at the indices ``cuts``, each commit one file an input; then an announcement of
    them all that asks for the end of the log. One list for each commit, the announcement last."""
    packed = {part.name: _read(program, part, arrivals, evaluate) for part in program.job.inputs}
    commits: list[list[Message]] = []
    portions: list[dict[str, Any]] = []
    for number, (begin, end) in enumerate(zip([0, *cuts], [*cuts, len(arrivals)], strict=True)):
        commit = []
        for part in program.job.inputs:
            rows = [index for index in range(begin, end) if arrivals[index].input == part.name]
            if rows:
                columns = {name: [values[index] for index in rows] for name, values in packed[part.name].items()}
                file = f"{part.name}-{number}"
                commit.append(Message(PLAIN_ROWS, part.name, file, len(rows), pickle.dumps(columns)))
                portions.append({"input": part.name, "files": {file: len(rows)}})
        commits.append(commit)
    announced = {"number": 0, "end_of_log": True, "portions": portions, "partitions": _partitions(program, arrivals)}
    commits.append([Message(ANNOUNCEMENT, "", "", 0, json.dumps(announced).encode())])
    return commits


def _partitions(program: Program, arrivals: Sequence[Arrival]) -> dict[str, list[int]]:
    found: dict[str, set[int]] = {part.name: set() for part in program.job.inputs}
    for one in arrivals:
        if one.input_partition is not None:
            found[one.input].add(one.input_partition)
    return {name: sorted(numbers) for name, numbers in found.items()}


def _read(
    program: Program, part: Input, arrivals: Sequence[Arrival], evaluate: Evaluate
) -> Mapping[str, Mapping[int, Any]]:
    """The columns that ``events`` of :mod:`~pipelines.live.state.intake` takes: values by index in ``arrivals``."""
    mine = [index for index, one in enumerate(arrivals) if one.input == part.name]
    events = [index for index in mine if arrivals[index].punctuation_us is None]
    texts = _texts(program, part)
    join = program.job.window_query.join
    columns, payloads = part.columns, [arrivals[index].payload for index in events]
    if join is not None and program.reads(part.name):
        # a joined row's expressions name both sides; the side that is not there is null
        both = [program.job.input(name) for name in program.sources]
        columns += tuple(Column(f"{one.name}.{column.name}", column.type) for one in both for column in one.columns)
        payloads = [
            {
                **row,
                **{f"{one.name}.{c.name}": row[c.name] if one is part else None for one in both for c in one.columns},
            }
            for row in payloads
        ]
    found = read(columns, payloads, list(texts.values()), evaluate)
    values = dict(zip(events, found, strict=True))
    result: dict[str, dict[int, Any]] = {
        "partition": {index: arrivals[index].input_partition for index in mine},
        "sequence": {index: arrivals[index].sequence for index in mine},
        "arrival": {index: arrivals[index].arrival_time_us for index in mine},
        "punctuation": {index: arrivals[index].punctuation_us for index in mine},
    }
    for name, text in texts.items():
        result[name] = {index: values[index][text] if index in values else None for index in mine}
    if "passes" in result:
        result["passes"] = {index: value is True for index, value in result["passes"].items()}
    if "edge" in result:
        result["edge"] = {index: None if value is None else str(value) for index, value in result["edge"].items()}
    return result


def _texts(program: Program, part: Input) -> dict[str, str]:
    """:meth:`Program.readings`, with instants as the evaluator gives them and ``where`` as it stands."""
    texts = program.readings(part)
    for name, text in (("time", part.timestamp_by), ("end", part.end_by)):
        if text is not None:
            column = part.column(text.strip())
            texts[name] = text if column is not None and column.type == "timestamp" else instant_sql(text)
    if "passes" in texts and program.job.window_query.where is not None:
        texts["passes"] = program.job.window_query.where
    if part.edge_by is not None:
        texts["edge"] = part.edge_by
    return texts
