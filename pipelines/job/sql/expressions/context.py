"""Where an expression stands: how its parts are translated, and how a message names its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from sqlglot import exp

from pipelines.job.sql.expressions.values import Failure, Value, text
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.scope import Scope, Settings
from pipelines.job.sql.types import TEXT, Array, Map, Opaque, Record, Type


@dataclass(frozen=True, slots=True)
class Context:
    """``translate`` gives the value of a part of the expression."""

    scope: Scope
    settings: Settings
    translate: Callable[[exp.Expr], Value]

    def refused(self, node: exp.Expr, what: str) -> Refused:
        """The error that refuses ``node``; ``what`` includes what to do instead."""
        return Refused(what, *self.scope.place(node))

    def failing(self, node: exp.Expr, value: Value, what: str, condition: str, *shown: Value) -> Value:
        """The value, which is null where ``condition`` is true; then the run stops.

        The message gives the place of ``node``, ``what``, the values ``shown`` and the row's time, if it has one.
        """
        line, column = self.scope.place(node)
        start = f"{self.settings.file}:{line}:{column}: {what}"
        values = [f", {text(': ' if index == 0 else ', ')}, {_shown(one)}" for index, one in enumerate(shown)]
        time = self.scope.time
        row = f", {text('; row at ')}, coalesce(date_format({time}, {text(_INSTANT)}), 'null')" if time else ""
        message = f"concat({text(start)}{''.join(values)}{row})"
        return replace(value, failures=(*value.failures, Failure(condition, message)))

    def not_null(self, node: exp.Expr, value: Value, what: str, *inputs: Value) -> Value:
        """The value, which is null only where one of ``inputs`` is null; elsewhere null stops the run."""
        given = [f"{one.sql} IS NOT NULL" for one in inputs if one.constant is None]
        return self.failing(node, value, what, " AND ".join([*given, f"{value.sql} IS NULL"]), *inputs)


_INSTANT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"


def _shown(value: Value) -> str:
    """The value as a message shows it; of text the first 100 characters."""
    if value.type == TEXT:
        return f"concat('\\'', left({value.sql}, 100), '\\'')" if value.constant is None else text(repr(value.constant))
    return f"coalesce(CAST({value.sql} AS STRING), 'null')"


def name_of(type_: Type) -> str:
    """The type as messages name it."""
    match type_:
        case Record() | Map():
            return "record"
        case Array():
            return "array"
        case Opaque(spark):
            return spark
        case _:
            return type_.name
