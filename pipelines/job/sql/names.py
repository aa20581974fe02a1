"""The names that expressions see: sources of a SELECT, their columns, and the path to each in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from pipelines.core.columns import is_called
from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.steps import SYSTEM_TIMESTAMP
from pipelines.job.sql.calls import (
    arguments,
    called,
    is_aggregate,
    is_analytic,
    is_timestamp,
    is_window,
    is_window_id,
    path_of,
)
from pipelines.job.sql.expressions.values import text
from pipelines.job.sql.places import Places, offset
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.spark_types import spark_type
from pipelines.job.sql.types import BIGINT, DATETIME, TEXT, Array, Map, Record, Type, Typed

PROCESSED = "eventprocessedutctime"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation. ``column`` is what the row calls it; ``cast``: it has another type of Spark than
    ``type``; ``metadata``: records of whole rows leave it out (Q57)."""

    name: str
    type: Type
    column: str
    cast: bool = False
    metadata: bool = False

    def typed(self, prefix: tuple[str, ...]) -> Typed:
        """The column where the row that it belongs to stands at ``prefix``."""
        sql = ".".join(map(quoted, (*prefix, self.column)))
        return Typed(f"CAST({sql} AS {spark_type(self.type)})" if self.cast else sql, self.type)


def fields(columns: Sequence[tuple[str, Type]]) -> tuple[Field, ...]:
    """Columns that are called as they are named."""
    return tuple(Field(name, type_, name) for name, type_ in columns)


EVENT_FIELDS = (
    Field("PartitionId", BIGINT, "input_partition", cast=True, metadata=True),
    Field("EventEnqueuedUtcTime", DATETIME, "arrival_time", metadata=True),
)
"""What an event hub adds to each event (Q24); the third, EventProcessedUtcTime, is in no log."""


@dataclass(frozen=True, slots=True)
class Source:
    """One source of a SELECT under the name it has there; its row stands at ``prefix`` of the relation's row."""

    name: str
    fields: tuple[Field, ...]
    prefix: tuple[str, ...] = ()
    has_time: bool = True
    is_element: bool = False
    """Is it an element of APPLY, whose name alone is the whole element?"""

    def field(self, name: str) -> Field | None:
        """The column of that name in any case, or of the name that it is stored under."""
        return next((one for one in self.fields if is_called(one.name, name)), None)

    def under(self, name: str) -> Source:
        """The same source in a row that is the struct ``name`` of a larger row."""
        return replace(self, prefix=(name, *self.prefix))

    @property
    def time(self) -> str:
        return ".".join(map(quoted, (*self.prefix, SYSTEM_TIMESTAMP))) if self.prefix else SYSTEM_TIMESTAMP

    @property
    def record(self) -> Typed:
        """The whole row as a record (Q57)."""
        kept = [(one.name, one.typed(self.prefix)) for one in self.fields if not one.metadata]
        parts = [f"{text(name)}, {typed.sql}" for name, typed in kept]
        return Typed(f"named_struct({', '.join(parts)})", Record(tuple((name, one.type) for name, one in kept)))


Shape = tuple[object, ...]


