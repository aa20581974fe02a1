"""Aggregates of a script: over a window's rows, and over the rows in reach of a row (Q51 to Q58)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from pipelines.core.query import Aggregate, SortKey
from pipelines.job.sql.calls import arguments, called, path_of, whole
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.names import RowScope
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.types import BIGINT, DATETIME, FLOAT, NULL, TEXT, Array, Record, Type, Typed
from pipelines.job.sql.values import Values

_OF_NUMBERS = {"STDEV": "stddev_samp", "STDEVP": "stddev_pop", "VAR": "var_samp", "VARP": "var_pop", "AVG": "avg"}
_PERCENTILES = {"PERCENTILE_CONT": "percentile_cont", "PERCENTILE_DISC": "percentile_disc"}


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregate, the type of its value, and the values that it reads of each row."""

    aggregate: Aggregate
    type: Type
    reads: tuple[Typed, ...] = ()


def aggregated(node: exp.Expr, name: str, scope: RowScope, values: Values) -> Aggregated:
    """The aggregate that the call stands for, over rows that ``scope`` describes."""
    return _Call(node, name, scope, values).build()


@dataclass(frozen=True, slots=True)
class _Call:
    node: exp.Expr
    name: str
    scope: RowScope
    values: Values

    def refused(self, what: str) -> Refused:
        return self.scope.places.refused(self.node, f"{called(self.node)} {what}")

    def build(self) -> Aggregated:
        function = called(self.node)
        over = self.node if isinstance(self.node, Over) else None
        ordered = function in ("TOPONE", "COLLECTTOP") or function in _PERCENTILES
        if ordered and (over is None or not over.args.get("order_by")):
            raise self.refused("needs OVER (ORDER BY ..)")
        if over is not None and over.args.get("order_by") and not ordered:
            raise self.refused("takes no ORDER BY")
        special: dict[str, Callable[[], Aggregated]] = {
            "COUNT": self._count,
            "SUM": self._sum,
            "MIN": self._extreme,
            "MAX": self._extreme,
            "COLLECT": self._collect,
            "TOPONE": self._top_one,
            "COLLECTTOP": self._collect_top,
        }
        if function in special:
            return special[function]()
        return self._percentile() if function in _PERCENTILES else self._of_numbers()

    def _only(self) -> exp.Expr:
        given = arguments(self.node)
        if len(given) != 1 or isinstance(given[0], exp.Star):
            raise self.refused("takes one argument, an expression")
        if isinstance(given[0], exp.Distinct):
            raise self.refused("takes no DISTINCT, which goes with COUNT alone")
        return given[0]

    def _of(self, function: str, read: Typed, type_: Type, *, distinct: bool = False) -> Aggregated:
        return Aggregated(Aggregate(self.name, function, read.sql, distinct), type_, (read,))

    def _count(self) -> Aggregated:
        given = arguments(self.node)
        if len(given) != 1:
            raise self.refused("takes one argument: *, an expression or the name of a source")
        (one,) = given
        distinct = isinstance(one, exp.Distinct)
        if isinstance(one, exp.Distinct):
            if isinstance(self.node, Over):
                raise self.refused("(DISTINCT ..) does not go with OVER")
            if len(one.expressions) != 1:
                raise self.refused("(DISTINCT ..) takes one expression")
            one = one.expressions[0]
        whole_row = self._source_record(one)
        if not distinct and (isinstance(one, exp.Star) or whole_row is not None):
            return Aggregated(Aggregate(self.name, "count"), BIGINT)
        return self._of("count", whole_row or self.values.of(one, self.scope), BIGINT, distinct=distinct)

    def _source_record(self, node: exp.Expr) -> Typed | None:
        """``COUNT(source)`` counts rows (Q51)."""
        path = path_of(node)
        source = self.scope.source(path[0]) if len(path) == 1 else None
        if source is None or any(one.field(path[0]) for one in self.scope.sources):
            return None
        return source.record

    def _sum(self) -> Aggregated:
        read = self.values.number(self._only(), self.scope)
        return self._of("sum", read, read.type)

    def _of_numbers(self) -> Aggregated:
        return self._of(_OF_NUMBERS[called(self.node)], self.values.number(self._only(), self.scope), FLOAT)

    def _extreme(self) -> Aggregated:
        """MIN and MAX: a text that is not cast to nvarchar(max) is a float (Q53)."""
        one = self._only()
        read = self.values.of(one, self.scope)
        if read.type in (TEXT, NULL) and not isinstance(one, exp.Cast):
            read = self.values.number(one, self.scope)
        if isinstance(read.type, Array | Record):
            raise self.refused("takes numbers, datetimes, bits and texts that are CAST to nvarchar(max)")
        return self._of(called(self.node).lower(), read, read.type)

    def _collect(self) -> Aggregated:
        read = self._whole_row() if not arguments(self.node) else self.values.of(self._only(), self.scope)
        return self._of("collect", read, Array(read.type))

    def _whole_row(self) -> Typed:
        if len(self.scope.sources) != 1:
            raise self.refused("of whole rows needs a single source: name an expression, or join in an earlier step")
        return self.scope.sources[0].record

    def _order(self) -> tuple[tuple[SortKey, ...], tuple[Typed, ...]]:
        given = self.node.args["order_by"]
        read = tuple(self.values.sortable(one.this, self.scope) for one in given)
        keys = tuple(SortKey(typed.sql, bool(one.args["desc"])) for one, typed in zip(given, read, strict=True))
        return keys, read

    def _top_one(self) -> Aggregated:
        read = self._whole_row() if not arguments(self.node) else self.values.of(self._only(), self.scope)
        keys, sorted_by = self._order()
        return Aggregated(Aggregate(self.name, "top_one", read.sql, order_by=keys), read.type, (read, *sorted_by))

    def _collect_top(self) -> Aggregated:
        given = arguments(self.node)
        if not 1 <= len(given) <= 2:
            raise self.refused("takes how many rows it collects, and an expression")
        limit = whole(given[0], self.scope.places)
        if limit < 1:
            raise self.refused("collects one row at least")
        read = self.values.of(given[1], self.scope) if len(given) == 2 else self._whole_row()
        keys, sorted_by = self._order()
        type_ = Array(Record((("rank", BIGINT), ("value", read.type))))
        aggregate = Aggregate(self.name, "collect_top", read.sql, order_by=keys, limit=limit)
        return Aggregated(aggregate, type_, (read, *sorted_by))

    def _percentile(self) -> Aggregated:
        function = called(self.node)
        fraction = self._only()
        number = float(fraction.name) if isinstance(fraction, exp.Literal) and not fraction.is_string else -1.0
        if not 0.0 <= number <= 1.0:
            raise self.refused("takes a fraction from 0 to 1, such as PERCENTILE_CONT(0.95)")
        ordered = self.node.args["order_by"]
        if len(ordered) != 1:
            raise self.refused("takes one column in ORDER BY")
        read = self.values.sortable(ordered[0].this, self.scope)
        if function == "PERCENTILE_CONT":
            if read.type == DATETIME:
                raise self.refused("takes numbers, not a datetime: use PERCENTILE_DISC")
            read = self.values.cast(ordered[0].this, "float", self.scope)
        order = (SortKey(read.sql, True),) if ordered[0].args["desc"] else ()
        aggregate = Aggregate(self.name, _PERCENTILES[function], read.sql, parameter=number, order_by=order)
        return Aggregated(aggregate, read.type, (read,))
