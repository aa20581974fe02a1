"""Mathematical functions. Those that keep the type of their argument do so here, too (Q36, Q37)."""

from __future__ import annotations

from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.values import Value, strict
from pipelines.job.sql.types import BIGINT, FLOAT


def _to_bigint(call: Call, template: str, *inputs: Value) -> Value:
    """``template`` as bigint; what is none stops the run."""
    result = strict(f"try_cast({template} AS BIGINT)", BIGINT, *inputs)
    return call.context.not_null(call.node, result, f"the result of {call.name} is no bigint", *inputs)


def _to_whole(spark: str) -> Function:
    """Spark makes a BIGINT of it; beyond 2^53 every float is whole, and infinity and NaN stay."""

    def build(call: Call) -> Value:
        value = call.number(0)
        if value.type == BIGINT:
            return value
        template = f"if(abs({{0}}) < 9007199254740992D, CAST({spark}({{0}}) AS DOUBLE), {{0}})"
        return strict(template, FLOAT, value)

    return Function(build, 1, 1)


def _abs(call: Call) -> Value:
    value = call.number(0)
    if value.type == FLOAT:
        return strict("abs({0})", FLOAT, value)
    return _to_bigint(call, "abs(CAST({0} AS DECIMAL(20,0)))", value)


def _sign(call: Call) -> Value:
    value = call.number(0)
    return strict(f"CAST(sign({{0}}) AS {'DOUBLE' if value.type == FLOAT else 'BIGINT'})", value.type, value)


def _power(call: Call) -> Value:
    value, exponent = call.number(0), call.number(1)
    template = "power(CAST({0} AS DOUBLE), CAST({1} AS DOUBLE))"
    if value.type == FLOAT:
        return strict(template, FLOAT, value, exponent)
    return _to_bigint(call, template, value, exponent)


def _round(call: Call) -> Value:
    """Half away from zero, of the decimal digits."""
    value, places = call.number(0), call.bigint(1)
    if not isinstance(places.constant, int):
        raise call.refused("the number of digits must be a literal", 1)
    digits = max(min(places.constant, 400), -400)
    if value.type == FLOAT:
        return strict(f"round({{0}}, {digits})", FLOAT, value)
    if digits >= 0:
        return value
    return _to_bigint(call, f"round(CAST({{0}} AS DECIMAL(20,0)), {max(digits, -20)})", value)


def _float(template: str) -> Function:
    def build(call: Call) -> Value:
        value = call.number(0)
        return strict(template, FLOAT, strict("CAST({0} AS DOUBLE)", FLOAT, value) if value.type == BIGINT else value)

    return Function(build, 1, 1)


FUNCTIONS = {
    "ABS": Function(_abs, 1, 1),
    "CEILING": _to_whole("ceil"),
    "FLOOR": _to_whole("floor"),
    "SIGN": Function(_sign, 1, 1),
    "ROUND": Function(_round, 2, 2),
    "POWER": Function(_power, 2, 2),
    "SQRT": _float("sqrt({0})"),
    "SQUARE": _float("({0} * {0})"),
    "EXP": _float("exp({0})"),
}
