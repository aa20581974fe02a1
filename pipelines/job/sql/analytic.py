"""LAG, LAST, ISFIRST and aggregates OVER the rows of a duration (Q61 to Q78)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from pipelines.core.steps import Analytic
from pipelines.job.sql.aggregates import aggregated
from pipelines.job.sql.calls import AGGREGATES, arguments, called, length_us, whole
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.names import RowScope
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.spark_types import spark_type
from pipelines.job.sql.types import BIGINT, FLOAT, NULL, Type, Typed
from pipelines.job.sql.values import Values, as_type, common_type


@dataclass(frozen=True, slots=True)
class Analysis:
    """An analytic function, the type of its value, and the values that it reads of each row."""

    function: Analytic
    type: Type
    reads: tuple[Typed, ...]


def analytic(node: exp.Expr, name: str, scope: RowScope, values: Values, partition: Iterable[Typed] = ()) -> Analysis:
    """The function that the call stands for; ``partition``: what the whole step is computed apart by (Q78)."""
    call = _Call(node, scope, values)
    partition_by = (*partition, *call.partition_by())
    kind = called(node)
    if kind == "ISFIRST":
        found = call.is_first(name)
    elif kind in ("LAG", "LAST"):
        found = call.lookup(name)
    else:
        found = call.aggregate(name)
    when = call.when()
    function = replace(
        found.function,
        partition_by=tuple(dict.fromkeys(one.sql for one in partition_by)),
        when=when.sql if when else None,
    )
    return Analysis(function, found.type, (*found.reads, *partition_by, *((when,) if when else ())))


@dataclass(frozen=True, slots=True)
class _Call:
    node: exp.Expr
    scope: RowScope
    values: Values

    def refused(self, what: str) -> Refused:
        return self.scope.places.refused(self.node, f"{called(self.node)} {what}")

    def partition_by(self) -> tuple[Typed, ...]:
        return tuple(self.values.of(one, self.scope) for one in self.node.args.get("partition_by") or ())

    def when(self) -> Typed | None:
        condition = self.node.args.get("when")
        return None if condition is None else self.values.condition(condition, self.scope)

    def _within_us(self) -> int:
        limit = self.node.args.get("limit")
        if not isinstance(self.node, Over) or limit is None:
            raise self.refused("needs OVER (LIMIT DURATION(unit, length)): how far back it may look")
        given = arguments(limit)
        if len(given) != 2:
            raise self.scope.places.refused(limit, "DURATION takes a unit and a length, such as DURATION(minute, 5)")
        return length_us(given[0], given[1], self.scope.places)

    def is_first(self, name: str) -> Analysis:
        given = arguments(self.node)
        if len(given) != 2:
            raise self.refused("takes a unit and a length, such as ISFIRST(minute, 10)")
        if self.node.args.get("limit") is not None or self.node.args.get("order_by"):
            raise self.refused("takes PARTITION BY and WHEN alone in OVER: its interval stands in its arguments")
        within_us = length_us(given[0], given[1], self.scope.places)
        return Analysis(Analytic(name, "is_first", within_us=within_us), BIGINT, ())

    def lookup(self, name: str) -> Analysis:
        """LAG(x, n, default) and LAST(x, default)."""
        within_us = self._within_us()
        if self.node.args.get("order_by"):
            raise self.refused("takes no ORDER BY: rows have the order of their time")
        function = called(self.node)
        given = arguments(self.node)
        most = 3 if function == "LAG" else 2
        if not 1 <= len(given) <= most:
            raise self.refused(f"takes 1 to {most} arguments")
        read = self._argument(given[0])
        offset = whole(given[1], self.scope.places) if function == "LAG" and len(given) > 1 else 1
        if offset < 1:
            raise self.refused("looks back by one row at least")
        default = self._default(given[most - 1], read) if len(given) == most else None
        found = Analytic(
            name,
            "lag" if function == "LAG" else "last",
            read.sql,
            offset,
            None if default is None else default.sql,
            within_us=within_us,
        )
        return Analysis(found, read.type, (read, *((default,) if default else ())))

    def _argument(self, one: exp.Expr) -> Typed:
        if not isinstance(one, exp.Star):
            return self.values.of(one, self.scope)
        if len(self.scope.sources) != 1:
            raise self.refused("(*) needs a single source")
        return self.scope.sources[0].record

    def _default(self, node: exp.Expr, read: Typed) -> Typed:
        """The default, which has the type of what is looked up (Q69)."""
        typed = self.values.of(node, self.scope)
        common = common_type(read.type, typed.type)
        if common is None or (common != read.type and read.type != NULL):
            if {common, read.type} == {FLOAT, BIGINT}:
                return self.values.cast(node, "bigint", self.scope)
            raise self.scope.places.refused(node, "the default has another type than the value: CAST it")
        return as_type(typed, read.type, spark_type(read.type))

    def aggregate(self, name: str) -> Analysis:
        within_us = self._within_us()
        assert called(self.node) in AGGREGATES
        if called(self.node).startswith("PERCENTILE"):
            raise self.refused("does not go with LIMIT DURATION: group by a sliding window")
        found = aggregated(self.node, name, self.scope, self.values)
        return Analysis(
            Analytic(name, "aggregate", within_us=within_us, aggregate=found.aggregate), found.type, found.reads
        )
