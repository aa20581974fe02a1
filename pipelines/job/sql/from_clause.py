"""FROM, JOIN and APPLY of one SELECT, with its analytic functions (Q9 to Q19, Q41, Q44, Q76)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from pipelines.core.steps import EVENT_COLUMNS, SYSTEM_TIMESTAMP, Analysed, Applied
from pipelines.job.sql.analytic import Analysis, analytic
from pipelines.job.sql.calls import arguments, called, is_analytic, path_of
from pipelines.job.sql.expressions.values import text
from pipelines.job.sql.grammar.syntax import Applying, Joining, Select
from pipelines.job.sql.grammar.syntax import Source as Named
from pipelines.job.sql.joins import columns, reference_join, stream_join
from pipelines.job.sql.names import Field, RowScope, Shape, Source, fields
from pipelines.job.sql.relation import Frame, Partition, Relation, frame
from pipelines.job.sql.types import BIGINT, FLOAT, TEXT, Array, Map, Record, Type
from pipelines.job.sql.values import Values, kept

Find = Callable[[Named], Relation]
"""The relation that a name in FROM or JOIN stands for, with its TIMESTAMP BY."""
Check = Callable[[Joining, Frame, Frame], None]


def joined(select: Select, find: Find, check: Check, values: Values) -> Frame:
    """The rows of FROM with what is joined to and applied to them, and the values of the analytic functions."""
    return _From(select, find, check, values).build()


class _From:
    def __init__(self, select: Select, find: Find, check: Check, values: Values) -> None:
        self.select = select
        self.find = find
        self.check = check
        self.values = values
        self.places = values.places
        self.calls = list(_analytic_calls(select))
        self.found = 0

    def build(self) -> Frame:
        clauses = list(self.select.clauses)
        named = [self.select.source, *(one.source for one in clauses if isinstance(one, Joining))]
        bases = [self._base(one) for one in named]
        self._check_names(named, clauses)
        result, rest = bases[0], bases[1:]
        joins = [index for index, one in enumerate(clauses) if isinstance(one, Joining)]
        first = joins[0] if joins else len(clauses)
        for clause in clauses[:first]:
            assert isinstance(clause, Applying)
            result = self._applied(result, clause)
        owned = self._owned([result, *rest])
        result = self._analysed(result, owned.pop(0))
        for clause in clauses[first:]:
            if isinstance(clause, Applying):
                result = self._applied(result, clause)
            else:
                result = self._join(result, self._analysed(rest.pop(0), owned.pop(0)), clause)
        return result

    def _base(self, named: Named) -> Frame:
        base = frame(self.find(named), named.called.name)
        scope = base.scope(self.places)
        partition = tuple(self._partition(one, scope) for one in named.partition_by)
        if base.is_reference:
            if partition:
                raise self.places.refused(named.start, "reference data is not partitioned: leave PARTITION BY out")
            base = replace(base, sources=tuple(replace(one, has_time=False) for one in base.sources))
        return replace(base, partition=partition)

    def _partition(self, node: exp.Expr, scope: RowScope) -> Partition:
        path = path_of(node)
        if not path:
            raise self.places.refused(node, "PARTITION BY takes columns: compute the value in an earlier step")
        source, found, rest = scope.find(path, node)
        if rest:
            raise self.places.refused(node, "PARTITION BY takes columns: compute the value in an earlier step")
        return Partition(source.name, found, found.name.lower() == "partitionid")

    def _check_names(self, named: Sequence[Named], clauses: Sequence[Joining | Applying]) -> None:
        seen: set[str] = set()
        for name in (*(one.called for one in named), *(one.alias for one in clauses if isinstance(one, Applying))):
            if name.name.lower() in seen:
                raise self.places.refused(name, f"two sources are called '{name.name}': give one of them an alias")
            seen.add(name.name.lower())

    # analytic functions: each belongs to one stream, and sees its rows before they are joined

    def _owned(self, bases: Sequence[Frame]) -> list[list[exp.Expr]]:
        """The calls that belong to each of the sources."""
        scope = RowScope(self.places, tuple(source for one in bases for source in one.sources))
        owned: list[list[exp.Expr]] = [[] for _ in bases]
        streams = [index for index, one in enumerate(bases) if not one.is_reference]
        for call in self.calls:
            sources = {scope.find(path_of(one), one)[0].name for one in columns(call, scope)}
            owners = [index for index, one in enumerate(bases) if sources & {source.name for source in one.sources}]
            if not sources and len(streams) == 1:
                owners = streams
            if len(owners) != 1 or owners[0] not in streams:
                raise self.places.refused(
                    call, f"{called(call)} in a join looks at columns of one stream: compute it in an earlier step"
                )
            owned[owners[0]].append(call)
        return owned

    def _analysed(self, base: Frame, calls: Sequence[exp.Expr]) -> Frame:
        if not calls:
            return base
        scope = base.scope(self.places)
        partition = base.partitioned_by()
        apart = [typed for one, typed in partition if one.by_input]
        analyses: list[Analysis] = []
        looked_up: dict[Shape, Source] = {}
        for call in calls:
            shape = scope.shape(call)
            if shape in looked_up:
                continue
            self.found += 1
            analysis = analytic(call, f"__analytic_{self.found}", scope, self.values, apart)
            for one, typed in partition:
                if typed.sql not in analysis.function.partition_by:
                    raise self.places.refused(
                        call, f"{called(call)} must have {one.field.name} in its PARTITION BY, as its source has"
                    )
            analyses.append(analysis)
            looked_up[shape] = Source("", fields([(analysis.function.name, analysis.type)]))
        rows = kept(base.rows, (read for one in analyses for read in one.reads))
        analysed = Analysed(rows, tuple(one.function for one in analyses))
        return replace(base, rows=analysed, looked_up=looked_up)

    def _join(self, left: Frame, right: Frame, joining: Joining) -> Frame:
        if left.is_reference:
            raise self.places.refused(
                self.select.source.start, "reference data stands on the right of JOIN: begin FROM with the stream"
            )
        self.check(joining, left, right)
        join = reference_join if right.is_reference else stream_join
        return join(left, right, joining, self.values)

    def _applied(self, base: Frame, applying: Applying) -> Frame:
        if base.is_reference:
            raise self.places.refused(applying.start, "APPLY over reference data is not offered: apply after the join")
        call = applying.call
        function, given = called(call), arguments(call)
        if function not in ("GETARRAYELEMENTS", "GETRECORDPROPERTIES") or len(given) != 1:
            raise self.places.refused(call, "APPLY takes GetArrayElements(array) or GetRecordProperties(record)")
        argument = self.values.of(given[0], base.scope(self.places))
        taken = {field.column.lower() for one in base.sources if not one.prefix for field in one.fields}
        taken |= {one.prefix[0].lower() for one in base.sources if one.prefix} | {SYSTEM_TIMESTAMP, *EVENT_COLUMNS}
        name = applying.alias.name
        while name.lower() in taken:
            name = f"__{name}"
        sql, element = argument.sql, argument.type
        if function == "GETARRAYELEMENTS":
            if not isinstance(element, Array):
                raise self.places.refused(given[0], "GetArrayElements takes an array: declare the column as ARRAY")
            rows = Applied(kept(base.rows, [argument]), sql, name, "array", applying.outer)
            parts = [("ArrayIndex", BIGINT), ("ArrayValue", element.element)]
        else:
            sql, value = self._properties(given[0], sql, element)
            rows = Applied(kept(base.rows, [argument]), sql, name, "record", applying.outer)
            parts = [("PropertyName", TEXT), ("PropertyValue", value)]
        elements = Source(applying.alias.name, fields(parts), (name,), has_time=False, is_element=True)
        return replace(base, rows=rows, sources=(*base.sources, elements))

    def _properties(self, node: exp.Expr, sql: str, type_: Type) -> tuple[str, Type]:
        """A record's properties as a map from name to value, in their order, and the type of the values."""
        if isinstance(type_, Map):
            return sql, type_.value
        if not isinstance(type_, Record):
            raise self.places.refused(node, "GetRecordProperties takes a record: declare the column as STRUCT or MAP")
        types = {one for _, one in type_.properties}
        value = FLOAT if types == {BIGINT, FLOAT} else next(iter(types))
        if len(types) > 1 and value != FLOAT:
            raise self.places.refused(
                node, "the properties of the record have several types: declare the column as MAP<STRING, ..>"
            )
        scope = RowScope(self.places, (Source("", (Field("r", type_, "r"),)),))
        pairs = []
        for name, _ in type_.properties:
            one = scope.within(replace(scope.resolve(("r",), node), sql=sql), (name,), node).sql
            pairs.append(f"{text(name)}, {f'CAST({one} AS DOUBLE)' if value == FLOAT else one}")
        return f"if({sql} IS NULL, NULL, map({', '.join(pairs)}))", value


def _analytic_calls(select: Select) -> Iterator[exp.Expr]:
    """The analytic functions of the SELECT, without those inside others."""
    parts = [one.value for one in select.items]
    parts += [one.on if isinstance(one, Joining) else one.call for one in select.clauses]
    parts += [one for one in (select.where, *select.group_by, select.having) if one is not None]
    for part in parts:
        yield from _calls(part)


def _calls(node: exp.Expr) -> Iterator[exp.Expr]:
    if is_analytic(node):
        yield node
    else:
        for child in node.iter_expressions():
            yield from _calls(child)
