"""What an expression of a pipeline sees where it stands, and how it becomes Spark SQL."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.columns import stored_name
from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.query import Column
from pipelines.job.atlas_pipeline.text import Doc, Items, Refused
from pipelines.job.atlas_pipeline.values import (
    Guess,
    Mixed,
    Value,
    column_value,
    conformed,
    fields_of,
    kind_of,
    literal,
    record,
    settled,
    step_into,
    unified,
    want,
)
from pipelines.job.sql.types import BIGINT, BIT, FLOAT, NULL, TEXT, Array, Record, Type

Operator = Callable[["Scope", Any], Value]
"""(where it stands, its raw argument) -> the value."""


_LONGEST = 200_000
"""Characters of Spark SQL that one expression may become; parts of it may stand there several times."""


@dataclass(slots=True)
class Shared:
    """What the expressions of one pipeline have in common.

    ``guards`` are conditions under which the document that is being read goes to the dead letter queue. ``notes`` are
    choices made where the product leaves room.
    """

    operators: Mapping[str, Operator]
    guards: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    variables: int = 0
    mentioned: frozenset[str] = frozenset()
    """The names of fields that the pipeline mentions."""
    opened: Guess | None = None
    """Where fields that nobody declared are gathered, if they are allowed."""

    def fresh(self) -> str:
        """A name that no column and no other variable has."""
        self.variables += 1
        return f"__v{self.variables}"

    def fields_of(self, columns: Iterable[Column]) -> dict[str, Value]:
        """Columns as the fields of a document, under the names that the pipeline uses for them."""
        names = {stored_name(name): name for name in sorted(self.mentioned)}
        names |= {name: name for name in self.mentioned}
        return {names.get(one.name, one.name): column_value(one) for one in columns}

    def note(self, text: str) -> None:
        """Keep a note, once."""
        if text not in self.notes:
            self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that an expression sees.

    ``fields`` are the document's. ``meta`` are what
    ``{$meta: ..}`` gives, and the fields under which the product adds it to documents.
    """

    shared: Shared
    fields: Mapping[str, Value]
    meta: Mapping[str, Value] = field(default_factory=dict)
    variables: Mapping[str, Value] = field(default_factory=dict)
    line: int | None = None

    def value(self, node: Any) -> Value:
        """The expression as Spark SQL; Refused where it cannot be."""
        value = self._value(node)
        if len(value.sql) > _LONGEST:
            raise self.refused("the expression becomes too long; compute parts of it in earlier stages")
        return value

    def _value(self, node: Any) -> Value:
        if isinstance(node, str) and node.startswith("$"):
            return self._path(node)
        if isinstance(node, Items):
            return self.array([self.value(one) for one in node])
        if isinstance(node, Doc):
            here = dataclasses.replace(self, line=node.line)
            operator = next((name for name in node if name.startswith("$")), None)
            if operator is None:
                return record([(name, here.value(one)) for name, one in node.items() if one != "$$REMOVE"])
            if len(node) > 1:
                other = next(name for name in node if name != operator)
                raise here.refused(f"{operator} and '{other}' cannot both be there; keep one")
            return here._called(operator, node[operator])
        constant = literal(node)
        if constant is None:
            raise self.refused(f"{node!r} is not a value of a document")
        return constant

    def _called(self, name: str, argument: Any) -> Value:
        found = self.shared.operators.get(name)
        if found is None:
            reason = _NEVER.get(name)
            hint = reason or did_you_mean(name, self.shared.operators).replace("known here: ", "there are ")
            raise self.refused(f"expression {name} cannot be replayed; {hint}")
        return found(self, argument)

    def refused(self, what: str) -> Refused:
        """The refusal at this place, for the caller to raise."""
        return Refused(what, self.line)

    # names

    def _path(self, text: str) -> Value:
        head, *rest = text.lstrip("$").split(".")
        if text.startswith("$$"):
            value = self._variable(head)
            return self.into(value, rest, text)
        if text in self.meta:
            return self.meta[text]
        value = self._field(head, text)
        return self.into(value, rest, text)

    def _variable(self, name: str) -> Value:
        if name in self.variables:
            return self.variables[name]
        if name in ("ROOT", "CURRENT"):
            return self.root()
        if name == "REMOVE":
            return Value("NULL", NULL, True)
        if name == "NOW":
            raise self.refused("$$NOW is the clock of the live run; take a time from the documents instead")
        raise self.refused(f"there is no variable $${name} here; {did_you_mean(name, [*self.variables, 'ROOT'])}")

    def root(self) -> Value:
        """The whole document."""
        return record(list(self.fields.items()))

    def _field(self, name: str, text: str) -> Value:
        if name in self.fields:
            return self.fields[name]
        if self.shared.opened is not None:
            return Value(quoted(name), self.shared.opened.field(name), True)
        raise self.refused(f"there is no field '{text[1:]}' here; {did_you_mean(name, self.fields)}")

    def into(self, value: Value, names: Sequence[str], text: str) -> Value:
        """What a path leads to from a value; Refused where it leads to no field. ``text`` is the path as written."""
        for name in names:
            found = step_into(value, name, self.shared.fresh)
            if found is None and self.shared.opened is not None and isinstance(value.type, Record):
                found = Value(quoted(name), self.shared.opened.field(name), True)
            if found is None:
                if kind_of(value.type) == "null":
                    return value
                known = [one for one, _ in fields_of(value)]
                raise self.refused(f"'{text}' leads nowhere: '{name}' is not declared; {did_you_mean(name, known)}")
            value = found
        return value

    def inside(self, **variables: Value) -> Scope:
        """The same place with further variables."""
        return dataclasses.replace(self, variables={**self.variables, **variables})

    # arguments

    def arguments(self, name: str, raw: Any, least: int, most: int | None = None) -> list[Any]:
        """The arguments of an operator, which takes ``least`` to ``most`` (None: any number)."""
        given = list(raw) if isinstance(raw, Items) else [raw]
        if len(given) < least or (most is not None and len(given) > most):
            raise self.refused(f"{name} has {len(given)} arguments; it takes {least if most == least else 'others'}")
        return given

    def named(self, name: str, raw: Any, needed: Sequence[str], optional: Sequence[str] = ()) -> Doc:
        """The named arguments of an operator."""
        if not isinstance(raw, Doc):
            raise self.refused(f"{name} needs a document with {', '.join(needed)}")
        for key in needed:
            if key not in raw:
                raise self.refused(f"{name} lacks '{key}'")
        for key in raw:
            if key not in needed and key not in optional:
                raise self.refused(f"{name} has no '{key}'; {did_you_mean(key, [*needed, *optional])}")
        return raw

    def constant(self, name: str, node: Any, kind: type) -> Any:
        """A literal argument of that Python type."""
        if isinstance(node, Doc) and list(node) == ["$literal"]:
            node = node["$literal"]
        if not isinstance(node, kind) or (kind is int and isinstance(node, bool)):
            raise self.refused(f"{name} can be replayed with a literal only, not with {shown(node)}")
        return node

    # kinds

    def number(self, node: Any, name: str) -> Value:
        """A number, as BIGINT or DOUBLE; null stays null."""
        return self.as_number(self.value(node), name, node)

    def as_number(self, value: Value, name: str, node: Any) -> Value:
        """The value of ``node`` as :meth:`number`."""
        want(value, FLOAT)
        kind = kind_of(value.type)
        if kind == "number":
            return value
        if kind == "null":
            return Value("CAST(NULL AS BIGINT)", BIGINT)
        raise self.mismatch(name, "a number", value, node)

    def text(self, node: Any, name: str) -> Value:
        """A text; null stays null."""
        return self.as_text(self.value(node), name, node)

    def as_text(self, value: Value, name: str, node: Any) -> Value:
        """The value of ``node`` as :meth:`text`."""
        want(value, TEXT)
        if kind_of(value.type) == "null":
            return Value("CAST(NULL AS STRING)", TEXT)
        if kind_of(value.type) != "text":
            raise self.mismatch(name, "text", value, node)
        return value

    def items(self, node: Any, name: str) -> Value:
        """An array; null stays null."""
        return self.as_items(self.value(node), name, node)

    def as_items(self, value: Value, name: str, node: Any) -> Value:
        """The value of ``node`` as :meth:`items`."""
        want(value, Array(NULL))
        if kind_of(value.type) not in ("array", "null"):
            raise self.mismatch(name, "an array", value, node)
        return value

    def mismatch(self, name: str, wanted: str, value: Value, node: Any) -> Refused:
        """The refusal of an argument of the wrong type."""
        kind = {"date": "a date", "bool": "true or false", "record": "a document", "array": "an array"}
        return self.refused(f"{name} needs {wanted}; {shown(node)} is {kind.get(k := kind_of(value.type), k)}")

    def condition(self, node: Any) -> str:
        """The truth of an expression: null, 0 and false are false, any other value is true."""
        value = self.value(node)
        want(value, BIT)
        match kind_of(value.type):
            case "bool":
                return value.sql if value.sql in ("true", "false") else f"coalesce({value.sql}, false)"
            case "number":
                return f"coalesce({value.sql} <> 0, false)"
            case "null":
                return "false"
        return f"({value.sql} IS NOT NULL)"

    def alike(self, values: Sequence[Value], name: str) -> Type:
        """The one type of several values."""
        known: Type = next((settled(one.type) for one in values if kind_of(one.type) not in ("open", "null")), NULL)
        for one in values:
            want(one, known)
        kind: Type | None = NULL
        for one in values:
            kind = None if kind is None else unified(kind, one.type)
        if kind is None:
            kinds = sorted({kind_of(one.type) for one in values})
            raise self.refused(f"{name} gives {' or '.join(kinds)}; a column has one type: convert to it")
        return kind

    def array(self, values: Sequence[Value]) -> Value:
        """An array of these values; of values of several types one whose every place has its own (:class:`Mixed`)."""
        if not values:
            return Value("array()", Array(NULL))
        kinds = {kind_of(one.type) for one in values} - {"null", "open"}
        if len(kinds) > 1:
            places = [(f"_{place}", one) for place, one in enumerate(values)]
            kinds_of_places = tuple((name, settled(one.type)) for name, one in places)
            return Value(record(places).sql, Mixed(kinds_of_places), parts=tuple(places))
        kind = self.alike(values, "an array")
        return Value(f"array({', '.join(conformed(one, kind, self.shared.fresh) for one in values)})", Array(kind))

    # failures

    def fails_if(self, condition: str) -> None:
        """An expression fails under this condition: its document goes to the dead letter queue."""
        self.shared.guards.append(condition)

    @contextmanager
    def for_each(self, array: str, variable: str) -> Iterator[None]:
        """What is translated inside is evaluated for each element of the array, and fails if it does for one."""
        before = len(self.shared.guards)
        yield
        inner = self.shared.guards[before:]
        self.shared.guards[before:] = [f"exists({array}, {variable} -> {one})" for one in inner]

    @contextmanager
    def only_if(self, condition: str) -> Iterator[None]:
        """What is translated inside is evaluated under this condition alone, and can only then fail."""
        before = len(self.shared.guards)
        yield
        inner = self.shared.guards[before:]
        self.shared.guards[before:] = [f"({condition} AND {one})" for one in inner]


def shown(node: Any) -> str:
    """A node as a message names it."""
    match node:
        case str():
            return f"'{node}'"
        case Doc():
            return f"{{{next(iter(node), '')}: ..}}"
        case Items():
            return "[..]"
    return repr(node)


_CODE = "it runs code or asks the outside world; write its results into the log and read them from there"
_NEVER = {
    "$function": _CODE,
    "$accumulator": _CODE,
    "$rand": "chance gives another result each time; leave it out",
    "$sampleRate": "chance gives another result each time; leave it out",
    "$currentDate": "it is the clock of the live run; take a time from the documents instead",
    "$toObjectId": "object ids are text here; leave it out",
    "$bsonSize": "the size of a document's BSON form is not in the log; leave it out",
    "$createObjectId": "it is another id each time; leave it out",
}
