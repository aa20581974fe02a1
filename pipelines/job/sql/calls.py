"""Which calls of a script are aggregates, analytic functions and windows, and what their arguments may be."""

from __future__ import annotations

from sqlglot import exp

from pipelines.core.time import DAY, UNIT_US
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.places import Places

_PLAIN = ("AVG", "COUNT", "MAX", "MIN", "STDEV", "STDEVP", "SUM", "VAR", "VARP")
AGGREGATES = frozenset({*_PLAIN, "COLLECT", "COLLECTTOP", "PERCENTILE_CONT", "PERCENTILE_DISC", "TOPONE"})
ANALYTIC = frozenset({"LAG", "LAST", "ISFIRST"})
WINDOWS = frozenset({"TUMBLINGWINDOW", "HOPPINGWINDOW", "SLIDINGWINDOW", "SESSIONWINDOW", "WINDOWS"})
_SHORT = {"TUMBLING", "HOPPING", "SLIDING", "SESSION"}

_UNITS = {
    "day": ("day", "days", "dd", "d"),
    "hour": ("hour", "hours", "hh"),
    "minute": ("minute", "minutes", "mi", "n"),
    "second": ("second", "seconds", "ss", "s"),
    "millisecond": ("millisecond", "ms"),
    "microsecond": ("microsecond", "mcs"),
}
_MOST = 10**12
_LONGEST_US = 36_525 * DAY
_UNIT_OF = {short: unit for unit, names in _UNITS.items() for short in names}


def called(node: exp.Expr) -> str:
    """The name of the function that is called, in upper case; of anything else ''. OVER is looked through.

    ``UDF.sum(x)`` calls the user's function, not SUM.
    """
    if isinstance(node, Over):
        return called(node.this)
    if isinstance(node.parent, exp.Dot) and node.parent.expression is node:
        return ""
    if isinstance(node, exp.Anonymous) and isinstance(node.this, str):
        name = node.this.upper()
        return f"{name}WINDOW" if name in _SHORT else name
    return ""


def arguments(node: exp.Expr) -> list[exp.Expr]:
    """The arguments of a call."""
    return arguments(node.this) if isinstance(node, Over) else list(node.expressions)


def is_analytic(node: exp.Expr) -> bool:
    """LAG, LAST, ISFIRST, or an aggregate OVER the rows of a duration (Q73)."""
    name = called(node)
    return name in ANALYTIC or (name in AGGREGATES and isinstance(node, Over) and not _is_ordered_alone(node))


def is_aggregate(node: exp.Expr) -> bool:
    """An aggregate over a window's rows."""
    return called(node) in AGGREGATES and not is_analytic(node)


def _is_ordered_alone(node: Over) -> bool:
    """``TopOne() OVER (ORDER BY x)`` and percentiles are aggregates of a group."""
    return not any(node.args.get(key) for key in ("limit", "partition_by", "when"))


def is_window(node: exp.Expr) -> bool:
    return called(node) in WINDOWS


def is_timestamp(node: exp.Expr) -> bool:
    """``System.Timestamp()``, with parentheses or without."""
    return _is_of_system(node, "TIMESTAMP") or path_of(node) == ("system", "timestamp")


def is_window_id(node: exp.Expr) -> bool:
    """``System.Window().Id``."""
    return isinstance(node, exp.Dot) and node.name.upper() == "ID" and _is_of_system(node.this, "WINDOW")


def _is_of_system(node: exp.Expr, function: str) -> bool:
    if not isinstance(node, exp.Dot) or path_of(node.this) != ("system",):
        return False
    call = node.expression
    return isinstance(call, exp.Anonymous) and call.name.upper() == function and not call.expressions


def path_of(node: exp.Expr) -> tuple[str, ...]:
    """The names of a column's path in lower case; of anything else ()."""
    if isinstance(node, exp.Column):
        return tuple(part.name.lower() for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier) and (start := path_of(node.this)):
        return (*start, node.expression.name.lower())
    return ()


def unit(node: exp.Expr, places: Places) -> str:
    """The unit of a duration, as :data:`~pipelines.core.time.UNIT_US` names it."""
    name = ".".join(path_of(node))
    if name not in _UNIT_OF:
        raise places.refused(
            node, f"'{name or 'this'}' is not a unit of constant length here: use day, hour, minute, second, ms or mcs"
        )
    return _UNIT_OF[name]


def whole(node: exp.Expr, places: Places) -> int:
    """The value of a constant whole number, such as ``-5`` or ``5 * 60``."""
    number = _whole(node, places)
    if abs(number) > _MOST:
        raise places.refused(node, f"a number beyond {_MOST:,} cannot stand here")
    return number


def _whole(node: exp.Expr, places: Places) -> int:
    match node:
        case exp.Literal() if not node.is_string and node.name.isdigit():
            return int(node.name)
        case exp.Paren():
            return _whole(node.this, places)
        case exp.Neg():
            return -_whole(node.this, places)
        case exp.Mul():
            return _whole(node.this, places) * _whole(node.expression, places)
        case exp.Add():
            return _whole(node.this, places) + _whole(node.expression, places)
        case exp.Sub():
            return _whole(node.this, places) - _whole(node.expression, places)
    raise places.refused(node, "a constant whole number must stand here")


def length_us(unit_node: exp.Expr, count: exp.Expr, places: Places, *, least: int | None = 1) -> int:
    """The microseconds of ``(unit, count)``."""
    number = whole(count, places)
    if least is not None and number < least:
        raise places.refused(count, f"a duration of {number} cannot stand here: it must be {least} or more")
    return in_us(UNIT_US[unit(unit_node, places)], number, count, places)


def in_us(unit_us: int, number: int, node: exp.Expr, places: Places) -> int:
    """The microseconds of so many units; instants are microseconds in 64 bits, and all sums of them, too."""
    if abs(number * unit_us) > _LONGEST_US:
        raise places.refused(node, "a duration of more than 100 years cannot stand here")
    return number * unit_us
