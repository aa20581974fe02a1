"""Dates, in UTC. A difference counts the boundaries of its unit; weeks begin on Sunday by default."""

from __future__ import annotations

import re
from typing import Any

from pipelines.core.time import DAY, HOUR, MILLISECOND, MINUTE, SECOND, parse_instant
from pipelines.job.atlas_pipeline.operators.conversions import DATE_PATTERN, iso_date_sql, or_else
from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.text import Doc
from pipelines.job.atlas_pipeline.values import Value, kind_of, text_sql, want
from pipelines.job.sql.types import BIGINT, DATETIME, TEXT

UNITS_US = {
    "millisecond": MILLISECOND,
    "second": SECOND,
    "minute": MINUTE,
    "hour": HOUR,
    "day": DAY,
    "week": 7 * DAY,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAYS = ("saturday", "sunday", "monday", "tuesday", "wednesday", "thursday", "friday")
"""The days of the week from 2000-01-01, where counting begins."""
_ORIGIN_US = parse_instant("2000-01-01")


def _date(scope: Scope, node: Any, name: str) -> Value:
    value = scope.value(node)
    want(value, DATETIME)
    if kind_of(value.type) == "null":
        return Value("CAST(NULL AS TIMESTAMP)", DATETIME)
    if kind_of(value.type) != "date":
        raise scope.mismatch(name, "a date (convert with $toDate)", value, node)
    return value


def _utc(scope: Scope, named: dict[str, Any], name: str) -> None:
    if named.get("timezone", "UTC") not in ("UTC", "GMT", "Etc/UTC", "+00", "+0000", "+00:00", "Z"):
        raise scope.refused(f"{name} in time zone {named['timezone']!r} cannot be replayed; leave 'timezone' out: UTC")


def _unit(scope: Scope, named: dict[str, Any], name: str) -> str:
    unit = scope.constant(name, named["unit"], str)
    if unit not in UNITS_US and unit not in _MONTHS:
        raise scope.refused(f"{name} has no unit '{unit}'; it has {', '.join([*UNITS_US, *_MONTHS])}")
    return str(unit)


def _floor(us: str, size_us: int) -> str:
    return f"(({us} - pmod({us}, {size_us}L)) div {size_us}L)"


def _months(date: str) -> str:
    return f"(year({date}) * 12L + month({date}) - 1)"


def _first_day_us(scope: Scope, named: dict[str, Any], name: str) -> int:
    """The first day on or after 2000-01-01 that weeks begin on."""
    day = str(scope.constant(name, named.get("startOfWeek", "sunday"), str)).lower()
    names = [one for one in _DAYS if one == day or (len(day) == 3 and one.startswith(day))]
    if not names:
        raise scope.refused(f"{name}: '{day}' is no day of the week")
    return _ORIGIN_US + _DAYS.index(names[0]) * DAY


def _date_trunc(scope: Scope, raw: Any) -> Value:
    """The greatest multiple of ``binSize`` units, counted from 2000-01-01, that is not after the date."""
    name = "$dateTrunc"
    named = scope.named(name, raw, ("date", "unit"), ("binSize", "timezone", "startOfWeek"))
    _utc(scope, named, name)
    date, unit = _date(scope, named["date"], name).sql, _unit(scope, named, name)
    size = scope.constant(name, named.get("binSize", 1), int)
    if not 1 <= size <= 100_000_000_000:
        raise scope.refused(f"{name}: binSize {size} is not a positive number")
    if unit in _MONTHS:
        since = f"({_months(date)} - 24000)"
        months = size * _MONTHS[unit]
        count = f"CAST({since} - pmod({since}, {months}L) AS INT)"
        return Value(f"CAST(add_months(DATE '2000-01-01', {count}) AS TIMESTAMP)", DATETIME)
    origin_us = _first_day_us(scope, named, name) if unit == "week" else _ORIGIN_US
    us = f"unix_micros({date})"
    return Value(f"timestamp_micros({us} - pmod({us} - {origin_us}L, {size * UNITS_US[unit]}L))", DATETIME)


def _date_diff(scope: Scope, raw: Any) -> Value:
    name = "$dateDiff"
    named = scope.named(name, raw, ("startDate", "endDate", "unit"), ("timezone", "startOfWeek"))
    _utc(scope, named, name)
    unit = _unit(scope, named, name)
    start, end = _date(scope, named["startDate"], name).sql, _date(scope, named["endDate"], name).sql
    if unit in _MONTHS:
        counts = [f"floor({_months(one)} / {_MONTHS[unit]})" for one in (start, end)]
        return Value(f"CAST({counts[1]} - {counts[0]} AS BIGINT)", BIGINT)
    origin_us = _first_day_us(scope, named, name) if unit == "week" else 0
    counts = [_floor(f"(unix_micros({one}) - {origin_us}L)", UNITS_US[unit]) for one in (start, end)]
    return Value(f"({counts[1]} - {counts[0]})", BIGINT)


def _date_move(name: str, sign: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        named = scope.named(name, raw, ("startDate", "unit", "amount"), ("timezone",))
        _utc(scope, named, name)
        unit, date = _unit(scope, named, name), _date(scope, named["startDate"], name).sql
        amount = f"CAST({scope.number(named['amount'], name).sql} AS BIGINT)"
        if unit in _MONTHS:
            # the time of day stays
            clock = f"pmod(unix_micros({date}), {DAY}L)"
            day = f"add_months(CAST({date} AS DATE), CAST({sign}{amount} * {_MONTHS[unit]} AS INT))"
            return Value(f"timestamp_micros(unix_micros(CAST({day} AS TIMESTAMP)) + {clock})", DATETIME)
        return Value(f"timestamp_micros(unix_micros({date}) {sign} {amount} * {UNITS_US[unit]}L)", DATETIME)

    return build


def _part(name: str, sql: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        node = scope.arguments(name, raw, 1, 1)[0]
        if isinstance(node, Doc) and "date" in node:
            named = scope.named(name, node, ("date",), ("timezone",))
            _utc(scope, named, name)
            node = named["date"]
        return Value(f"CAST({sql.format(_date(scope, node, name).sql)} AS BIGINT)", BIGINT)

    return build


_FORMATS = {
    "Y": "yyyy",
    "m": "MM",
    "d": "dd",
    "H": "HH",
    "M": "mm",
    "S": "ss",
    "L": "SSS",
    "j": "DDD",
    "b": "MMM",
    "B": "MMMM",
    "z": "xx",
}


def _java_pattern(scope: Scope, name: str, node: Any) -> str:
    """A format of the product as a pattern of Spark's, as a literal."""
    pattern = ""
    for specifier, text in re.findall(r"%(.)|([^%]+|%)", scope.constant(name, node, str), re.DOTALL):
        if specifier in _FORMATS:
            pattern += _FORMATS[specifier]
        elif specifier in ("", "%"):
            pattern += "'" + (text or "%").replace("'", "''") + "'"
        else:
            raise scope.refused(f"{name}: '%{specifier}' cannot be replayed; %{', %'.join(_FORMATS)} can")
    return text_sql(pattern)


def _date_to_string(scope: Scope, raw: Any) -> Value:
    name = "$dateToString"
    named = scope.named(name, raw, ("date",), ("format", "timezone", "onNull"))
    _utc(scope, named, name)
    date = _date(scope, named["date"], name)
    pattern = _java_pattern(scope, name, named["format"]) if "format" in named else DATE_PATTERN
    return or_else(scope, date, Value(f"date_format({date.sql}, {pattern})", TEXT), None, named)


def _date_from_string(scope: Scope, raw: Any) -> Value:
    name = "$dateFromString"
    named = scope.named(name, raw, ("dateString",), ("format", "timezone", "onError", "onNull"))
    _utc(scope, named, name)
    text = scope.value(named["dateString"])
    want(text, TEXT)
    if kind_of(text.type) == "date":
        # a log may have the text as an instant already
        return text
    text = scope.as_text(text, name, named["dateString"])
    if "format" in named:
        sql = f"try_to_timestamp({text.sql}, {_java_pattern(scope, name, named['format'])})"
    else:
        sql = iso_date_sql(text.sql)
    fails = f"({text.sql} IS NOT NULL AND {sql} IS NULL)"
    return or_else(scope, text, Value(sql, DATETIME), fails, named)


def _date_from_parts(scope: Scope, raw: Any) -> Value:
    """Parts beyond their range move the next greater part."""
    name = "$dateFromParts"
    parts = {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "millisecond": 0}
    named = scope.named(name, raw, ("year",), (*parts, "timezone"))
    _utc(scope, named, name)
    numbers = {
        part: f"CAST({scope.number(named.get(part, least), name).sql} AS BIGINT)" for part, least in parts.items()
    }
    year = f"CAST({scope.number(named['year'], name).sql} AS INT)"
    month = f"add_months(make_date({year}, 1, 1), CAST({numbers['month']} - 1 AS INT))"
    rest = f"({numbers['day']} - 1) * {DAY}L"
    rest += "".join(f" + {numbers[part]} * {UNITS_US[part]}L" for part in ("hour", "minute", "second", "millisecond"))
    return Value(f"timestamp_micros(unix_micros(CAST({month} AS TIMESTAMP)) + {rest})", DATETIME)


DATES: dict[str, Operator] = {
    "$dateTrunc": _date_trunc,
    "$dateDiff": _date_diff,
    "$dateAdd": _date_move("$dateAdd", "+"),
    "$dateSubtract": _date_move("$dateSubtract", "-"),
    "$dateToString": _date_to_string,
    "$dateFromString": _date_from_string,
    "$dateFromParts": _date_from_parts,
    "$year": _part("$year", "year({0})"),
    "$month": _part("$month", "month({0})"),
    "$dayOfMonth": _part("$dayOfMonth", "day({0})"),
    "$dayOfWeek": _part("$dayOfWeek", "dayofweek({0})"),
    "$dayOfYear": _part("$dayOfYear", "dayofyear({0})"),
    "$hour": _part("$hour", "hour({0})"),
    "$minute": _part("$minute", "minute({0})"),
    "$second": _part("$second", "second({0})"),
    "$millisecond": _part("$millisecond", "(pmod(unix_micros({0}), 1000000L) div 1000L)"),
    "$week": _part("$week", "((dayofyear({0}) + 7 - dayofweek({0})) div 7)"),
    "$isoWeek": _part("$isoWeek", "weekofyear({0})"),
    "$isoDayOfWeek": _part("$isoDayOfWeek", "(weekday({0}) + 1)"),
    "$isoWeekYear": _part("$isoWeekYear", "extract(YEAROFWEEK FROM {0})"),
}
