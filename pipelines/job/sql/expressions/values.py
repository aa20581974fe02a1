"""A translated expression on its way: Spark SQL that is null where it fails, and the conditions under which it fails.

What fails must stop the run (Q34, Q35, Q37), but a check around each operator would repeat the text of its operands
once for each level. So an operator that gives null for null only collects what may have failed below it; the check is
made once, by :func:`settled`, where the value is used or where its being null would have a meaning of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pipelines.job.sql.types import BIGINT, FLOAT, NULL, TEXT, Type


@dataclass(frozen=True, slots=True)
class Failure:
    """Where ``condition`` is true the run stops with ``message``. Both are Spark SQL over the row."""

    condition: str
    message: str


@dataclass(frozen=True, slots=True)
class Value:
    """Spark SQL that stands for itself inside any other: a name, a literal, a call, or something in brackets.

    ``sql`` never stops the run, and is null wherever one of ``failures`` holds. ``checked`` is the same with the checks
    that :func:`settled` has put inside, if there are any: conditions and messages repeat the text without them.
    ``kept_if``: see :class:`~pipelines.job.sql.types.Typed`. ``constant`` is the value of a literal.
    """

    sql: str
    type: Type
    failures: tuple[Failure, ...] = ()
    kept_if: tuple[str, ...] = ()
    checked: str | None = None
    constant: int | float | str | None = None

    @property
    def stopping(self) -> str:
        """Spark SQL that stops the run where a part that has been settled failed."""
        return self.checked or self.sql


def strict(template: str, type_: Type, *values: Value) -> Value:
    """``template`` with ``{0}``, ``{1}``, .. for the values. It gives null where one of them is null."""
    return Value(
        template.format(*(value.sql for value in values)),
        type_,
        tuple(dict.fromkeys(failure for value in values for failure in value.failures)),
        kept(values),
        template.format(*(value.stopping for value in values)) if any(value.checked for value in values) else None,
    )


def lenient(template: str, type_: Type, *values: Value) -> Value:
    """As :func:`strict`, for a template that may give something else than null where a value is null."""
    return strict(template, type_, *map(settled, values))


def settled(value: Value) -> Value:
    """The value, which stops the run where it failed."""
    if not value.failures:
        return value
    cases = " ".join(f"WHEN {one.condition} THEN raise_error({one.message})" for one in value.failures)
    return replace(value, failures=(), checked=f"coalesce({value.stopping}, CASE {cases} END)")


def kept(values: Iterable[Value]) -> tuple[str, ...]:
    """The conditions of all values, each once."""
    return tuple(dict.fromkeys(condition for value in values for condition in value.kept_if))


def unless(condition: str, conditions: Iterable[str]) -> tuple[str, ...]:
    """``conditions``, which count only where ``condition`` is not true."""
    return tuple(f"(coalesce({condition}, false) OR {one})" for one in conditions)


def typed(value: Value, type_: Type) -> Value:
    """The value under another type that has the same form in Spark."""
    return replace(value, type=type_)


def text(content: str) -> str:
    """A Spark SQL literal. Neither an escape nor ``${..}``, which Spark would replace, has a meaning in it."""
    escaped = content.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\u0024{")
    return f"'{escaped}'"


def text_literal(content: str) -> Value:
    return Value(text(content), TEXT, constant=content)


def bigint_literal(number: int) -> Value:
    return Value(f"{number}L" if number >= 0 else f"({number}L)", BIGINT, constant=number)


def float_literal(number: float) -> Value:
    return Value(f"{number!r}D" if number >= 0 else f"({number!r}D)", FLOAT, constant=number)


NULL_VALUE = Value("NULL", NULL)
