"""From a node of the script's tree to Spark SQL, by tables of operators and functions."""

from __future__ import annotations

from sqlglot import exp

from pipelines.job.sql.expressions import conditional
from pipelines.job.sql.expressions.context import Context
from pipelines.job.sql.expressions.operators import OPERATORS
from pipelines.job.sql.expressions.values import (
    NULL_VALUE,
    Value,
    bigint_literal,
    float_literal,
    settled,
    text_literal,
)
from pipelines.job.sql.scope import Scope, Settings
from pipelines.job.sql.types import BIT, DATETIME, Typed


def translate(node: exp.Expression, scope: Scope, settings: Settings) -> Typed:
    """The value of ``node`` in the row that ``scope`` describes.

    Where it fails the run stops: the message names file, line and column, the value, and the row's time. Raises
    :class:`~pipelines.job.sql.refusal.Refused` for what is not in the language or cannot be given exactly.
    """

    def value(part: exp.Expression) -> Value:
        return _value(context, part)

    context = Context(scope, settings, value)
    result = settled(value(node))
    return Typed(result.sql, result.type, result.kept_if)


def _value(context: Context, node: exp.Expression) -> Value:
    if (constant := _constant(context, node)) is not None:
        return constant
    known = context.scope.call(node)
    if known is None and isinstance(node, exp.Column):
        known = _column(context, node)
    if known is not None:
        return Value(known.sql, known.type, (), known.kept_if)
    if isinstance(node, exp.Paren):
        return context.translate(node.this)
    if isinstance(node, exp.Case):
        return conditional.case(context, node)
    if isinstance(node, exp.Cast):
        return conditional.cast(context, node)
    if (operator := OPERATORS.get(type(node))) is not None:
        return operator(context, node)
    raise context.refused(node, f"{node.sql('tsql')} is not in the language")


def _constant(context: Context, node: exp.Expression) -> Value | None:
    if isinstance(node, exp.Null):
        return NULL_VALUE
    if isinstance(node, exp.Boolean):
        return Value("true" if node.this else "false", BIT)
    if isinstance(node, exp.National):
        return text_literal(node.name)
    if not isinstance(node, exp.Literal):
        return None
    if node.is_string:
        return text_literal(node.name)
    if not node.name.isdigit():
        return float_literal(float(node.name))
    if int(node.name) >= 1 << 63:
        raise context.refused(node, f"{node.name} is no bigint; write it as a float, {float(node.name)!r}")
    return bigint_literal(int(node.name))


def _column(context: Context, node: exp.Column) -> Typed:
    path = tuple(part.name for part in node.parts)
    if tuple(part.lower() for part in path) == ("system", "timestamp"):
        return Typed(context.scope.time, DATETIME)
    return context.scope.resolve(path, node)
