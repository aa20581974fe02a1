"""What a job's expressions say about each row: plain columns from the payload, the rest from a shared evaluator."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from pipelines.core.errors import UsageError
from pipelines.core.model import Column
from pipelines.core.types import fields_of

Evaluate = Callable[[tuple[Column, ...], Sequence[Mapping[str, object]], Sequence[str]], list[tuple[object, ...]]]
"""(columns of the rows, rows, Spark SQL expressions) -> for each row the values of the expressions.

Instants go in and come back as ``int`` microseconds. Evaluating an expression over one row is not what the engines
are compared on, so they may share this.
"""

Reading = Mapping[str, object]
"""Expression text -> its value for one row."""

_DECIMAL = re.compile(r"decimal(?:\(\d+(?:,(\d+))?\))?")
_WIDE = Context(prec=100)
_NAME = re.compile(r"`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")


def quoted(name: str) -> str:
    """A column's name as Spark reads it literally."""
    return "`" + name.replace("`", "``") + "`"


def quoted_path(name: str) -> str:
    """``a.plate`` as the field ``plate`` of the column ``a``."""
    return ".".join(map(quoted, name.split(".")))


def plain_column(expression: str, columns: Sequence[Column]) -> Column | None:
    """The column that ``expression`` names and nothing more, in any case; None if it is more than a column."""
    found = plain_path(expression, columns)
    return None if found is None or len(found) > 1 else found[0]


def plain_path(expression: str, columns: Sequence[Column]) -> tuple[Column, ...] | None:
    """The column, then the struct's fields below it, that ``expression`` names and nothing more, in any case."""
    text = expression.strip()
    path: list[Column] = []
    for name in [text] if _named(text, columns) else _NAME.findall(text) if _PATH.fullmatch(text) else []:
        plain = name[1:-1].replace("``", "`") if name.startswith("`") else name
        found = _named(plain, fields_of(path[-1].type) if path else columns)
        if found is None:
            return None
        path.append(found)
    return tuple(path) or None


def _named(name: str, columns: Sequence[Column]) -> Column | None:
    return next((column for column in columns if column.name.lower() == name.lower()), None)


def read(
    columns: tuple[Column, ...],
    rows: Sequence[Mapping[str, object]],
    expressions: Sequence[str],
    evaluate: Evaluate | None,
) -> list[Reading]:
    """For each row the value of each expression, with one call of ``evaluate`` at most.

    Raises :class:`UsageError` if an expression is more than a column and ``evaluate`` is None.
    """
    wanted = list(dict.fromkeys(expressions))
    plain = {text: path for text in wanted if (path := plain_path(text, columns)) is not None}
    others = [text for text in wanted if text not in plain]
    evaluated: list[tuple[object, ...]] = [()] * len(rows)
    if others and rows:
        if evaluate is None:
            raise UsageError(
                f"'{others[0]}' is more than a column, and nothing was given to evaluate it",
                hint="pass 'evaluate' to the reference engine",
            )
        evaluated = evaluate(columns, rows, others)
        assert len(evaluated) == len(rows)
    return [
        {text: _at(path, row) for text, path in plain.items()} | dict(zip(others, values, strict=True))
        for row, values in zip(rows, evaluated if others else [()] * len(rows), strict=True)
    ]


def _at(path: Sequence[Column], row: Mapping[str, object]) -> object:
    """The value at the path; of null it is null."""
    value: object = row
    for column in path:
        value = as_declared(column, value[column.name]) if isinstance(value, Mapping) else None
    return value


def as_declared(column: Column, value: object) -> object:
    """``value`` as a column of that type holds it: decimals with the type's scale, FLOAT in single precision."""
    if isinstance(value, Decimal) and (match := _DECIMAL.fullmatch(column.type)):
        return value.quantize(Decimal(1).scaleb(-int(match[1] or 0)), ROUND_HALF_UP, _WIDE)
    if isinstance(value, float) and column.type == "float":
        try:
            single: float = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
        return single
    return value
