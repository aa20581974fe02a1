"""Functions over text."""

from __future__ import annotations

from collections.abc import Callable

from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.conversions import convert
from pipelines.job.sql.expressions.utf16 import emptied, filled
from pipelines.job.sql.expressions.values import Value, lenient, strict, text
from pipelines.job.sql.types import BIGINT, TEXT

_WHITE = r"[\p{Z}\x09-\x0D\x{85}]+"


def _len(call: Call) -> Value:
    """Trailing blanks do not count."""
    return strict("CAST(length({0}) AS BIGINT)", BIGINT, filled(strict("rtrim({0})", TEXT, call.text(0))))


def _substring(call: Call) -> Value:
    """From 1; a start below 1 makes the text shorter by what it is below."""
    part = "substring({0}, CAST(greatest({1}, 1L) AS INT), CAST({1} + {2} - greatest({1}, 1L) AS INT))"
    result = strict(part, TEXT, filled(call.text(0)), call.integer(1), call.integer(2))
    return call.fatal_below_zero(emptied(result), 2)


def _left(call: Call) -> Value:
    result = strict("left({0}, CAST({1} AS INT))", TEXT, filled(call.text(0)), call.integer(1))
    return call.fatal_below_zero(emptied(result), 1)


def _right(call: Call) -> Value:
    result = strict("right({0}, CAST({1} AS INT))", TEXT, filled(call.text(0)), call.integer(1))
    return call.fatal_below_zero(emptied(result), 1)


def _charindex(call: Call) -> Value:
    """0 if absent; a start that is null or below 1 is 1 (Q39)."""
    case = "lower({0})" if call.context.settings.string_comparison == "ignore_case" else "{0}"
    sought, value = (filled(strict(case, TEXT, call.text(index))) for index in (0, 1))
    if len(call) == 2:
        return strict("CAST(locate({0}, {1}) AS BIGINT)", BIGINT, sought, value)
    start = lenient("CAST(coalesce({0}, 1L) AS INT)", BIGINT, call.integer(2, least=1))
    return strict("CAST(locate({0}, {1}, {2}) AS BIGINT)", BIGINT, sought, value, start)


def _stuff(call: Call) -> Value:
    """A start below 1 is 1; one beyond the end gives an empty text."""
    part = "if({1} > length({0}), left({3}, 0), overlay({0} PLACING {3} FROM CAST({1} AS INT) FOR CAST({2} AS INT)))"
    value, given = filled(call.text(0)), filled(call.text(3))
    result = strict(part, TEXT, value, call.integer(1, least=1), call.integer(2), given)
    return call.fatal_below_zero(emptied(result), 2)


def _translate(call: Call) -> Value:
    sought, given = call.text(1), call.text(2)
    what = "the characters sought and the ones given differ in number"
    if isinstance(sought.constant, str) and isinstance(given.constant, str):
        if len(sought.constant) != len(given.constant):
            raise call.refused(what, 2)
        return strict("translate({0}, {1}, {2})", TEXT, call.text(0), sought, given)
    same = "CASE WHEN length({1}) = length({2}) THEN translate({0}, {1}, {2}) END"
    value = call.text(0)
    result = strict(same, TEXT, value, sought, given)
    return call.context.not_null(call.node, result, f"TRANSLATE: {what}", value, sought, given)


def _trim(edges: str) -> Callable[[Call], Value]:
    """All white space, not blanks alone."""
    pattern = Value(text(edges), TEXT)
    return lambda call: strict("regexp_replace({0}, {1}, '')", TEXT, call.text(0), pattern)


def _repeated(value: Value, count: Value) -> Value:
    return strict("CASE WHEN {1} >= 0L THEN repeat({0}, CAST({1} AS INT)) END", TEXT, value, count)


def _nchar(call: Call) -> Value:
    character = "decode(unhex(lpad(hex({0}), 8, '0')), 'UTF-32')"
    is_one = "{0} BETWEEN 0L AND 1114111L AND {0} NOT BETWEEN 55296L AND 57343L"
    return strict(f"CASE WHEN {is_one} THEN {character} END", TEXT, call.bigint(0))


def _as_text(call: Call, index: int) -> Value:
    return convert(call.context, call.arguments[index], call.value(index), TEXT)


def _concat(call: Call) -> Value:
    """Null is an empty text, also where all are null."""
    values = [lenient("coalesce({0}, '')", TEXT, _as_text(call, index)) for index in range(len(call))]
    return strict(f"concat({', '.join(f'{{{index}}}' for index in range(len(call)))})", TEXT, *values)


def _concat_ws(call: Call) -> Value:
    """Nulls are left out with their separator."""
    values = [_as_text(call, index) for index in range(1, len(call))]
    names = ", ".join(f"{{{index}}}" for index in range(1, len(call)))
    return lenient(f"concat_ws(coalesce({{0}}, ''), {names})", TEXT, call.text(0), *values)


def _plain(template: str, count: int = 1) -> Function:
    """A function that Spark has, too, over texts."""
    return Function(lambda call: strict(template, TEXT, *map(call.text, range(count))), count, count)


FUNCTIONS = {
    "LEN": Function(_len, 1, 1),
    "SUBSTRING": Function(_substring, 3, 3),
    "LEFT": Function(_left, 2, 2),
    "RIGHT": Function(_right, 2, 2),
    "CHARINDEX": Function(_charindex, 2, 3),
    "STUFF": Function(_stuff, 4, 4),
    "REPLACE": _plain("replace({0}, {1}, {2})", 3),
    "TRANSLATE": Function(_translate, 3, 3),
    "UPPER": _plain("upper({0})"),
    "LOWER": _plain("lower({0})"),
    "REVERSE": _plain("reverse({0})"),
    "TRIM": Function(_trim(rf"\A{_WHITE}|{_WHITE}\z"), 1, 1),
    "LTRIM": Function(_trim(rf"\A{_WHITE}"), 1, 1),
    "RTRIM": Function(_trim(rf"{_WHITE}\z"), 1, 1),
    "REPLICATE": Function(lambda call: _repeated(call.text(0), call.integer(1)), 2, 2),
    "SPACE": Function(lambda call: _repeated(Value("' '", TEXT), call.integer(0)), 1, 1),
    "UNICODE": Function(lambda call: strict("CAST(nullif(ascii({0}), 0) AS BIGINT)", BIGINT, call.text(0)), 1, 1),
    "NCHAR": Function(_nchar, 1, 1),
    "CONCAT": Function(_concat, 1, None),
    "CONCAT_WS": Function(_concat_ws, 2, None),
}
