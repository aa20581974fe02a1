"""A call of a function: its arguments, each as the type that the function wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.conversions import convert, number
from pipelines.job.sql.expressions.values import Value, bigint_literal, strict
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.types import BIGINT, DATETIME, NULL, TEXT


@dataclass(frozen=True, slots=True)
class Call:
    """``name`` is in upper case. What has the wrong type and cannot be converted is refused (Q35, Q38)."""

    context: Context
    node: exp.Expr
    name: str
    arguments: tuple[exp.Expr, ...]

    def __len__(self) -> int:
        return len(self.arguments)

    def refused(self, what: str, index: int | None = None) -> Refused:
        return self.context.refused(self.node if index is None else self.arguments[index], f"{self.name}: {what}")

    def value(self, index: int) -> Value:
        return self.context.translate(self.arguments[index])

    def text(self, index: int) -> Value:
        value = self.value(index)
        if value.type not in (TEXT, NULL):
            raise self.refused(f"{name_of(value.type)} stands where text is due; CAST it to nvarchar(max)", index)
        return convert(self.context, self.arguments[index], value, TEXT)

    def number(self, index: int) -> Value:
        """A bigint or a float, as it is."""
        return number(self.context, self.arguments[index], self.value(index))

    def bigint(self, index: int) -> Value:
        """A bigint; a float is cut towards zero."""
        return convert(self.context, self.arguments[index], self.number(index), BIGINT)

    def datetime(self, index: int) -> Value:
        return convert(self.context, self.arguments[index], self.value(index), DATETIME)

    def integer(self, index: int, least: int = -500_000_000, most: int = 500_000_000) -> Value:
        """A number that Spark takes as INT: what lies outside of the bounds becomes the bound."""
        value = self.bigint(index)
        if isinstance(value.constant, int):
            return bigint_literal(min(max(value.constant, least), most))
        cut = f"CASE WHEN {{0}} < {least}L THEN {least}L WHEN {{0}} > {most}L THEN {most}L ELSE {{0}} END"
        return strict(cut, BIGINT, value)

    def constant(self, index: int, what: str) -> str:
        """The content of a text literal."""
        value = self.value(index)
        if not isinstance(value.constant, str):
            raise self.refused(f"{what} must be a literal, which can be checked before the run", index)
        return value.constant

    def fatal_below_zero(self, result: Value, index: int) -> Value:
        """The result, but null where the argument is negative, which stops the run (Q35)."""
        length = self.bigint(index)
        if isinstance(length.constant, int):
            if length.constant < 0:
                raise self.refused("the length is negative", index)
            return result
        given = strict("CASE WHEN {1} >= 0L THEN {0} END", result.type, result, length)
        what = f"{self.name}: the length is negative"
        return self.context.failing(self.arguments[index], given, what, f"{length.sql} < 0L", length)


@dataclass(frozen=True, slots=True)
class Function:
    """``build`` gets calls with ``least`` to ``most`` arguments; None: any number."""

    build: Callable[[Call], Value]
    least: int
    most: int | None
