"""A job as the stream runs it, worked out once: the expressions whose values a row has, and their positions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pipelines.core.errors import UsageError
from pipelines.core.model import Job, Session, SimpleWindow, output_name


@dataclass(frozen=True)
class CompiledJob:
    """A job and the positions of its expressions' values in a row."""

    job: Job

    def __getstate__(self) -> dict[str, object]:
        return {"job": self.job}

    @cached_property
    def windows(self) -> tuple[tuple[str | None, SimpleWindow], ...]:
        """The query's windows by ``window_id`` (S13). Steps have none here: their windows are formed slice by slice."""
        return () if self.job.steps is not None else self.job.window_query.windows

    @cached_property
    def sources(self) -> tuple[str, ...]:
        """The inputs that the query reads; of a join the left one first."""
        return self.job.sources

    def reads(self, name: str) -> bool:
        """Does the query read this input?"""
        return name in self.sources

    def joins(self, name: str) -> bool:
        """Is this input a side of the query's join (S14)? Steps join slice by slice."""
        return self.job.steps is None and self.job.window_query.join is not None and self.reads(name)

    @cached_property
    def ranks(self) -> dict[str, int]:
        """The rank of each input in the arrival order, among rows that are equal in all else."""
        return {part.name: rank for rank, part in enumerate(self.job.inputs)}

    @cached_property
    def decision_ranks(self) -> dict[str, int]:
        """As :attr:`ranks`, but an input stands before those that import its time: an imported CTI acts before the
        row that it shares its place with (I7). :class:`UsageError` where inputs import each other's time."""
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

    # -- values of a row ----------------------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """Every expression whose value windows and aggregates need, ``where`` of a join included."""
        query = self.job.window_query
        chains = [column for _, window in self.windows if isinstance(window, Session) for column in window.partition_by]
        arguments = [one.argument for one in query.aggregates if one.argument is not None]
        joined = [query.where] if query.join is not None and query.where is not None else []
        return tuple(dict.fromkeys([*query.group_by, *chains, *arguments, *joined]))

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of an expression's value in a row's ``values``."""
        return {text: index for index, text in enumerate(self.texts)}

    @cached_property
    def group_positions(self) -> tuple[int, ...]:
        """The positions of the group keys; of steps none, whose rows are grouped slice by slice."""
        if self.job.steps is not None:
            return ()
        return tuple(self.positions[column] for column in self.job.window_query.group_by)

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Group keys, then aggregates, by their names in the result."""
        query = self.job.window_query
        return (*map(output_name, query.group_by), *(one.name for one in query.aggregates))

    @cached_property
    def sides(self) -> tuple[bool, ...]:
        """For a join: whether each of :attr:`texts` is read from the left input (else from the right)."""
        left, right = (name.lower() for name in self.sources)
        return tuple(_is_of_left(text, left, right) for text in self.texts)


def _is_of_left(text: str, left: str, right: str) -> bool:
    # a Python worker of Spark has no other use for it, and it takes long to load
    import sqlglot
    from sqlglot import exp

    owners = {column.parts[0].name.lower() for column in sqlglot.parse_one(text, read="spark").find_all(exp.Column)}
    if {left, right} <= owners:
        raise UsageError(
            f"the live run cannot evaluate '{text}', which needs both sides of the join",
            hint="name columns of one side in each expression; a replay takes both",
        )
    return right not in owners
