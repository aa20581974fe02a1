"""Clean JSON lines as typed columns at once, by Arrow's parser.

The exact path (:func:`~pipelines.ingest.values.decode_json`, then value by value) defines what a line means. Lines are
clean where Arrow cannot differ from it: each line is one object, no key occurs twice or is another form of a column's
name, each value has the JSON type that its column has, and it is known in how many lines each unknown key occurs. All
other lines take the exact path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from pipelines.core.columns import under_their_names
from pipelines.core.model import Input

_SMALLEST = 1 << 16
"""Bytes below which lines are not divided further to find the clean ones."""
_OPENINGS = 200
"""Brackets that open in one line, at most: neither parser has to nest deeper."""
_ARROW_BLOCK = 1 << 20
_NEWLINE, _RETURN, _OBJECT, _OBJECT_END, _ARRAY = b"\n\r{}["
_NO_JSON_NUMBER = re.compile(rb"[:,\[\s]-?(?:NaN|Inf)")
_WHOLE_NEGATIVE_ZERO = re.compile(rb"-0[,}\]\s]")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")

CleanLines = tuple[pa.RecordBatch, Counter[str]]
"""One row a line, and in how many lines each unknown key occurs."""


def demanding(types: pa.Schema, part: Input) -> pa.Schema:
    """``types`` in which the columns that CREATE TABLE demands of each record are not nullable (Q29)."""
    demanded = {column.name for column in part.columns} if part.complete else frozenset()
    return pa.schema([field.with_nullable(field.name not in demanded) for field in types])


def divided(lines: bytes, types: pa.Schema | None) -> Iterator[tuple[bytes, CleanLines | None]]:
    """``lines`` in pieces of whole lines, in order: as large as can be where they are clean, None for the others.

    Without ``types`` no line is clean.
    """
    found = None if types is None else clean_lines(lines, types)
    middle = lines.find(b"\n", len(lines) // 2) + 1
    if types is None or found is not None or len(lines) < _SMALLEST or middle in (0, len(lines)):
        yield lines, found
    else:
        yield from divided(lines[:middle], types)
        yield from divided(lines[middle:], types)


def clean_lines(lines: bytes, types: pa.Schema) -> CleanLines | None:
    """The lines' columns, typed as JSON has them (an instant is text); None if not all lines are clean.

    A line without a value for a column that is not nullable is not clean: its key may be there or not.
    """
    kinds = [_json_type(kind) for kind in types.types]
    body = lines.removesuffix(b"\n").removesuffix(b"\r")
    count = None if None in kinds else _objects(body)
    table = None if count is None else _parsed(body, pa.schema(list(zip(types.names, kinds, strict=True))))
    if table is None or len(table) != count:
        return None
    known = table.select(types.names).to_batches()[0]
    if known.schema.types != kinds or not all(map(_is_exact, known.columns, types.types, repeat(body))):
        return None
    if any(
        column.null_count and not types.field(name).nullable for name, column in zip(types.names, known, strict=True)
    ):
        return None
    ignored = Counter[str]()
    unknown = set(table.column_names) - set(types.names)
    if under_their_names(dict.fromkeys(unknown), types.names).keys() != unknown:
        return None
    for name in unknown:
        times = _occurrences(name, table[name], body)
        if times is None:
            return None
        ignored[name] = times
    return None if ignored and _has_no_json_number(body) else (known, ignored)


def _parsed(body: bytes, schema: pa.Schema) -> pa.Table | None:
    try:
        if not body.isascii():
            body.decode()
        return pj.read_json(
            pa.BufferReader(body),
            pj.ReadOptions(use_threads=False, block_size=_ARROW_BLOCK),
            pj.ParseOptions(schema, newlines_in_values=False, unexpected_field_behavior="infer"),
        ).combine_chunks()
    except (pa.ArrowException, UnicodeDecodeError):
        return None


def _json_type(kind: pa.DataType) -> pa.DataType | None:
    """What a column of this type is in JSON, None where Arrow does not read it exactly."""
    if pa.types.is_string(kind) or pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        return kind
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_binary(kind):
        return pa.string()
    if pa.types.is_list(kind):
        item = _json_type(kind.value_type)
        return None if item is None else pa.list_(kind.value_field.with_type(item))
    if pa.types.is_struct(kind):
        items = [_json_type(field.type) for field in kind.fields]
        return None if None in items else pa.struct([f.with_type(t) for f, t in zip(kind.fields, items, strict=True)])
    return None


def _objects(body: bytes) -> int | None:
    """How many lines there are, if each begins with ``{`` and ends with ``}``, so that no object goes over its end,
    and none nests deeply; else None."""
    text = np.frombuffer(body, np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    last, first = np.r_[ends, len(text)] - 1, np.r_[0, ends + 1]
    if not len(text) or first[-1] == len(text):
        return None
    last -= text[last] == _RETURN
    if (text[first] != _OBJECT).any() or (text[last] != _OBJECT_END).any():
        return None
    openings = (text == _OBJECT) | (text == _ARRAY)
    too_deep = np.count_nonzero(openings) - len(first) > _OPENINGS and (
        np.add.reduceat(openings, first, dtype=np.int64).max() > _OPENINGS
    )
    return None if too_deep else len(first)


def _is_exact(column: pa.Array, kind: pa.DataType, body: bytes) -> bool:
    """Doubles are in the range of ``kind`` (Arrow takes NaN for a number), and none is ``-0``, a whole number."""
    if pa.types.is_list(column.type):
        return _is_exact(column.flatten(), kind.value_type, body)
    if pa.types.is_struct(column.type):
        return all(map(_is_exact, column.flatten(), [field.type for field in kind.fields], repeat(body)))
    if not pa.types.is_floating(column.type):
        return True
    numbers = column.drop_null().to_numpy(zero_copy_only=False)
    negative_zero = bool(((numbers == 0) & np.signbit(numbers)).any())
    greatest = np.finfo(kind.to_pandas_dtype()).max
    return bool((np.abs(numbers) <= greatest).all()) and not (negative_zero and _WHOLE_NEGATIVE_ZERO.search(body))


def _has_no_json_number(body: bytes) -> bool:
    """NaN or an infinity may stand in a value of an unknown key."""
    return (b"NaN" in body or b"Inf" in body) and _NO_JSON_NUMBER.search(body) is not None


def _occurrences(key: str, values: pa.ChunkedArray, body: bytes) -> int | None:
    """In how many lines a key occurs, null or not; None where that cannot be told from other occurrences of it."""
    if not values.null_count:
        return len(values)
    if not _PLAIN_KEY.fullmatch(key) or rb"\u00" in body:
        return None
    count = len(re.findall(rb'"%s"\s*:' % key.encode(), body))
    is_flat = body.count(b"{") == len(values)
    return count if is_flat or count == len(values) - values.null_count else None