@dataclass(frozen=True)
class RowScope:
    """What an expression over one row of the joined sources sees.

    ``values``: what has been computed already, by the :meth:`shape` of the call.
    """

    places: Places
    sources: tuple[Source, ...]
    values: Mapping[Shape, Typed] = field(default_factory=dict)
    time: str = SYSTEM_TIMESTAMP
    timeless: str = ""
    """Why System.Timestamp() has no meaning here, if it has none."""

    def place(self, node: exp.Expr) -> tuple[int, int]:
        return self.places.place(offset(node))

    def find(self, path: tuple[str, ...], node: exp.Expr) -> tuple[Source, Field, tuple[str, ...]]:
        """The source and the column that the path begins with, and the rest of the path."""
        owner = self.source(path[0])
        if owner is not None and len(path) > 1:
            found = owner.field(path[1])
            if found is None:
                raise self._unknown(path[1], node, [owner])
            return owner, found, path[2:]
        if owner is not None and owner.is_element:
            element = Record(tuple((one.name, one.type) for one in owner.fields))
            return replace(owner, prefix=owner.prefix[:-1]), Field(owner.name, element, owner.prefix[-1]), ()
        owners = [(source, one) for source in self.sources if (one := source.field(path[0])) is not None]
        if len(owners) > 1:
            choice = " or ".join(f"{source.name}.{path[0]}" for source, _ in owners)
            raise self.places.refused(node, f"column '{path[0]}' is ambiguous: write {choice}")
        if not owners:
            raise self._unknown(path[0], node, self.sources)
        return *owners[0], path[1:]

    def source(self, name: str) -> Source | None:
        """The source of that name in any case."""
        return next((one for one in self.sources if one.name.lower() == name.lower()), None)

    def between(self, node: exp.Expr) -> tuple[Source, Source] | None:
        """The two sources of ``DATEDIFF(unit, a, b)``, which asks for the times of their rows (Q9)."""
        given = arguments(node) if called(node) == "DATEDIFF" else []
        paths = [path_of(one) for one in given[1:]]
        found = [self.source(path[0]) for path in paths if len(path) == 1]
        if len(given) != 3 or len(found) != 2 or found[0] is None or found[1] is None:
            return None
        for one in found:
            if one is not None and not one.has_time:
                raise self.places.refused(node, f"{one.name} has no time: DATEDIFF takes streams or columns")
        return found[0], found[1]

    def _unknown(self, name: str, node: exp.Expr, sources: Sequence[Source]) -> Refused:
        if name.lower() == PROCESSED:
            return self.places.refused(
                node, "EventProcessedUtcTime is a wall clock that no log holds: use EventEnqueuedUtcTime"
            )
        known = [one.name for source in sources for one in source.fields]
        return self.places.refused(node, f"there is no column '{name}'; {did_you_mean(name, known)}")

    def resolve(self, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """A column, or what the path leads to in records (Q42), without case."""
        owner = self.source(path[0])
        if len(path) == 1 and node.parent is not None and self.between(node.parent) is not None:
            assert owner is not None
            return Typed(owner.time, DATETIME)
        if len(path) == 1 and owner is None and not any(source.field(path[0]) for source in self.sources):
            content = _in_double_quotes(node)
            if content is not None:
                return Typed(text(content), TEXT)
        source, found, rest = self.find(path, node)
        return self.within(found.typed(source.prefix), rest, node)

    def within(self, record: Typed, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """What ``path`` leads to in a record."""
        value = record
        for name in path:
            match value.type:
                case Record(properties):
                    known = [one for one, _ in properties]
                    found = next((one for one in properties if is_called(one[0], name)), None)
                    if found is None:
                        raise self.places.refused(
                            node, f"the record has no property '{name}'; {did_you_mean(name, known)}"
                        )
                    value = replace(value, sql=f"{value.sql}.{quoted(found[0])}", type=found[1])
                case Map(element):
                    value = replace(value, sql=f"try_element_at({value.sql}, {text(name)})", type=element)
                case Array():
                    raise self.places.refused(
                        node, f"'{name}' is taken from an array: use GetArrayElement or CROSS APPLY GetArrayElements"
                    )
                case _:
                    raise self.places.refused(
                        node, f"'{name}' is taken from what is no record: declare the column as STRUCT in the job file"
                    )
        return value

    def call(self, node: exp.Expr) -> Typed | None:
        """What has been computed for this node; Refused where it cannot stand here."""
        if is_timestamp(node):
            if self.timeless:
                raise self.places.refused(node, f"System.Timestamp() has no meaning {self.timeless}")
            return Typed(self.time, DATETIME)
        if is_window_id(node):
            raise self.places.refused(node, "System.Window().Id stands where a SELECT groups by Windows(..)")
        if not called(node):
            return None
        if self.values and (known := self.values.get(self.shape(node))) is not None:
            return known
        if is_analytic(node):
            raise self.places.refused(
                node, f"{called(node)} OVER cannot stand here: compute it in an earlier step and use its column"
            )
        if is_aggregate(node):
            raise self.places.refused(
                node, f"{called(node)} stands in the select list or HAVING of a SELECT that groups by a window"
            )
        if is_window(node):
            raise self.places.refused(node, f"{called(node)} stands in GROUP BY only")
        return None

    def shape(self, node: exp.Expr) -> Shape:
        """What the node computes: equal for expressions that differ in case, parentheses and names of sources."""
        if isinstance(node, exp.Paren):
            return self.shape(node.this)
        if path_of(node):
            names = tuple(_names(node))
            try:
                source, found, rest = self.find(names, node)
            except Refused:  # a unit, or what is refused when it is translated
                return ("name", *(name.lower() for name in names))
            return ("column", source.name.lower(), found.name.lower(), *(name.lower() for name in rest))
        if isinstance(node, exp.Literal):
            return ("literal", node.is_string, node.this)
        return (type(node).__name__, *(part for key in sorted(node.args) for part in self._shapes(node.args[key])))

    def _shapes(self, part: object) -> Iterator[object]:
        for one in part if isinstance(part, list) else [part]:
            yield self.shape(one) if isinstance(one, exp.Expr) else one.lower() if isinstance(one, str) else one


def _names(node: exp.Expr) -> Iterator[str]:
    """The names of a column's path as they are written."""
    if isinstance(node, exp.Dot):
        yield from _names(node.this)
        yield node.expression.name
    elif isinstance(node, exp.Column):
        yield from (part.name for part in node.parts)


def _in_double_quotes(node: exp.Expr) -> str | None:
    """The text of ``"n"``, which is a text if no column is called so (Q21)."""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier) and node.this.meta.get("mark") == '"':
        return node.name
    return None
