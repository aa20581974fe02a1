"""Relations on the way from FROM to the select list: rows, and the sources whose columns they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pipelines.core.steps import SYSTEM_TIMESTAMP, Rows
from pipelines.job.sql.bounds import Chain, Time
from pipelines.job.sql.names import Field, RowScope, Shape, Source
from pipelines.job.sql.places import Places
from pipelines.job.sql.types import Typed


@dataclass(frozen=True, slots=True)
class Relation:
    """An input, reference data or a step. ``is_reference``: its rows have no time (Q18)."""

    rows: Rows
    fields: tuple[Field, ...]
    is_reference: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """What PARTITION BY of a source names; ``by_input``: PartitionId, which computes each input partition apart."""

    source: str
    field: Field
    by_input: bool


@dataclass(frozen=True)
class Frame:
    """The sources joined so far. ``looked_up``: where the value of each analytic function stands."""

    rows: Rows
    sources: tuple[Source, ...]
    chain: Chain
    is_reference: bool = False
    partition: tuple[Partition, ...] = ()
    looked_up: Mapping[Shape, Source] = field(default_factory=dict)

    def scope(self, places: Places, *, timeless: str = "", time: str = SYSTEM_TIMESTAMP) -> RowScope:
        """What an expression over a row sees. ``time`` of the row is for messages where it is ``timeless``."""
        values = {shape: _typed(one, one.fields[0]) for shape, one in self.looked_up.items()}
        if self.is_reference:
            timeless, time = "in reference data", ""
        return RowScope(places, self.sources, values, time, timeless)

    def partitioned_by(self) -> list[tuple[Partition, Typed]]:
        """The partition keys and their values in a row."""
        sources = {one.name: one for one in self.sources}
        return [(one, _typed(sources[one.source], one.field)) for one in self.partition]

    def side_name(self, taken: str = "") -> str:
        """What the row is called as one side of a join, other than ``taken``."""
        own = next((one.name for one in self.sources if not one.prefix), "joined")
        while own.lower() in (taken.lower(), SYSTEM_TIMESTAMP):
            own += "_"
        return own

    def joined(self, other: Frame, rows: Rows, left: str, right: str, chain: Chain) -> Frame:
        """The pairs of this frame's rows with the other's, which are the structs ``left`` and ``right`` in them."""
        return replace(
            self,
            rows=rows,
            sources=(*(one.under(left) for one in self.sources), *(one.under(right) for one in other.sources)),
            chain=chain,
            looked_up={
                **{shape: one.under(left) for shape, one in self.looked_up.items()},
                **{shape: one.under(right) for shape, one in other.looked_up.items()},
            },
        )


def frame(relation: Relation, name: str) -> Frame:
    """The relation as the only source so far."""
    chain = Chain((Time(name, frozenset({name})),))
    return Frame(relation.rows, (Source(name, relation.fields),), chain, relation.is_reference)


def _typed(source: Source, one: Field) -> Typed:
    return one.typed(source.prefix)
