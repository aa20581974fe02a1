"""Arithmetic. Null gives null; a division by zero sends the document to the dead letter queue."""

from __future__ import annotations

from typing import Any

from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.values import Value, element_of, kind_of, whole
from pipelines.job.sql.types import BIGINT, DATETIME, FLOAT, Type


def _joint(values: list[Value]) -> Type:
    return BIGINT if all(whole(one.type) for one in values) else FLOAT


def _add(scope: Scope, raw: Any) -> Value:
    """Numbers; or one date and milliseconds."""
    nodes = scope.arguments("$add", raw, 1)
    values = [scope.value(one) for one in nodes]
    dates = [one for one in values if kind_of(one.type) == "date"]
    if len(dates) > 1:
        raise scope.refused("$add adds one date and numbers, not two dates")
    numbers = [scope.as_number(one, "$add", node) for one, node in zip(values, nodes, strict=True) if one not in dates]
    total = " + ".join(one.sql for one in numbers)
    if dates:
        return _moved(dates[0], "+", f"({total})" if numbers else "0L")
    return Value(f"({total})", _joint(numbers))


def _moved(date: Value, sign: str, milliseconds: str) -> Value:
    return Value(f"timestamp_micros(unix_micros({date.sql}) {sign} CAST({milliseconds} * 1000 AS BIGINT))", DATETIME)


def _subtract(scope: Scope, raw: Any) -> Value:
    """Numbers; a date and milliseconds; or two dates, whose difference is in milliseconds."""
    left, right = scope.arguments("$subtract", raw, 2, 2)
    first, second = scope.value(left), scope.value(right)
    if kind_of(first.type) == kind_of(second.type) == "date":
        return Value(f"((unix_micros({first.sql}) - unix_micros({second.sql})) div 1000)", BIGINT)
    b = scope.as_number(second, "$subtract", right)
    if kind_of(first.type) == "date":
        return _moved(first, "-", b.sql)
    a = scope.as_number(first, "$subtract", left)
    return Value(f"({a.sql} - {b.sql})", _joint([a, b]))


def _multiply(scope: Scope, raw: Any) -> Value:
    numbers = [scope.number(one, "$multiply") for one in scope.arguments("$multiply", raw, 1)]
    return Value(f"({' * '.join(one.sql for one in numbers)})", _joint(numbers))


def _divide(scope: Scope, raw: Any) -> Value:
    a, b = (scope.number(one, "$divide") for one in scope.arguments("$divide", raw, 2, 2))
    scope.fails_if(f"({a.sql} IS NOT NULL AND {b.sql} = 0)")
    return Value(f"(CAST({a.sql} AS DOUBLE) / nullif(CAST({b.sql} AS DOUBLE), 0))", FLOAT)


def _mod(scope: Scope, raw: Any) -> Value:
    numbers = [scope.number(one, "$mod") for one in scope.arguments("$mod", raw, 2, 2)]
    a, b = numbers
    scope.fails_if(f"({a.sql} IS NOT NULL AND {b.sql} = 0)")
    return Value(f"({a.sql} % nullif({b.sql}, 0))", _joint(numbers))


def _keeps_type(name: str, function: str) -> Operator:
    """A function of one number whose result has the number's type."""

    def build(scope: Scope, raw: Any) -> Value:
        (value,) = (scope.number(one, name) for one in scope.arguments(name, raw, 1, 1))
        return Value(f"CAST({function}({value.sql}) AS {'BIGINT' if value.type == BIGINT else 'DOUBLE'})", value.type)

    return build


def _double(name: str, function: str, allowed: str) -> Operator:
    """A function of one number that gives DOUBLE; outside of what is allowed it fails."""

    def build(scope: Scope, raw: Any) -> Value:
        (value,) = (scope.number(one, name) for one in scope.arguments(name, raw, 1, 1))
        scope.fails_if(f"(NOT {value.sql} {allowed})")
        return Value(f"{function}(CAST({value.sql} AS DOUBLE))", FLOAT)

    return build


