"""Expressions of a script in a scope, and what the rules about them ask of their types."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from sqlglot import exp

from pipelines.core.steps import Filtered, Rows
from pipelines.job.sql.expressions import translate
from pipelines.job.sql.expressions.context import name_of
from pipelines.job.sql.places import Places, begin, offset
from pipelines.job.sql.scope import Scope, Settings
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, NULL, TEXT, Type, Typed


@dataclass(frozen=True, slots=True)
class Values:
    """Translates the expressions of one script."""

    places: Places
    settings: Settings

    def of(self, node: exp.Expr, scope: Scope, *, stops: bool = True) -> Typed:
        """The value of the expression; where it fails the run stops, or it is null."""
        return translate(node, scope, self.settings, stops=stops)

    def condition(self, node: exp.Expr, scope: Scope) -> Typed:
        """The value of a condition."""
        typed = self.of(node, scope)
        if typed.type not in (BIT, NULL):
            raise self.places.refused(
                node, f"a condition must stand here, not a value of type {name_of(typed.type)}: compare it"
            )
        return typed

    def cast(self, node: exp.Expr, kind: str, scope: Scope) -> Typed:
        """The value converted to a type, as CAST does it."""
        cast = exp.Cast(this=node.copy(), to=exp.DataType.build(kind, dialect="tsql"))
        return self.of(begin(cast, offset(node)), scope)

    def number(self, node: exp.Expr, scope: Scope) -> Typed:
        """The value as a number: text is converted to float (Q38, Q53)."""
        typed = self.of(node, scope)
        if typed.type in (BIGINT, FLOAT):
            return typed
        if typed.type == BIT:
            return self.cast(node, "bigint", scope)
        if typed.type in (TEXT, NULL):
            return self.cast(node, "float", scope)
        raise self.places.refused(node, f"a number must stand here, not a value of type {name_of(typed.type)}")

    def sortable(self, node: exp.Expr, scope: Scope) -> Typed:
        """The value of what ORDER BY may name (Q56)."""
        typed = self.of(node, scope)
        if typed.type not in (BIGINT, FLOAT, DATETIME):
            raise self.places.refused(
                node, f"ORDER BY takes bigint, float and datetime, not {name_of(typed.type)}: CAST it"
            )
        return typed


def kept(rows: Rows, values: Iterable[Typed]) -> Rows:
    """The rows that ``on_cast_error: drop_row`` leaves where these values are computed (Q34)."""
    conditions = list(dict.fromkeys(condition for one in values for condition in one.kept_if))
    return Filtered(rows, " AND ".join(conditions)) if conditions else rows


def as_type(typed: Typed, type_: Type, spark: str) -> Typed:
    """The value as ``type_``, whose name in Spark is ``spark``; bigint as float and NULL as anything (Q14)."""
    return typed if typed.type == type_ else replace(typed, sql=f"CAST({typed.sql} AS {spark})", type=type_)


def common_type(left: Type, right: Type) -> Type | None:
    """The type that both have, or float for bigint with float; None if there is none."""
    if left == right or right == NULL:
        return left
    if left == NULL:
        return right
    return FLOAT if {left, right} == {BIGINT, FLOAT} else None
