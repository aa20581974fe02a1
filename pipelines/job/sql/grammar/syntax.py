"""The statements of a script, as they are written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class Source:
    """A name in FROM or JOIN, with its clauses; ``start`` is its offset in the script, as in all of these."""

    name: exp.Identifier
    alias: exp.Identifier | None
    timestamp_by: exp.Expr | None
    over: tuple[exp.Expr, ...]
    partition_by: tuple[exp.Expr, ...]
    start: int

    @property
    def called(self) -> exp.Identifier:
        """What the rest of the SELECT calls it."""
        return self.alias or self.name


@dataclass(frozen=True, slots=True)
class Joining:
    """``[LEFT] JOIN source ON condition``."""

    kind: Literal["inner", "left"]
    source: Source
    on: exp.Expr
    start: int


@dataclass(frozen=True, slots=True)
class Applying:
    """``CROSS APPLY call AS alias`` or ``OUTER APPLY``."""

    call: exp.Expr
    alias: exp.Identifier
    outer: bool
    start: int


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of a select list: an expression, ``*`` as Star, ``x.*`` as a Dot of which the last part is a Star."""

    value: exp.Expr
    alias: exp.Identifier | None
    start: int


@dataclass(frozen=True, slots=True)
class Select:
    """One SELECT."""

    items: tuple[Item, ...]
    into: exp.Identifier | None
    source: Source
    clauses: tuple[Joining | Applying, ...]
    where: exp.Expr | None
    group_by: tuple[exp.Expr, ...]
    having: exp.Expr | None
    start: int


@dataclass(frozen=True, slots=True)
class Union:
    """``SELECT .. UNION SELECT ..``, two branches or more."""

    branches: tuple[Select, ...]
    start: int


Rows = Select | Union


@dataclass(frozen=True, slots=True)
class Named:
    """One step of WITH."""

    name: exp.Identifier
    rows: Rows


@dataclass(frozen=True, slots=True)
class Table:
    """``CREATE TABLE input (column type, ..)``."""

    name: exp.Identifier
    columns: tuple[tuple[exp.Identifier, exp.DataType], ...]


@dataclass(frozen=True, slots=True)
class Script:
    """All statements of a script."""

    tables: tuple[Table, ...]
    steps: tuple[Named, ...]
    outputs: tuple[Rows, ...]

    def sources(self) -> Iterator[Source]:
        """Every use of an input, reference data or step."""
        for rows in (*(step.rows for step in self.steps), *self.outputs):
            for select in rows.branches if isinstance(rows, Union) else (rows,):
                yield select.source
                yield from (one.source for one in select.clauses if isinstance(one, Joining))
