"""Arithmetic, comparison and logic (Q31, Q36 to Q40)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.conversions import convert, number
from pipelines.job.sql.expressions.values import Value, bigint_literal, float_literal, kept, settled, strict, unless
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, NULL, TEXT, Scalar

Operator = Callable[[Context, exp.Expr], Value]


def _add(context: Context, node: exp.Expr) -> Value:
    left, right = context.translate(node.this), context.translate(node.expression)
    if {left.type, right.type} <= {TEXT, NULL} and TEXT in (left.type, right.type):
        return strict("concat({0}, {1})", TEXT, left, right)
    return _arithmetic(context, node, left, right)


def _arithmetic(context: Context, node: exp.Expr, left: Value, right: Value) -> Value:
    left, right = _numbers(context, node, left, right)
    symbol, attempt = _ARITHMETIC[type(node)]
    if left.type == FLOAT:
        return strict(f"({{0}} {symbol} {{1}})", FLOAT, left, right)
    result = strict(f"{attempt}({{0}}, {{1}})", BIGINT, left, right)
    return context.not_null(node, result, f"the result of {symbol} is no bigint", left, right)


_ARITHMETIC: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Add: ("+", "try_add"),
    exp.Sub: ("-", "try_subtract"),
    exp.Mul: ("*", "try_multiply"),
}


def _divide(context: Context, node: exp.Expr) -> Value:
    """Of bigints cut towards zero, and zero is fatal; of floats as IEEE 754 has it (Q36, Q37)."""
    left, right = _operands(context, node)
    if left.type == FLOAT:
        if right.constant:
            return strict("({0} / {1})", FLOAT, left, right)
        # Spark has null where the divisor is zero; 1 / -0.0 is minus infinity here and there
        return strict("coalesce(try_divide({0}, {1}), {0} * power({1}, -1D))", FLOAT, left, right)
    if right.constant and right.constant != -1:
        return strict("({0} div {1})", BIGINT, left, right)
    result = strict("if({1} = -1L, try_subtract(0L, {0}), {0} div nullif({1}, 0L))", BIGINT, left, right)
    return context.not_null(node, result, "a bigint is divided by zero, or the result is no bigint", left, right)


def _modulo(context: Context, node: exp.Expr) -> Value:
    left, right = _operands(context, node)
    if left.type == FLOAT:
        return strict("coalesce(try_mod({0}, {1}), {0} * {1} * double('NaN'))", FLOAT, left, right)
    result = strict("try_mod({0}, {1})", BIGINT, left, right)
    if right.constant:
        return result
    return context.not_null(node, result, "the remainder of a division of a bigint by zero", left, right)


def _bitwise(context: Context, node: exp.Expr) -> Value:
    left, right = context.translate(node.this), context.translate(node.expression)
    symbol = _BITWISE[type(node)]
    if left.type == BIT and right.type == BIT:
        both = strict(f"(CAST({{0}} AS BIGINT) {symbol} CAST({{1}} AS BIGINT))", BIGINT, left, right)
        return convert(context, node, both, BIT)
    return strict(f"({{0}} {symbol} {{1}})", BIGINT, _bits(context, node, left), _bits(context, node, right))


_BITWISE: dict[type[exp.Expr], str] = {exp.BitwiseAnd: "&", exp.BitwiseOr: "|", exp.BitwiseXor: "^"}


def _bitwise_not(context: Context, node: exp.Expr) -> Value:
    value = context.translate(node.this)
    if value.type == BIT:
        return strict("(NOT {0})", BIT, value)
    return strict("(~{0})", BIGINT, _bits(context, node, value))


def _bits(context: Context, node: exp.Expr, value: Value) -> Value:
    if value.type not in (BIGINT, BIT, NULL):
        raise context.refused(
            node, f"bits are those of bigint and bit, not of {name_of(value.type)}; CAST it to bigint"
        )
    return convert(context, node, value, BIGINT)


def _negative(context: Context, node: exp.Expr) -> Value:
    value = number(context, node, context.translate(node.this))
    if isinstance(value.constant, int):
        return bigint_literal(-value.constant)
    if isinstance(value.constant, float):
        return float_literal(-value.constant)
    if value.type == FLOAT:
        return strict("(-{0})", FLOAT, value)
    result = strict("try_subtract(0L, {0})", BIGINT, value)
    return context.not_null(node, result, "the negative of the least bigint is no bigint", value)


def comparable(context: Context, node: exp.Expr, left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands as values of one type that has an order: text becomes what stands opposite (Q38, Q39)."""
    for one in (left, right):
        if not isinstance(one.type, Scalar):
            raise context.refused(node, f"{name_of(one.type)} cannot be compared; compare its parts")
    if {left.type, right.type} <= {TEXT, NULL}:
        if context.settings.string_comparison == "ignore_case":
            return strict("lower({0})", TEXT, left), strict("lower({0})", TEXT, right)
        return left, right
    if left.type == right.type:
        return left, right
    for type_ in (DATETIME, BIT):
        if {left.type, right.type} <= {type_, TEXT, NULL}:
            return convert(context, node, left, type_), convert(context, node, right, type_)
    return _numbers(context, node, left, right)


