"""What a job asks of the stream, worked out once: which expressions are read of each row, and where they stand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp

from pipelines.core.errors import UsageError
from pipelines.core.model import Aggregate, AnyOf, Column, Input, Job, Session, SimpleWindow, output_name
from pipelines.job.expressions import instant_sql
from pipelines.live.state.rows import Event, Row
from pipelines.live.values import all_same


@dataclass(frozen=True)
class Program:
    """A job and the places of its expressions."""

    job: Job

    def __getstate__(self) -> dict[str, object]:
        return {"job": self.job}

    @cached_property
    def windows(self) -> tuple[tuple[str | None, SimpleWindow], ...]:
        """The query's windows by ``window_id``."""
        window = self.job.window_query.window
        return window.members if isinstance(window, AnyOf) else ((None, window),)

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The inputs that the query reads."""
        join = self.job.window_query.join
        return self.job.window_query.sources if join is None else (join.left, join.right)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The place of each input in the arrival order, among rows that are equal in all else."""
        return {part.name: rank for rank, part in enumerate(self.job.inputs)}

    @cached_property
    def turns(self) -> dict[str, int]:
        """As :attr:`ranks`, but an input stands before those that import its time: an imported CTI acts before the
        row of the same place."""
        imports = {name: getattr(ordering, "import_from", None) for name, ordering in self.job.orderings}

        def depth(name: str, seen: tuple[str, ...] = ()) -> int:
            wanted = imports.get(name)
            if wanted is None:
                return 0
            if wanted in seen:
                raise UsageError("the live run cannot follow inputs that import each other's time in a circle")
            return 1 + depth(wanted, (*seen, name))

        ordered = sorted(self.job.inputs, key=lambda part: depth(part.name))
        return {part.name: rank for rank, part in enumerate(ordered)}

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Every expression whose value windows and aggregates need, ``where`` of a join included."""
        query = self.job.window_query
        chains = [column for _, window in self.windows if isinstance(window, Session) for column in window.partition_by]
        arguments = [one.argument for one in query.aggregates if one.argument is not None]
        joined = [query.where] if query.join is not None and query.where is not None else []
        return tuple(dict.fromkeys([*query.group_by, *chains, *arguments, *joined]))

    @cached_property
    def places(self) -> dict[str, int]:
        """Where an expression's value stands in a row's ``values``."""
        return {text: index for index, text in enumerate(self.texts)}

    @cached_property
    def group_places(self) -> tuple[int, ...]:
        """Where the group keys stand."""
        return tuple(self.places[column] for column in self.job.window_query.group_by)

    @property
    def aggregates(self) -> tuple[Aggregate, ...]:
        """The query's aggregates."""
        return self.job.window_query.aggregates

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Group keys and aggregates by their names in the result."""
        query = self.job.window_query
        return (*map(output_name, query.group_by), *(one.name for one in query.aggregates))

    def reads(self, name: str) -> bool:
        """Does the query read this input?"""
        return name in self.sources

    def meaning(self, name: str, column: str) -> str:
        """One name for what an input's column says: in a join, the columns that must be equal are one."""
        join = self.job.window_query.join
        if join is None or column.lower() in {on.lower() for on in join.on}:
            return column.lower()
        return f"{name}.{column}".lower()

    def row(self, event: Event, start: int, end: int | None = None, missed: tuple[int, ...] = ()) -> Row:
        """The row that ``event`` is for the query."""
        group = all_same([event.values[place] for place in self.group_places])
        return Row(start, event.place, event.values, group, end, missed)

    # -- what is read of each input's rows ----------------------------------------------------------------------------

    def on_columns(self, part: Input) -> tuple[str, ...]:
        """The columns that a join compares."""
        join = self.job.window_query.join
        return join.on if join is not None and part.name in self.sources else ()

    def value_texts(self, part: Input) -> tuple[str, ...]:
        """:attr:`texts` where the query reads the input, else nothing."""
        return self.texts if self.reads(part.name) else ()

    def readings(self, part: Input) -> dict[str, str]:
        """Spark SQL by column name: what is evaluated for each row of an input, before the stream's state sees it."""
        read: dict[str, str] = {}
        for name, text in (("time", part.timestamp_by), ("end", part.end_by)):
            if text is not None:
                read[name] = f"unix_micros({_instant(text, part)})"
        if part.edge_by is not None:
            read["edge"] = f"CAST({part.edge_by} AS STRING)"
        query = self.job.window_query
        if query.join is None and query.where is not None and self.reads(part.name):
            read["passes"] = f"coalesce(CAST(({query.where}) AS BOOLEAN), false)"
        lists = {"o": part.over, "m": part.match_on, "j": self.on_columns(part), "v": self.value_texts(part)}
        for letter, texts in lists.items():
            read |= {f"{letter}{index}": text for index, text in enumerate(texts)}
        return read

    @cached_property
    def sides(self) -> tuple[bool, ...]:
        """For a join: whether each of :attr:`texts` is read from the left input (else from the right)."""
        join = self.job.window_query.join
        assert join is not None
        return tuple(self._side(text, join.left, join.right) for text in self.texts)

    def _side(self, text: str, left: str, right: str) -> bool:
        owners = {column.parts[0].name.lower() for column in sqlglot.parse_one(text, read="spark").find_all(exp.Column)}
        if {left.lower(), right.lower()} <= owners:
            raise UsageError(
                f"the live run cannot evaluate '{text}', which needs both sides of the join",
                hint="name columns of one side in each expression; a replay takes both",
            )
        return right.lower() not in owners


def _instant(text: str, part: Input) -> str:
    column: Column | None = part.column(text.strip())
    return text if column is not None and column.type == "timestamp" else instant_sql(text)


def refuse(job: Job) -> None:
    """:class:`UsageError` for what the live run cannot do; docs/live.md lists it."""
    program = Program(job)
    if job.window_query.join is not None:
        _ = program.sides
    _ = program.turns
    if job.profile == "atlas" and len(job.window_query.sources) > 1 and isinstance(job.window_query.window, Session):
        raise UsageError(
            "the live run has no sessions over a union in profile atlas", key="query.window", hint="replay the job"
        )
