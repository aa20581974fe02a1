"""One SELECT as a relation, in the order of Q41: FROM, analytic functions, WHERE, GROUP BY, HAVING, select list."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from pipelines.core.expressions import quoted
from pipelines.core.steps import SYSTEM_TIMESTAMP, Computed, Filtered, Projected, Rows, Windowed
from pipelines.job.sql.calls import called, is_timestamp, path_of
from pipelines.job.sql.from_clause import Check, Find, joined
from pipelines.job.sql.grammar.syntax import Item, Select
from pipelines.job.sql.grouped import GroupScope, aggregates_of, grouped
from pipelines.job.sql.names import RowScope, fields
from pipelines.job.sql.relation import Frame, Relation
from pipelines.job.sql.types import Record, Typed
from pipelines.job.sql.values import Values, kept


def selected(select: Select, find: Find, check: Check, values: Values) -> Relation:
    """The rows that the SELECT gives."""
    return _Selected(select, find, check, values).build()


class _Selected:
    def __init__(self, select: Select, find: Find, check: Check, values: Values) -> None:
        self.select = select
        self.values = values
        self.places = values.places
        self.frame: Frame = joined(select, find, check, values)

    def build(self) -> Relation:
        select = self.select
        rows = self._filtered(self.frame.rows, select.where, self.frame.scope(self.places))
        scope: RowScope | GroupScope
        having = [] if select.having is None else [select.having]
        if select.group_by or any(_has_aggregate(one) for one in (*(item.value for item in select.items), *having)):
            found = grouped(select, replace(self.frame, rows=rows), self.values)
            rows, scope = found.rows, found.scope
        else:
            scope = self.frame.scope(self.places)
        rows = self._filtered(rows, select.having, scope)
        return self._projected(rows, scope)

    def _filtered(self, rows: Rows, condition: exp.Expr | None, scope: RowScope | GroupScope) -> Rows:
        if condition is None:
            return rows
        typed = self.values.condition(condition, scope)
        return Filtered(kept(rows, [typed]), typed.sql)

    def _projected(self, rows: Rows, scope: RowScope | GroupScope) -> Relation:
        columns: dict[str, tuple[str, Typed]] = {}
        for item in self.select.items:
            for name, typed in self._columns(item, scope):
                if _is_unnamed(item):
                    name = _free_name(name, columns)
                if name.lower() not in columns:
                    columns[name.lower()] = name, typed
                elif not _is_star(item.value) and columns[name.lower()][1].sql != typed.sql:
                    raise self.places.refused(item.start, f"two columns are called '{name}': give one an alias")
        if not columns:
            raise self.places.refused(self.select.start, "the SELECT gives no column")
        rows = kept(rows, (typed for _, typed in columns.values()))
        computed = tuple(
            Computed(name, typed.sql) for name, typed in columns.values() if name.lower() != SYSTEM_TIMESTAMP
        )
        if not _is_all(rows, computed):
            rows = Projected(rows, computed)
        return Relation(rows, fields([(name, one.type) for name, one in columns.values()]), self.frame.is_reference)

    def _columns(self, item: Item, scope: RowScope | GroupScope) -> Iterator[tuple[str, Typed]]:
        if _is_star(item.value):
            yield from self._star(item, scope)
            return
        typed = self.values.of(item.value, scope)
        name = item.alias.name if item.alias is not None else _own_name(item.value)
        at = item.alias or item.start
        if name.startswith("__"):
            raise self.places.refused(at, f"'{name}' begins with two underscores: choose another alias")
        if name.lower() == SYSTEM_TIMESTAMP and typed.sql != SYSTEM_TIMESTAMP:
            raise self.places.refused(at, f"'{name}' is the name of the time that each row has: choose another alias")
        yield SYSTEM_TIMESTAMP if name.lower() == SYSTEM_TIMESTAMP else name, typed

    def _star(self, item: Item, scope: RowScope | GroupScope) -> Iterator[tuple[str, Typed]]:
        """``*``, ``source.*`` and ``record.*`` (Q23)."""
        if isinstance(scope, GroupScope):
            raise self.places.refused(item.start, "* does not go with GROUP BY: name the group keys and aggregates")
        if isinstance(item.value, exp.Star):
            if len(scope.sources) > 1:
                raise self.places.refused(
                    item.start, f"* does not go with JOIN and APPLY: write {scope.sources[0].name}.*"
                )
            owner = scope.sources[0]
        else:
            path = path_of(item.value.this)
            found = scope.source(path[0]) if len(path) == 1 else None
            if found is None:
                yield from self._properties(item.value.this, scope)
                return
            owner = found
        for one in owner.fields:
            yield one.name, one.typed(owner.prefix)

    def _properties(self, node: exp.Expr, scope: RowScope) -> Iterator[tuple[str, Typed]]:
        record = self.values.of(node, scope)
        if not isinstance(record.type, Record):
            raise self.places.refused(node, ".* takes a source or a record whose properties are declared (STRUCT)")
        for name, _ in record.type.properties:
            yield name, scope.within(record, (name,), node)


def _own_name(node: exp.Expr) -> str:
    """What an expression without alias is called: the last part of its path, its function, or ``column`` (Q25)."""
    if isinstance(node, exp.Column):
        return node.name
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        return node.expression.name
    if is_timestamp(node):
        return "Timestamp"
    return called(node) or "column"


def _is_unnamed(item: Item) -> bool:
    """Does neither an alias nor a column name it?"""
    return item.alias is None and not isinstance(item.value, exp.Column | exp.Dot | exp.Star)


def _free_name(wanted: str, taken: Container[str]) -> str:
    """The name, with a number where another column is called so in any case."""
    name, count = wanted, 1
    while name.lower() in taken:
        count += 1
        name = f"{wanted}_{count}"
    return name


def _is_star(node: exp.Expr) -> bool:
    return isinstance(node, exp.Star) or (isinstance(node, exp.Dot) and isinstance(node.expression, exp.Star))


def _has_aggregate(node: exp.Expr) -> bool:
    return next(aggregates_of(node), None) is not None


def _is_all(rows: Rows, columns: Sequence[Computed]) -> bool:
    """Are these all columns of a window step, as they are?"""
    if not isinstance(rows, Windowed):
        return False
    names = [*(one.name for one in rows.keys), *(one.name for one in rows.aggregates)]
    return [(one.name, one.expression) for one in columns] == [(name, quoted(name)) for name in names]
