"""What a script says of the job's inputs: TIMESTAMP BY, and CREATE TABLE (Q4, Q5, Q29)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.model import Column, Input
from pipelines.core.steps import InputRows
from pipelines.job.sql.calls import path_of
from pipelines.job.sql.expressions.context import name_of
from pipelines.job.sql.grammar.syntax import Source as Named
from pipelines.job.sql.grammar.syntax import Table
from pipelines.job.sql.names import EVENT_FIELDS, Field, RowScope, Source
from pipelines.job.sql.places import Places
from pipelines.job.sql.relation import Relation
from pipelines.job.sql.spark_types import differs, type_of
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Map, Record, Type
from pipelines.job.sql.values import Values

_TYPES = {
    exp.DType.BIGINT: BIGINT,
    exp.DType.FLOAT: FLOAT,
    exp.DType.NVARCHAR: TEXT,
    exp.DType.DATETIME: DATETIME,
    exp.DType.BIT: BIT,
}
_RECORDS: dict[str, tuple[type[Type], ...]] = {"RECORD": (Record, Map), "ARRAY": (Array,)}


def job_name(name: str) -> str:
    """What a job file calls an input, reference or output of a script: in lower case, ``_`` for what is no letter or
    digit."""
    return re.sub(r"[^a-z0-9_]", "_", name.lower())


def column_fields(columns: tuple[Column, ...]) -> tuple[Field, ...]:
    """Declared columns as expressions see them."""
    return tuple(Field(one.name, type_of(one.type), one.name, differs(one.type)) for one in columns)


@dataclass
class Inputs:
    """The inputs of the job as the script reads them: one for each input and each way of telling its time."""

    inputs: Mapping[str, Input]
    values: Values
    read: dict[str, Input] = field(default_factory=dict)
    """What has been read so far, in the order of the script."""

    @property
    def _places(self) -> Places:
        return self.values.places

    def relation(self, named: Named) -> Relation:
        """The rows of an input with the clauses of this use of it."""
        given = self.inputs[job_name(named.name.name)]
        name = self._read_as(given, self._timed(given, named), named)
        payload = column_fields(given.columns)
        known = {one.name.lower() for one in payload}
        metadata = tuple(one for one in EVENT_FIELDS if one.name.lower() not in known)
        return Relation(InputRows(name), (*payload, *metadata))

    def all(self) -> tuple[Input, ...]:
        """The job's inputs with what the script says of them, and the further ones that read the same logs."""
        own = [self.read.get(name, one) for name, one in self.inputs.items()]
        return (*own, *(one for name, one in self.read.items() if name not in self.inputs))

    def _timed(self, given: Input, named: Named) -> Input:
        """The input with this use's TIMESTAMP BY and OVER, or as the job file has it."""
        if named.timestamp_by is None:
            return given
        scope = RowScope(
            self._places, (Source(named.called.name, column_fields(given.columns)),), timeless="in TIMESTAMP BY"
        )
        over = tuple(self._over(given, one) for one in named.over)
        path = path_of(named.timestamp_by)
        column = given.column(path[-1]) if path else None
        if path and column is None and path[-1] == "eventenqueuedutctime":
            timestamp_by = None  # the arrival time, which is what an input without TIMESTAMP BY has
        else:
            typed = self.values.of(named.timestamp_by, scope)
            if typed.type not in (DATETIME, TEXT):
                raise self._places.refused(
                    named.timestamp_by,
                    f"TIMESTAMP BY takes a datetime, not {name_of(typed.type)}:"
                    " convert it, for example DATEADD(millisecond, n, '1970-01-01')",
                )
            plain = column is not None and typed.sql == quoted(column.name)
            timestamp_by = column.name if column is not None and plain else typed.sql
        found = replace(given, timestamp_by=timestamp_by, over=tuple(one for one in over if one is not None))
        if given.timestamp_by is not None and not _same(given, found):
            raise self._places.refused(
                named.timestamp_by,
                f"the job file has timestamp_by: {given.timestamp_by}"
                + (f", over: [{', '.join(given.over)}]" if given.over else "")
                + f" for input '{given.name}', and the script another time: leave it out in one of them",
            )
        return given if given.timestamp_by is not None else found

    def _over(self, given: Input, node: exp.Expr) -> str | None:
        """The column of OVER; None for PartitionId, since time passes in each partition apart anyway."""
        path = path_of(node)
        column = given.column(path[-1]) if path and len(path) <= 2 else None
        if column is not None:
            return column.name
        if path and path[-1] == "partitionid":
            return None
        raise self._places.refused(node, "OVER takes columns of the input")

    def _read_as(self, given: Input, timed: Input, named: Named) -> str:
        """The name of the input that tells the time so; a further one reads the same log (Q5)."""
        same = [one for one in self.read.values() if given.name in (one.name, one.same_log_as) and _same(one, timed)]
        if same:
            return same[0].name
        if given.name not in self.read:
            self.read[given.name] = timed
            return given.name
        if given.same_log_as is not None:
            raise self._places.refused(
                named.start, f"'{given.name}' is read with two times: read '{given.same_log_as}' with one of them"
            )
        count = 2
        while (name := f"{given.name}_{count}") in self.inputs or name in self.read:
            count += 1
        self.read[name] = replace(timed, name=name, same_log_as=given.name)
        return name

    def check(self, table: Table, columns: tuple[Column, ...]) -> None:
        """CREATE TABLE names the columns that the job file has, with their types."""
        known = {one.name.lower(): one for one in columns}
        for name, kind in table.columns:
            column = known.pop(name.name.lower(), None)
            if column is None:
                hint = did_you_mean(name.name, [one.name for one in columns])
                raise self._places.refused(
                    name, f"the job file has no column '{name.name}' in '{table.name.name}'; {hint}"
                )
            if not _agrees(kind, type_of(column.type)):
                here, there = kind.sql("tsql").lower(), column.type.upper()
                raise self._places.refused(
                    kind, f"column '{name.name}' is {here} here and {there} in the job file: make them agree"
                )
        if known:
            missing = ", ".join(one.name for one in known.values())
            raise self._places.refused(
                table.name, f"CREATE TABLE {table.name.name} lacks columns of the job file: {missing}; make them agree"
            )


def _agrees(kind: exp.DataType, type_: Type) -> bool:
    """Is it the type of the query language that ``kind`` names?"""
    if kind.this in _TYPES:
        return _TYPES[kind.this] == type_
    return isinstance(type_, _RECORDS.get(kind.sql("tsql").upper(), ()))


def _same(one: Input, other: Input) -> bool:
    """Do both tell the time alike?"""
    over = [{name.lower() for name in part.over} for part in (one, other)]
    return over[0] == over[1] and _plain(one.timestamp_by) == _plain(other.timestamp_by)


def _plain(expression: str | None) -> str | None:
    """The expression without differences of case and quotes."""
    if expression is None:
        return None
    tree = sqlglot.parse_one(expression, read="spark")
    for identifier in tree.find_all(exp.Identifier):
        identifier.set("this", identifier.name.lower())
        identifier.set("quoted", False)
    return tree.unnest().sql("spark")
