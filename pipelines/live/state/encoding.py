"""The saved state of the live run as bytes: values of a closed set of classes, and nothing that could run.

One line names the encoding and its schema. Then come the length of a JSON tree, the tree, and the binary parts that it
refers to (Arrow streams and bytes). The tree is by the column: many values of one kind are one node, objects of one
class a node with a column for each field. An object or dictionary that occurs again is a reference to its first
occurrence. The job and its inputs are those of the reader. Reading builds objects of the listed classes and sets their
fields: it imports nothing and calls nothing that the bytes name.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import chain, count, islice
from typing import Any

import pyarrow as pa

from pipelines.core.errors import TailraceError
from pipelines.core.model import Input
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import pack, unpack

_PLAIN = frozenset({type(None), bool, int, float, str})
_SEQUENCES = {kind.__name__: kind for kind in (tuple, list, set, frozenset, deque)}
_MAPPINGS = {kind.__name__: kind for kind in (dict, Counter)}


class NotOurEncoding(Exception):
    """The bytes were not written by :meth:`Encoding.encode` with these classes."""


class Encoding:
    """Encodes objects of ``classes``: dataclasses, named tuples and errors."""

    def __init__(self, classes: Sequence[type]) -> None:
        self._classes = tuple(classes)
        self._fields = {one: _field_names(one) for one in classes}
        self._numbers = {one: number for number, one in enumerate(classes)}

    @cached_property
    def schema(self) -> str:
        """Changes with the classes and their fields: bytes of another schema are refused."""
        described = [
            [one.__name__, [[name, str(one.__annotations__.get(name))] for name in names]]
            for one, names in self._fields.items()
        ]
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]

    def encode(self, value: Any) -> bytes:
        """The value as bytes; :class:`TypeError` for a class that is not listed."""
        writer = _Writer(self._numbers, self._fields)
        tree = writer.column([value])
        sizes = [len(part) for part in writer.parts]
        head = json.dumps([sizes, tree], separators=(",", ":")).encode()
        return b"".join([self._first_line, len(head).to_bytes(8, "big"), head, *writer.parts])

    def decode(self, body: bytes, compiled: CompiledJob) -> Any:
        """What :meth:`encode` was given, with ``compiled`` in place of its job; :class:`NotOurEncoding` for other
        bytes."""
        start = len(self._first_line) + 8
        if not body.startswith(self._first_line):
            raise NotOurEncoding("it does not begin with the name of this encoding and its schema")
        try:
            end = start + int.from_bytes(body[start - 8 : start], "big")
            sizes, tree = json.loads(body[start:end])
            parts = []
            for size in sizes:
                parts.append(body[end : end + size])
                end += size
            if end != len(body):
                raise NotOurEncoding(f"it has {len(body)} bytes where {end} are named")
            [value] = _Reader(self._classes, self._fields, parts, compiled).column(tree)
            return value
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
            raise NotOurEncoding(f"{type(error).__name__}: {error}") from None

    @property
    def _first_line(self) -> bytes:
        return f"tailrace live state {self.schema}\n".encode()


def _field_names(kind: type) -> tuple[str, ...]:
    if is_dataclass(kind):
        return tuple(one.name for one in fields(kind))
    if issubclass(kind, TailraceError):
        return ("args", "what", "hint", "file", "line", "key")
    if issubclass(kind, Exception):
        return ("args",)
    named_tuple: Any = kind
    return tuple(named_tuple._fields)


class _Writer:
    def __init__(self, numbers: dict[type, int], names: dict[type, tuple[str, ...]]) -> None:
        self._numbers, self._names = numbers, names
        self._seen: dict[int, int] = {}
        self.parts: list[bytes] = []

    def column(self, values: Sequence[Any]) -> list[Any]:
        """A node for the values."""
        kinds = set(map(type, values))
        if kinds <= _PLAIN:
            return ["plain", values]
        if len(kinds) == 1:
            (kind,) = kinds
            if kind in self._numbers or kind in _MAPPINGS.values():
                return self._objects(kind, values)
            if kind in _SEQUENCES.values():
                lengths = set(map(len, values))
                if kind is tuple and len(lengths) == 1:
                    return ["rows", len(values), *map(self.column, zip(*values, strict=True))]
                return [kind.__name__, list(map(len, values)), self.column(list(chain.from_iterable(values)))]
            return self._others(values)
        return ["mixed", *(self.column([value]) for value in values)]

    def _objects(self, kind: type, values: Sequence[Any]) -> list[Any]:
        """Objects that may occur again: each has a number, in order."""
        if issubclass(kind, tuple):
            return ["object", self._numbers[kind], len(values), *map(self.column, zip(*values, strict=True))]
        own = list(map(id, values))
        if len(values) == 1 and own[0] in self._seen:
            return ["again", self._seen[own[0]]]
        if len(set(own)) < len(own) or not self._seen.keys().isdisjoint(own):
            return ["mixed", *(self.column([value]) for value in values)]
        self._seen.update(zip(own, count(len(self._seen))))
        if kind not in self._numbers:
            items = [list(chain.from_iterable(part)) for part in (values, (one.values() for one in values))]
            return [kind.__name__, list(map(len, values)), *map(self.column, items)]
        columns = ([getattr(value, name) for value in values] for name in self._names[kind])
        return ["object", self._numbers[kind], len(values), *map(self.column, columns)]

    def _others(self, values: Sequence[Any]) -> list[Any]:
        match values[0]:
            case CompiledJob():
                return ["job", len(values)]
            case Input():
                return ["input", [value.name for value in values]]
            case Decimal():
                return ["decimal", list(map(str, values))]
            case datetime():
                return ["datetime", [value.isoformat() for value in values]]
            case date():
                return ["date", [value.isoformat() for value in values]]
            case timedelta():
                return ["timedelta", [(value.days, value.seconds, value.microseconds) for value in values]]
            case bytes():
                return ["bytes", list(map(self._part, values))]
            case pa.Table():
                return ["table", [self._part(pack(value)) for value in values]]
            case pa.DataType():
                schemas = (pa.schema([("one", value)]).serialize() for value in values)
                return ["type", [self._part(schema.to_pybytes()) for schema in schemas]]
        raise TypeError(f"the state has a value of {type(values[0])}, which its encoding does not list")

    def _part(self, body: bytes) -> int:
        self.parts.append(body)
        return len(self.parts) - 1


class _Reader:
    def __init__(
        self,
        classes: tuple[type, ...],
        names: dict[type, tuple[str, ...]],
        parts: Sequence[bytes],
        compiled: CompiledJob,
    ) -> None:
        self._classes, self._names, self._parts, self._compiled = classes, names, parts, compiled
        self._seen: list[Any] = []

    def column(self, node: list[Any]) -> Sequence[Any]:
        """The values of a node."""
        tag, rest = node[0], node[1:]
        if tag == "plain":
            return list(rest[0])
        if tag == "mixed":
            return [value for one in rest for value in self.column(one)]
        if tag == "again":
            return [self._seen[rest[0]]]
        if tag == "rows":
            return self._rows(rest[0], rest[1:])
        if tag in _SEQUENCES:
            values = iter(self.column(rest[1]))
            return [_SEQUENCES[tag](islice(values, length)) for length in rest[0]]
        if tag in _MAPPINGS:
            found: list[dict[Any, Any]] = [_MAPPINGS[tag]() for _ in rest[0]]
            self._seen += found
            items = zip(self.column(rest[1]), self.column(rest[2]), strict=True)
            for one, length in zip(found, rest[0], strict=True):
                one.update(dict(islice(items, length)))
            return found
        return self._objects(self._classes[rest[0]], *rest[1:]) if tag == "object" else self._others(tag, rest[0])

    def _rows(self, size: int, columns: Sequence[list[Any]]) -> list[tuple[Any, ...]]:
        return list(zip(*map(self.column, columns), strict=True)) if columns else [()] * size

    def _objects(self, kind: type, size: int, *columns: list[Any]) -> list[Any]:
        if issubclass(kind, tuple):
            return [kind(*values) for values in self._rows(size, columns)]
        found = [kind.__new__(kind) for _ in range(size)]
        self._seen += found
        for name, column in zip(self._names[kind], columns, strict=True):
            for one, value in zip(found, self.column(column), strict=True):
                # the class may be frozen
                object.__setattr__(one, name, value)
        return found

    def _others(self, tag: str, values: Any) -> list[Any]:
        match tag:
            case "job":
                return [self._compiled] * values
            case "input":
                return list(map(self._compiled.job.input, values))
            case "decimal":
                return list(map(Decimal, values))
            case "datetime":
                return list(map(datetime.fromisoformat, values))
            case "date":
                return list(map(date.fromisoformat, values))
            case "timedelta":
                return [timedelta(*value) for value in values]
            case "bytes":
                return [self._parts[value] for value in values]
            case "table":
                tables = [unpack(self._parts[value]) for value in values]
                for table in tables:
                    table.validate()
                return tables
            case "type":
                return [pa.ipc.read_schema(pa.py_buffer(self._parts[value])).field("one").type for value in values]
        raise NotOurEncoding(f"it names a kind of value that there is not: {tag}")
