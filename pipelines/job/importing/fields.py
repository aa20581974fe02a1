"""Fields of events, from samples of them and from guesses, as the columns of a job file."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core.columns import LOG_COLUMNS
from pipelines.core.errors import UsageError
from pipelines.core.expressions import quoted
from pipelines.core.query import Column
from pipelines.job.atlas_pipeline.text import Instant, Refused, read_value
from pipelines.job.atlas_pipeline.values import Guess, ddl, settled, unified
from pipelines.job.expressions import parse_columns
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Record, Type

_NEXT = re.compile(r"[^\s,]")
_MOST = 10_000
"""Records of a sample that are looked at."""
_OF_LOG = {"arrival_time", "input_partition", "sequence"}
"""A record with these fields is of an arrival log: the log's own columns are no fields of the event."""


def read_sample(path: Path | str) -> Iterator[Any]:
    """The records of a sample: JSON lines, a JSON array, or CSV with a header, whose values are all text (Q28).

    ``path`` may also be the text itself, of JSON.
    """
    if isinstance(path, str):
        try:
            yield from _values(path)
        except Refused as refused:
            raise UsageError(f"a sample in the project is not JSON: {refused.what}") from None
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot read the sample: {why}", file=str(path)) from None
    if path.suffix.lower() in (".csv", ".tsv", ".txt") and text.lstrip()[:1] not in ("{", "["):
        first = text.splitlines()[0] if text.strip() else ""
        delimiter = max(",;\t|", key=first.count)
        yield from csv.DictReader(io.StringIO(text), delimiter=delimiter)
        return
    try:
        yield from _values(text)
    except Refused as refused:
        raise UsageError(f"the sample is neither JSON nor CSV: {refused.what}", file=str(path)) from None


def _values(text: str) -> Iterator[Any]:
    """The values of a JSON array, of one document, of each line, or of documents that follow each other."""
    try:
        values = [read_value(text)]
    except Refused:
        try:
            values = [read_value(line.strip().rstrip(",")) for line in text.splitlines() if line.strip()]
        except Refused as refused:
            values = list(_one_after_another(text, refused))
    for one in values:
        yield from one if isinstance(one, list) else [one]


def _one_after_another(text: str, refused: Refused) -> Iterator[Any]:
    at, decoder = 0, json.JSONDecoder()
    while rest := _NEXT.search(text, at):
        try:
            value, at = decoder.raw_decode(text, rest.start())
        except ValueError:
            raise refused from None
        yield value


def learn(guess: Guess, records: Iterator[Any], conflicts: list[str]) -> None:
    """Add the fields of these records to a guess; ``conflicts`` gathers fields that have values of several types."""
    for number, one in enumerate(records):
        if number == _MOST:
            break
        if isinstance(one, dict):
            of_log = LOG_COLUMNS if {str(name).lower() for name in one} >= _OF_LOG else frozenset()
            for name, value in one.items():
                if str(name).lower() not in of_log:
                    _learn(guess.field(str(name)), value, str(name), conflicts)


def _learn(guess: Guess, value: Any, path: str, conflicts: list[str]) -> None:
    match value:
        case None:
            return
        case dict():
            for name, inner in value.items():
                _learn(guess.field(str(name)), inner, f"{path}.{name}", conflicts)
        case list():
            guess.element = guess.element or Guess()
            for inner in value:
                _learn(guess.element, inner, f"{path}[]", conflicts)
        case _:
            kind = _type(value)
            both = kind if guess.found is None else unified(guess.found, kind)
            if both is None or guess.fields or guess.element:
                conflicts.append(path)
            guess.found = both or TEXT


def _type(value: Any) -> Type:
    match value:
        case bool():
            return BIT
        case int():
            return BIGINT if -(2**63) <= value < 2**63 else FLOAT
        case float():
            return FLOAT
        case Instant():
            return DATETIME
    return TEXT


def columns_of(guess: Guess, left_out: list[str]) -> tuple[Column, ...]:
    """The fields as columns; ``left_out`` gathers those that cannot be columns, with the reason."""
    columns: list[Column] = []
    for name, one in guess.fields.items():
        kind = _without_unfit(settled(one))
        try:
            parse_columns(columns_text((*columns, Column(name, ddl(kind)))))
        except ValueError as error:
            left_out.append(f"field '{name}' is left out: {error}")
        else:
            columns.append(Column(name, ddl(kind)))
    return tuple(columns)


def _without_unfit(kind: Type) -> Type:
    """The type without fields that differ in case alone from an earlier one."""
    if isinstance(kind, Array):
        return Array(_without_unfit(kind.element))
    if isinstance(kind, Record):
        kept: dict[str, tuple[str, Type]] = {}
        for name, one in kind.properties:
            kept.setdefault(name.lower(), (name, _without_unfit(one)))
        return Record(tuple(kept.values()))
    return kind


def columns_text(columns: tuple[Column, ...]) -> str:
    """The columns as a job file writes them."""
    return ", ".join(f"{one.name if one.name.isidentifier() else quoted(one.name)} {one.type}" for one in columns)


def paths_of(guess: Guess, prefix: str = "") -> dict[str, str]:
    """Every field without fields of its own, ``place.hall``, and its type."""
    found: dict[str, str] = {}
    for name, one in guess.fields.items():
        path = f"{prefix}{name}"
        inner = one.element if one.element is not None else one
        if inner.fields:
            found |= paths_of(inner, f"{path}.")
        else:
            found[path] = ddl(settled(one))
    return found


def named_samples(given: list[str]) -> dict[str, Path]:
    """``INPUT=FILE`` of the command line, by the input's name in lower case."""
    found = {}
    for one in given:
        name, mark, path = one.partition("=")
        if not mark or not name or not path:
            raise UsageError(f"'{one}' is not INPUT=FILE", key="--samples")
        found[re.sub(r"[^a-z0-9_]", "_", name.lower())] = Path(path)
    return found
