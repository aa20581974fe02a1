"""A script as :class:`~pipelines.core.steps.Steps`: its WITH steps and outermost SELECTs, and the inputs it reads."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.model import Input, Reference
from pipelines.core.steps import (
    SYSTEM_TIMESTAMP,
    WINDOW_COLUMNS,
    Computed,
    Output,
    Projected,
    ReferenceRows,
    Rows,
    Step,
    StepRows,
    Steps,
    United,
    columns_of,
    origin_of,
    walk,
)
from pipelines.job.sql.expressions.context import name_of
from pipelines.job.sql.grammar import syntax
from pipelines.job.sql.grammar.statements import parse
from pipelines.job.sql.inputs import Inputs, column_fields, job_name
from pipelines.job.sql.names import Field, fields
from pipelines.job.sql.places import Places
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.relation import Frame, Relation
from pipelines.job.sql.scope import Settings
from pipelines.job.sql.select import selected
from pipelines.job.sql.spark_types import spark_type
from pipelines.job.sql.types import NULL, TEXT, Typed
from pipelines.job.sql.values import Values, as_type, common_type

OUTPUT = "output"
"""The output of a SELECT without INTO (Q91)."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NO_COLUMN = re.compile(r"[ ,;{}()\n\t=]")
_TAKEN = ("output_date", "emitted_at")
_WINDOW_END = ("window_end", SYSTEM_TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A script as a job has it: the steps, and the job's inputs with its TIMESTAMP BY."""

    steps: Steps
    inputs: tuple[Input, ...]


def load(text: str, inputs: Mapping[str, Input], references: Mapping[str, Reference], settings: Settings) -> Loaded:
    """The script over the job's inputs and reference data; Refused names the place of what is not understood."""
    try:
        return _Script(text, inputs, references, settings).load()
    except RecursionError:
        raise Refused("the script is nested too deeply: use fewer parentheses and shorter chains", 1, 1) from None


class _Script:
    def __init__(
        self, text: str, inputs: Mapping[str, Input], references: Mapping[str, Reference], settings: Settings
    ) -> None:
        self.places = Places(text)
        self.script = parse(text)
        self.references = references
        self.values = Values(self.places, settings)
        self.inputs = Inputs(inputs, self.values)
        self.steps: dict[str, Relation] = {}
        self.built: list[Step] = []
        self.passing: dict[str, syntax.Source] = {}
        """Steps that are an input as it is, and are given TIMESTAMP BY where they are read (Q4)."""
        self.timed = {one.name.name.lower() for one in self.script.sources() if one.timestamp_by is not None}

    def load(self) -> Loaded:
        for table in self.script.tables:
            self._check_table(table)
        for named in self.script.steps:
            self._add_step(named)
        outputs: list[Output] = []
        for rows in self.script.outputs:
            outputs.append(self._output(rows, [one.name for one in outputs]))
        return Loaded(Steps(self._read_by(outputs), tuple(outputs), ansi=True), self.inputs.all())

    def _check_table(self, table: syntax.Table) -> None:
        name = job_name(table.name.name)
        source = self.inputs.inputs.get(name) or self.references.get(name)
        if source is None:
            raise self._unknown(table.name)
        self.inputs.check(table, source.columns)

    def _unknown(self, name: exp.Identifier) -> Refused:
        known = [*self.steps, *self.passing, *self.inputs.inputs, *self.references]
        return self.places.refused(
            name, f"there is no step, input or reference data '{name.name}'; {did_you_mean(name.name.lower(), known)}"
        )

    # steps and outputs

    def _add_step(self, named: syntax.Named) -> None:
        name = named.name.name.lower()
        if (
            name in (*self.steps, *self.passing)
            or job_name(name) in self.inputs.inputs
            or job_name(name) in self.references
        ):
            raise self.places.refused(named.name, f"'{named.name.name}' is the name of another step or input")
        passed = _passed_on(named.rows)
        if passed is not None and name in self.timed and job_name(passed.name.name) in self.inputs.inputs:
            self.passing[name] = passed
            return
        relation = self._rows(named.rows)
        if relation.is_reference:
            self.steps[name] = relation
        else:
            self.built.append(Step(name, relation.rows))
            self.steps[name] = replace(relation, rows=StepRows(name))

    def _output(self, rows: syntax.Rows, names: list[str]) -> Output:
        first = rows.branches[0] if isinstance(rows, syntax.Union) else rows
        relation = self._rows(rows)
        if relation.is_reference:
            raise self.places.refused(first.source.start, "reference data alone is no output: join it to a stream")
        name = OUTPUT if first.into is None else job_name(first.into.name)
        at = first.into if first.into is not None else first.start
        if not _NAME.fullmatch(name):
            raise self.places.refused(at, f"'{name}' cannot be a table: an output is called like 'alerts_2'")
        if name in names:
            raise self.places.refused(
                at, f"a second SELECT writes output '{name}': UNION the two in a step, and select that once"
            )
        return Output(name, self._named_columns(relation, first))

    def _named_columns(self, relation: Relation, select: syntax.Select) -> Rows:
        """The output's rows under names that its table can have, which has columns of its own (Q93).

        ``window_end``, which every window has, need not be selected but may be.
        """
        steps = Steps(tuple(self.built), ())
        rows = relation.rows
        taken = set(_TAKEN)
        if origin_of(rows, steps) == "window":
            taken |= set(WINDOW_COLUMNS)
            if isinstance(rows, Projected):
                kept = [one for one in rows.columns if (one.name.lower(), one.expression) != _WINDOW_END]
                rows = replace(rows, columns=tuple(kept))
        names = list(columns_of(rows, steps, {}))
        stored = [_stored(name, taken) for name in names]
        if len({one.lower() for one in stored}) < len(stored):
            twice = next(one for one in stored if [other.lower() for other in stored].count(one.lower()) > 1)
            raise self.places.refused(select.start, f"two columns would be stored as '{twice}': choose another alias")
        if stored == names:
            return rows
        if isinstance(rows, Projected):
            computed = tuple(replace(one, name=_stored(one.name, taken)) for one in rows.columns)
            return replace(rows, columns=computed)
        return Projected(rows, tuple(Computed(new, quoted(old)) for old, new in zip(names, stored, strict=True)))

    def _read_by(self, outputs: list[Output]) -> tuple[Step, ...]:
        """The steps that an output reads, directly or through other steps."""
        rows = {one.name: one.rows for one in self.built}
        wanted: set[str] = set()
        reading = [one.rows for one in outputs]
        while reading:
            for node in walk(reading.pop()):
                if isinstance(node, StepRows) and node.step not in wanted:
                    wanted.add(node.step)
                    reading.append(rows[node.step])
        return tuple(one for one in self.built if one.name in wanted)

    # relations

    def _rows(self, rows: syntax.Rows) -> Relation:
        if isinstance(rows, syntax.Select):
            relation = selected(rows, self._find, self._check_join, self.values)
        else:
            relation = self._united(rows)
        # a column of bare NULLs has a type, too: a table cannot be without
        columns = fields([(one.name, TEXT if one.type == NULL else one.type) for one in relation.fields])
        return replace(relation, rows=_as_columns(relation, columns), fields=columns)

    def _united(self, union: syntax.Union) -> Relation:
        """Branches match by position; names are the first one's (Q14)."""
        branches = [selected(one, self._find, self._check_join, self.values) for one in union.branches]
        kinds = [one.type for one in branches[0].fields]
        for select, branch in zip(union.branches, branches, strict=True):
            if branch.is_reference:
                raise self.places.refused(select.source.start, "reference data cannot be part of a UNION")
            mine, first = ([one.name for one in part.fields] for part in (branch, branches[0]))
            if [name.lower() for name in mine] != [name.lower() for name in first]:
                raise self.places.refused(
                    select.start,
                    f"the SELECTs of a UNION give the same columns: {', '.join(first)}, not {', '.join(mine)}",
                )
            for index, one in enumerate(branch.fields):
                common = common_type(kinds[index], one.type)
                if common is None:
                    raise self.places.refused(
                        select.start,
                        f"column '{one.name}' is {name_of(one.type)} here and {name_of(kinds[index])} before: CAST it",
                    )
                kinds[index] = common
        columns = fields([(one.name, kind) for one, kind in zip(branches[0].fields, kinds, strict=True)])
        return Relation(United(tuple(_as_columns(one, columns) for one in branches)), columns)

    def _find(self, named: syntax.Source) -> Relation:
        name = named.name.name.lower()
        if name in self.passing:
            return self.inputs.relation(replace(self.passing[name], timestamp_by=named.timestamp_by, over=named.over))
        if name in self.steps:
            if named.timestamp_by is None:
                return self.steps[name]
            raise self.places.refused(
                named.timestamp_by, "TIMESTAMP BY stands at an input, not at a step: put it where the input is read"
            )
        if job_name(name) in self.inputs.inputs:
            return self.inputs.relation(named)
        if (reference := self.references.get(job_name(name))) is None:
            raise self._unknown(named.name)
        if named.timestamp_by is not None:
            raise self.places.refused(named.timestamp_by, "reference data has no time: leave TIMESTAMP BY out")
        return Relation(ReferenceRows(reference.name), column_fields(reference.columns), is_reference=True)

    def _check_join(self, joining: syntax.Joining, left: Frame, right: Frame) -> None:
        """Reference data that is looked up by the arrival time serves rows of one event alone (Q85)."""
        by_arrival = [
            node.reference
            for node in walk(right.rows)
            if isinstance(node, ReferenceRows) and self.references[node.reference].time == "arrival"
        ]
        if by_arrival and origin_of(left.rows, Steps(tuple(self.built), ())) != "event":
            raise self.places.refused(
                joining.start,
                f"reference data '{by_arrival[0]}' is looked up by the arrival time, which only rows of one event have:"
                " set reference_time: system_timestamp",
            )


def _stored(name: str, taken: Container[str]) -> str:
    """What a table calls the column: ``_`` for what Delta refuses in a name, and ``_`` after a name that is taken."""
    plain = _NO_COLUMN.sub("_", name)
    return f"{plain}_" if plain.lower() in taken else plain


def _passed_on(rows: syntax.Rows) -> syntax.Source | None:
    """The source of a SELECT that gives it as it is, without TIMESTAMP BY."""
    if not isinstance(rows, syntax.Select) or rows.clauses or rows.group_by:
        return None
    whole = len(rows.items) == 1 and isinstance(rows.items[0].value, exp.Star)
    filtered = rows.where is not None or rows.having is not None
    return rows.source if whole and not filtered and rows.source.timestamp_by is None else None


def _as_columns(relation: Relation, columns: tuple[Field, ...]) -> Rows:
    """The relation with these names and types, column by column."""
    if [(one.name, one.type) for one in relation.fields] == [(one.name, one.type) for one in columns]:
        return relation.rows
    pairs = zip(relation.fields, columns, strict=True)
    computed = [
        Computed(wanted.name, as_type(Typed(quoted(one.column), one.type), wanted.type, spark_type(wanted.type)).sql)
        for one, wanted in pairs
        if wanted.name != SYSTEM_TIMESTAMP
    ]
    return Projected(relation.rows, tuple(computed))