def _comparison(context: Context, node: exp.Expr) -> Value:
    left, right = comparable(context, node, context.translate(node.this), context.translate(node.expression))
    return strict(f"({{0}} {_COMPARISONS[type(node)]} {{1}})", BIT, left, right)


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}


def equal(context: Context, node: exp.Expr, left: Value, right: Value) -> Value:
    return strict("({0} = {1})", BIT, *comparable(context, node, left, right))


def _in(context: Context, node: exp.Expr) -> Value:
    if node.args.get("query") is not None or not node.expressions:
        raise context.refused(node, "IN (SELECT ..) is not in the language; join the other source")
    value = context.translate(node.this)
    return any_of([equal(context, node, value, context.translate(one)) for one in node.expressions])


def _between(context: Context, node: exp.Expr) -> Value:
    value = context.translate(node.this)
    low = comparable(context, node, value, context.translate(node.args["low"]))
    high = comparable(context, node, value, context.translate(node.args["high"]))
    return all_of([strict("({0} >= {1})", BIT, *low), strict("({0} <= {1})", BIT, *high)])


def _is(context: Context, node: exp.Expr) -> Value:
    if not isinstance(node.expression, exp.Null):
        raise context.refused(node, "IS takes NULL or NOT NULL alone; write =")
    value = settled(context.translate(node.this))
    return strict("({0} IS NULL)", BIT, value)


def condition(context: Context, node: exp.Expr) -> Value:
    """What WHERE, HAVING, ON and WHEN take: a comparison, or a column of type bit."""
    value = context.translate(node)
    if value.type not in (BIT, NULL):
        raise context.refused(node, f"a condition is due here, not {name_of(value.type)}; compare it with something")
    return convert(context, node, value, BIT)


def _and(context: Context, node: exp.Expr) -> Value:
    return all_of([condition(context, one) for one in _parts(node)])


def _or(context: Context, node: exp.Expr) -> Value:
    return any_of([condition(context, one) for one in _parts(node)])


def _parts(node: exp.Expr) -> list[exp.Expr]:
    """The operands of ANDs, or of ORs, that stand in a row."""
    sides = (node.this, node.expression)
    return [part for side in sides for part in (_parts(side) if type(side) is type(node) else [side])]


def _not(context: Context, node: exp.Expr) -> Value:
    return strict("(NOT {0})", BIT, condition(context, node.this))


def all_of(conditions: Sequence[Value]) -> Value:
    """AND, in their order: none stops the run where one before it is false."""
    return _in_order(conditions, "AND", "WHEN NOT {} THEN false")


def any_of(conditions: Sequence[Value]) -> Value:
    """OR, in their order: none stops the run where one before it is true."""
    return _in_order(conditions, "OR", "WHEN {} THEN true")


def _in_order(conditions: Sequence[Value], operator: str, decided: str) -> Value:
    values = [settled(one) for one in conditions]
    if len(values) == 1:
        return values[0]
    sql = f"({f' {operator} '.join(one.sql for one in values)})"
    # Spark may evaluate what stands twice behind AND before it looks at what stands in front of it
    decisions = " ".join(decided.format(one.stopping) for one in values)
    checked = f"CASE {decisions} ELSE {sql} END" if any(one.checked for one in values) else None
    kept_if = kept(values[-1:])
    for one in reversed(values[:-1]):
        kept_if = (*one.kept_if, *unless(one.sql if operator == "OR" else f"(NOT {one.sql})", kept_if))
    return Value(sql, BIT, (), kept_if, checked)


def _operands(context: Context, node: exp.Expr) -> tuple[Value, Value]:
    return _numbers(context, node, context.translate(node.this), context.translate(node.expression))


def _numbers(context: Context, node: exp.Expr, left: Value, right: Value) -> tuple[Value, Value]:
    """Both operands as floats if one is a float, else as bigints."""
    left, right = number(context, node, left), number(context, node, right)
    if FLOAT in (left.type, right.type):
        return convert(context, node, left, FLOAT), convert(context, node, right, FLOAT)
    return left, right


OPERATORS: dict[type[exp.Expr], Operator] = {
    exp.Add: _add,
    **dict.fromkeys((exp.Sub, exp.Mul), lambda context, node: _arithmetic(context, node, *_operands(context, node))),
    exp.Div: _divide,
    exp.Mod: _modulo,
    exp.Neg: _negative,
    **dict.fromkeys(_BITWISE, _bitwise),
    exp.BitwiseNot: _bitwise_not,
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.In: _in,
    exp.Between: _between,
    exp.Is: _is,
    exp.And: _and,
    exp.Or: _or,
    exp.Not: _not,
}