def _exp(scope: Scope, raw: Any) -> Value:
    (value,) = (scope.number(one, "$exp") for one in scope.arguments("$exp", raw, 1, 1))
    return Value(f"exp(CAST({value.sql} AS DOUBLE))", FLOAT)


def _pow(scope: Scope, raw: Any) -> Value:
    a, b = (scope.number(one, "$pow") for one in scope.arguments("$pow", raw, 2, 2))
    scope.fails_if(f"({a.sql} = 0 AND {b.sql} < 0)")
    return Value(f"power(CAST({a.sql} AS DOUBLE), CAST({b.sql} AS DOUBLE))", FLOAT)


def _round(scope: Scope, raw: Any) -> Value:
    """To ``place`` digits; halves go to the even neighbour."""
    node, *rest = scope.arguments("$round", raw, 1, 2)
    value, place = scope.number(node, "$round"), _place(scope, "$round", rest)
    return Value(f"CAST(bround({value.sql}, {place}) AS {'BIGINT' if value.type == BIGINT else 'DOUBLE'})", value.type)


def _trunc(scope: Scope, raw: Any) -> Value:
    node, *rest = scope.arguments("$trunc", raw, 1, 2)
    value, place = scope.number(node, "$trunc"), _place(scope, "$trunc", rest)
    if value.type == BIGINT and place >= 0:
        return value
    scaled = f"{value.sql} * power(10D, {place})"
    whole_part = f"(sign({value.sql}) * floor(abs({scaled})) / power(10D, {place}))"
    return Value(f"CAST({whole_part} AS {'BIGINT' if value.type == BIGINT else 'DOUBLE'})", value.type)


def _place(scope: Scope, name: str, rest: list[Any]) -> int:
    place: int = scope.constant(name, rest[0], int) if rest else 0
    if not -20 <= place <= 100:
        raise scope.refused(f"{name} to {place} digits; -20 to 100 are allowed")
    return place


def _over_list(name: str) -> Operator:
    """``$sum``, ``$avg``, ``$min``, ``$max`` of one document: over its arguments, or over the one array given."""

    def build(scope: Scope, raw: Any) -> Value:
        nodes = scope.arguments(name, raw, 1)
        values = [scope.value(one) for one in nodes]
        array = values[0] if len(values) == 1 and kind_of(values[0].type) == "array" else scope.array(values)
        kind = element_of(array)
        if name in ("$min", "$max"):
            return Value(f"array{name.replace('$', '_')}({array.sql})", kind)
        if kind_of(kind) == "null":
            return Value("0L", BIGINT) if name == "$sum" else Value("CAST(NULL AS DOUBLE)", FLOAT)
        if kind_of(kind) not in ("number", "open"):
            raise scope.refused(f"{name} adds numbers; these are of another type")
        element, total = scope.shared.fresh(), scope.shared.fresh()
        double = name == "$avg" or not whole(kind)
        number = element
        start, step = ("0D", f"CAST({number} AS DOUBLE)") if double else ("0L", number)
        present = f"filter({array.sql}, {element} -> {element} IS NOT NULL)"
        added = f"coalesce(aggregate({present}, {start}, ({total}, {element}) -> {total} + {step}), {start})"
        if name == "$sum":
            return Value(added, FLOAT if double else BIGINT)
        return Value(f"({added} / nullif(size({present}), 0))", FLOAT)

    return build


NUMBERS: dict[str, Operator] = {
    "$add": _add,
    "$subtract": _subtract,
    "$multiply": _multiply,
    "$divide": _divide,
    "$mod": _mod,
    "$abs": _keeps_type("$abs", "abs"),
    "$ceil": _keeps_type("$ceil", "ceil"),
    "$floor": _keeps_type("$floor", "floor"),
    "$round": _round,
    "$trunc": _trunc,
    "$pow": _pow,
    "$sqrt": _double("$sqrt", "sqrt", ">= 0"),
    "$ln": _double("$ln", "ln", "> 0"),
    "$log10": _double("$log10", "log10", "> 0"),
    "$exp": _exp,
    "$sum": _over_list("$sum"),
    "$avg": _over_list("$avg"),
    "$min": _over_list("$min"),
    "$max": _over_list("$max"),
}
