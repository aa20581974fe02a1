"""Functions over datetimes."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from pipelines.core.time import UNIT_US
from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.values import Value, strict
from pipelines.job.sql.types import BIGINT, DATETIME, TEXT

_PARTS = {
    "year": "year yyyy yy",
    "quarter": "quarter qq q",
    "month": "month mm m",
    "dayofyear": "dayofyear dy y",
    "day": "day dd d",
    "week": "week wk ww",
    "weekday": "weekday dw w",
    "hour": "hour hh",
    "minute": "minute mi n",
    "second": "second ss s",
    "millisecond": "millisecond ms",
    "microsecond": "microsecond mcs",
}
_PART_OF = {short: part for part, names in _PARTS.items() for short in names.split()}
_DAYS = {"dayofyear": "day", "weekday": "day"}
"""What DATEADD and DATEDIFF take for days."""

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_YEAR_1_US, _YEAR_9999_US = -62_135_596_800_000_000, 253_402_300_799_999_999


def _part(call: Call) -> str:
    node = call.arguments[0]
    part = _PART_OF.get(node.name.lower()) if isinstance(node, (exp.Column, exp.Var)) else None
    if part is None:
        raise call.refused(f"{node.sql('tsql')} is no part of a date; use one of {', '.join(_PARTS)}", 0)
    return part


def _datepart(call: Call) -> Value:
    return strict(f"CAST({_DATEPARTS[_part(call)]} AS BIGINT)", BIGINT, call.datetime(1))


_DATEPARTS = {
    **{part: f"{part}({{0}})" for part in ("year", "quarter", "month", "day", "dayofyear", "hour", "minute", "second")},
    # the week of 1 January is the first, and weeks begin on Sunday
    "week": "(dayofyear({0}) + dayofweek(trunc({0}, 'YEAR')) - 2) div 7 + 1",
    "weekday": "dayofweek({0})",
    "millisecond": "pmod(unix_micros({0}), 1000000L) div 1000L",
    "microsecond": "pmod(unix_micros({0}), 1000000L)",
}


def _datename(call: Call) -> Value:
    name = {"month": "MMMM", "weekday": "EEEE"}.get(_part(call))
    if name is None:
        return strict("CAST({0} AS STRING)", TEXT, _datepart(call))
    return strict(f"date_format({{0}}, '{name}')", TEXT, call.datetime(1))


def _datediff(call: Call) -> Value:
    """The boundaries of the unit between both, never the units that have passed; weeks begin on Sunday."""
    part = _part(call)
    part = _DAYS.get(part, part)
    start, end = call.datetime(1), call.datetime(2)
    if part in _MONTHS:
        months = "months_between(date_trunc('MONTH', {1}), date_trunc('MONTH', {0}))"
        template = months.replace("MONTH", part.upper())
        return strict(f"CAST({template} / {_MONTHS[part]} AS BIGINT)", BIGINT, start, end)
    if part == "week":
        start, end = (strict("({0} + INTERVAL '1' DAY)", DATETIME, one) for one in (start, end))
    unit_us = 7 * UNIT_US["day"] if part == "week" else UNIT_US[part]
    first, last = (f"unix_micros(date_trunc('{part.upper()}', {{{index}}}))" for index in (0, 1))
    return strict(f"(({last} - {first}) div {unit_us}L)", BIGINT, start, end)


def _dateadd(call: Call) -> Value:
    """A number of units later; of months the day is at most the month's last, and the time of day stays."""
    part = _part(call)
    part = _DAYS.get(part, part)
    count, start = call.bigint(1), call.datetime(2)
    if part in _MONTHS:
        months = strict(f"try_cast(try_multiply({{0}}, {_MONTHS[part]}L) AS INT)", BIGINT, count)
        end = strict("unix_micros(try_add({0}, make_ym_interval(0, {1})))", BIGINT, start, months)
    else:
        unit_us = 7 * UNIT_US["day"] if part == "week" else UNIT_US[part]
        span = strict(f"try_multiply({{0}}, {unit_us}L)", BIGINT, count)
        end = strict("try_add(unix_micros({0}), {1})", BIGINT, start, span)
    bounds = f"{_YEAR_1_US}L AND {_YEAR_9999_US}L"
    result = strict(f"CASE WHEN {{0}} BETWEEN {bounds} THEN timestamp_micros({{0}}) END", DATETIME, end)
    what = "the result of DATEADD lies outside of the years 1 to 9999"
    return call.context.not_null(call.node, result, what, count, start)


def _datetimefromparts(call: Call) -> Value:
    """A part out of its range stops the run."""
    parts = [call.bigint(index) for index in range(7)]
    numbers = [f"try_cast({{{index}}} AS INT)" for index in range(5)]
    # 60 seconds are the next minute to Spark
    second = "CASE WHEN {5} BETWEEN 0L AND 59L AND {6} BETWEEN 0L AND 999L"
    second += " THEN CAST({5} + {6} / CAST(1000 AS DECIMAL(4,0)) AS DECIMAL(8,6)) END"
    made = f"try_make_timestamp({', '.join(numbers)}, {second})"
    result = strict(f"CASE WHEN {{0}} BETWEEN 1L AND 9999L THEN {made} END", DATETIME, *parts)
    return call.context.not_null(call.node, result, "DATETIMEFROMPARTS: a part is out of its range", *parts)


def _named_part(part: str) -> Callable[[Call], Value]:
    return lambda call: strict(f"CAST({_DATEPARTS[part]} AS BIGINT)", BIGINT, call.datetime(0))


FUNCTIONS = {
    "DATEADD": Function(_dateadd, 3, 3),
    "DATEDIFF": Function(_datediff, 3, 3),
    "DATEPART": Function(_datepart, 2, 2),
    "DATENAME": Function(_datename, 2, 2),
    "DATETIMEFROMPARTS": Function(_datetimefromparts, 7, 7),
    **{part.upper(): Function(_named_part(part), 1, 1) for part in ("day", "month", "year")},
}
