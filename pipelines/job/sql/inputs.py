"""A script's clauses about inputs: TIMESTAMP BY, and CREATE TABLE (Q4, Q5, Q29)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sqlglot
from sqlglot import exp

from pipelines.core.columns import is_called
from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.model import Column, Input
from pipelines.core.steps import SYSTEM_TIMESTAMP, InputRows
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
    digit, and ``n`` before a digit or ``_`` at its beginning."""
    plain = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return plain if plain[:1].isalpha() else f"n{plain}"


def column_fields(columns: tuple[Column, ...]) -> tuple[Field, ...]:
    """Declared columns as expressions see them."""
    return tuple(Field(one.name, type_of(one.type), one.name, differs(one.type)) for one in columns)


@dataclass
class Inputs:
    """The inputs of the job as the script reads them: one for each input and each of its event times."""

    inputs: Mapping[str, Input]
    values: Values
    read: dict[str, Input] = field(default_factory=dict)
    """What has been read so far, in the order of the script."""
    complete: set[str] = field(default_factory=set)
    """Inputs whose columns CREATE TABLE names."""

    @property
    def _places(self) -> Places:
        return self.values.places

    def relation(self, named: Named) -> Relation:
        """The rows of an input with the clauses of this use of it."""
        given = self.inputs[job_name(named.name.name)]
        if given.column(SYSTEM_TIMESTAMP) is not None:
            raise self._places.refused(
                named.start,
                f"input '{given.name}' has a column {SYSTEM_TIMESTAMP}, as the time of each row is called:"
                " give it another name in the job file",
            )
        name = self._read_as(given, self._timed(given, named), named)
        payload = column_fields(given.columns)
        known = {one.name.lower() for one in payload}
        metadata = tuple(one for one in EVENT_FIELDS if one.name.lower() not in known)
        return Relation(InputRows(name), (*payload, *metadata))

    def all(self) -> tuple[Input, ...]:
        """The job's inputs with the script's TIMESTAMP BY, and the further ones that read the same logs."""
        own = [self.read.get(name, one) for name, one in self.inputs.items()]
        further = (one for name, one in self.read.items() if name not in self.inputs)
        return tuple(replace(one, complete=one.log in self.complete) for one in (*own, *further))

    def _timed(self, given: Input, named: Named) -> Input:
        """The input with the TIMESTAMP BY and OVER of this use, as the job file has it if it has one with that time."""
        if named.timestamp_by is None:
            return given
        over = tuple(self._over(given, one) for one in named.over)
        found = replace(
            given,
            timestamp_by=self._time(given, named.called.name, named.timestamp_by),
            over=tuple(one for one in over if one is not None),
        )
        over_its_log = [one for one in self.inputs.values() if one.same_log_as == given.name]
        declared = [one for one in (given, *over_its_log) if one.timestamp_by is not None and _same(one, found)]
        if declared or given.timestamp_by is None:
            return declared[0] if declared else found
        there = f"timestamp_by: {given.timestamp_by}" + (f", over: [{', '.join(given.over)}]" if given.over else "")
        raise self._places.refused(
            named.timestamp_by,
            f"the job file has {there} for input '{given.name}', and the script another time: leave it out in one of"
            " them",
        )

    def _time(self, given: Input, called: str, node: exp.Expr) -> str | None:
        """Spark SQL of the event time; None for the arrival time, which an input without TIMESTAMP BY has."""
        path = path_of(node)
        own = path[1:] if len(path) == 2 and path[0] == called.lower() else path
        column = given.column(own[0]) if len(own) == 1 else None
        if own == ("eventenqueuedutctime",) and column is None:
            return None
        # an event without a valid time is dropped at the input, whatever a failing expression does elsewhere
        values = Values(self._places, replace(self.values.settings, on_cast_error="null"))
        scope = RowScope(self._places, (Source(called, column_fields(given.columns)),), timeless="in TIMESTAMP BY")
        typed = values.of(node, scope, stops=False)
        if typed.type not in (DATETIME, TEXT):
            raise self._places.refused(
                node,
                f"TIMESTAMP BY takes a datetime, not {name_of(typed.type)}:"
                " convert it, for example DATEADD(millisecond, n, '1970-01-01')",
            )
        return column.name if column is not None and typed.sql == quoted(column.name) else typed.sql

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
        """The name of the input with this event time; a further one reads the same log (Q5)."""
        same = [one for one in self.read.values() if given.name in (one.name, one.same_log_as) and _same(one, timed)]
        if same:
            return same[0].name
        if timed.name not in self.read:
            self.read[timed.name] = timed
            return timed.name
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
        self.complete.add(job_name(table.name.name))
        known = {one.name.lower(): one for one in columns}
        for name, kind in table.columns:
            column = known.pop(next((one for one in known if is_called(one, name.name)), ""), None)
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
    """Have both the same event time?"""
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
