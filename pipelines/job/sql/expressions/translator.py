"""From a node of the script's tree to Spark SQL, by tables of operators and functions."""

from __future__ import annotations

from sqlglot import exp

from pipelines.job.sql.expressions import conditional, operators, patterns
from pipelines.job.sql.expressions.context import Context
from pipelines.job.sql.expressions.functions import call
from pipelines.job.sql.expressions.nested import property_of
from pipelines.job.sql.expressions.user_functions import call_user_function
from pipelines.job.sql.expressions.values import (
    NULL_VALUE,
    Value,
    bigint_literal,
    float_literal,
    settled,
    text_literal,
)
from pipelines.job.sql.scope import Scope, Settings
from pipelines.job.sql.types import BIT, Typed

_OPERATORS = {**operators.OPERATORS, **conditional.OPERATORS, **patterns.OPERATORS}


def translate(node: exp.Expr, scope: Scope, settings: Settings, *, stops: bool = True) -> Typed:
    """The value of ``node`` in the row that ``scope`` describes.

    Where it fails the run stops: the message names file, line and column, the value, and the row's time. It is null
    there where ``stops`` is false, as for the time of an event, which has no other time to name yet. Raises
    :class:`~pipelines.job.sql.refusal.Refused` for what is not in the language or cannot be given exactly.
    """

    def value(part: exp.Expr) -> Value:
        return _value(context, part)

    context = Context(scope, settings, value)
    result = settled(value(node))
    return Typed(result.stopping if stops else result.sql, result.type, result.kept_if)


def _value(context: Context, node: exp.Expr) -> Value:
    if (constant := _constant(context, node)) is not None:
        return constant
    known = context.scope.call(node)
    if known is None and isinstance(node, exp.Column):
        known = context.scope.resolve(tuple(part.name for part in node.parts), node)
    if known is not None:
        return Value(known.sql, known.type, (), known.kept_if)
    if isinstance(node, exp.Paren):
        return context.translate(node.this)
    if isinstance(node, exp.Anonymous):
        return call(context, node)
    if isinstance(node, exp.Dot):
        return _dot(context, node)
    if (operator := _OPERATORS.get(type(node))) is not None:
        return operator(context, node)
    if isinstance(function := node.this, exp.Anonymous):
        call(context, function)
        raise context.refused(node, f"{function.name} takes no OVER")
    raise context.refused(node, f"{node.sql('tsql')} cannot stand in an expression")


def _dot(context: Context, node: exp.Dot) -> Value:
    """``udf.f(..)``, or a property of what a call gives."""
    if isinstance(node.expression, exp.Identifier):
        return property_of(context, node, context.translate(node.this), node.expression.name)
    if isinstance(node.expression, exp.Anonymous) and node.this.name.lower() in ("udf", "uda"):
        return call_user_function(context, node)
    if node.this.name.lower() == "system":
        raise context.refused(node, f"{node.sql('tsql')} has no value here; it stands where a window was grouped by")
    raise context.refused(node, f"{node.sql('tsql')}: code outside of the script runs in the product alone")


def _constant(context: Context, node: exp.Expr) -> Value | None:
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
