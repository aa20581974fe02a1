"""What an expression of a script is translated against: the names it sees and the job's settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from sqlglot import exp

from pipelines.job.sql.types import Typed


@dataclass(frozen=True, slots=True)
class UserFunction:
    """What ``functions`` of the job file gives for ``udf.name(..)``: Spark SQL over the names of its arguments."""

    arguments: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of the job file that expressions depend on. ``file`` is the script as messages name it."""

    file: str
    string_comparison: Literal["exact", "ignore_case"] = "exact"
    on_cast_error: Literal["fail", "null", "drop_row"] = "fail"
    functions: Mapping[str, UserFunction] = field(default_factory=dict)
    """By the name of the user's function, in lower case."""


class Scope(Protocol):
    """The names that an expression sees where it stands.

    ``time`` is Spark SQL of the row's system timestamp: ``System.Timestamp()``, and the row that messages name. It is
    empty where rows have none.
    """

    @property
    def time(self) -> str: ...

    def resolve(self, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """A column, or what the path leads to in records (Q42), without case; Refused where there is none."""
        ...

    def within(self, record: Typed, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """What ``path`` leads to in a record (Q42), without case; Refused where there is none."""
        ...

    def call(self, node: exp.Expr) -> Typed | None:
        """The value of a node that the clause knows: System.Timestamp(), an aggregate, an analytic function, a key.

        None if the node is none of these; the translator then translates it itself. It asks for every node but
        literals, the outer before the inner.
        """
        ...

    def place(self, node: exp.Expr) -> tuple[int, int]:
        """Line and column of a node in the file, counted from 1."""
        ...
