"""CASE, COALESCE, ISNULL, NULLIF and CAST (Q32 to Q34)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.conversions import common, convert
from pipelines.job.sql.expressions.operators import Operator, condition, equal
from pipelines.job.sql.expressions.values import NULL_VALUE, Value, settled, strict, unless
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Map, Record, Type


def _case(context: Context, node: exp.Expr) -> Value:
    """The first branch that is true or equal. What stops the run does so only where its branch is taken."""
    branches = node.args["ifs"]
    if node.this is None:
        tests = [condition(context, one.this) for one in branches]
    else:
        subject = context.translate(node.this)
        tests = [equal(context, one, subject, context.translate(one.this)) for one in branches]
    default = node.args.get("default")
    nodes = [*(one.args["true"] for one in branches), *([] if default is None else [default])]
    results = common(context, nodes, [context.translate(one) for one in nodes])
    otherwise = NULL_VALUE if default is None else results[-1]
    return _first(list(zip(map(settled, tests), map(settled, results), strict=False)), settled(otherwise))


def _first(branches: Sequence[tuple[Value, Value]], otherwise: Value) -> Value:
    """CASE of settled conditions and values; a row is dropped only for what it comes to (Q34)."""
    kept_if = otherwise.kept_if
    for test, result in reversed(branches):
        taken = unless(f"(NOT coalesce({test.sql}, false))", result.kept_if)
        kept_if = (*test.kept_if, *taken, *unless(test.sql, kept_if))
    parts = [otherwise, *(one for branch in branches for one in branch)]
    whens = " ".join(f"WHEN {{{index}}} THEN {{{index + 1}}}" for index in range(1, len(parts), 2))
    return replace(strict(f"CASE {whens} ELSE {{0}} END", branches[0][1].type, *parts), kept_if=kept_if)


def _coalesce(call: Call) -> Value:
    """The first value that is not null."""
    given = [call.value(index) for index in range(len(call))]
    values = [settled(one) for one in common(call.context, call.arguments, given)]
    kept_if = values[-1].kept_if
    for one in reversed(values[:-1]):
        kept_if = (*one.kept_if, *unless(f"({one.sql} IS NOT NULL)", kept_if))
    names = ", ".join(f"{{{index}}}" for index in range(len(values)))
    return replace(strict(f"coalesce({names})", values[0].type, *values), kept_if=kept_if)


def _nullif(call: Call) -> Value:
    """Null if both are equal, else the first."""
    value = call.value(0)
    same = settled(equal(call.context, call.node, value, call.value(1)))
    return _first([(same, replace(NULL_VALUE, type=value.type))], settled(value))


def _cast(context: Context, node: exp.Expr) -> Value:
    """CAST and TRY_CAST."""
    value = context.translate(node.this)
    nested = _NESTED.get(node.args["to"].sql("tsql").upper())
    if nested is None:
        return convert(context, node, value, _target(context, node), trying=isinstance(node, exp.TryCast))
    if isinstance(value.type, nested):
        return value
    raise context.refused(node, f"{name_of(value.type)} is no array or record: declare the column as ARRAY or STRUCT")


_NESTED: dict[str, tuple[type[Type], ...]] = {"ARRAY": (Array,), "RECORD": (Record, Map)}


def _target(context: Context, node: exp.Expr) -> Type:
    to = node.args["to"]
    if to.this in _TARGETS and all(one.name.lower() == "max" for one in to.expressions):
        return _TARGETS[to.this]
    raise context.refused(
        node, f"type {to.sql('tsql').lower()} is not in the language; use bigint, float, nvarchar(max), datetime or bit"
    )


_TARGETS: dict[exp.DType, Type] = {
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: FLOAT,
    exp.DType.DOUBLE: FLOAT,
    exp.DType.NVARCHAR: TEXT,
    exp.DType.DATETIME: DATETIME,
    exp.DType.TIMESTAMP: DATETIME,
    exp.DType.BIT: BIT,
    exp.DType.BOOLEAN: BIT,
}

OPERATORS: dict[type[exp.Expr], Operator] = {exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast}
FUNCTIONS = {
    "COALESCE": Function(_coalesce, 1, None),
    "ISNULL": Function(_coalesce, 2, 2),
    "NULLIF": Function(_nullif, 2, 2),
}
