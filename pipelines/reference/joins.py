"""Stream joins of stream_analytics: pairs within a distance counted in boundaries crossed."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Column, Input, Join
from pipelines.core.time import UNIT_US
from pipelines.core.values import grouping_key
from pipelines.reference.events import Row


def joined_columns(left: Input, right: Input) -> tuple[Column, ...]:
    """Both inputs' columns, each named ``input.column``."""
    return tuple(Column(f"{part.name}.{column.name}", column.type) for part in (left, right) for column in part.columns)


def boundaries_crossed(unit: str, from_us: int, to_us: int) -> int:
    """``DATEDIFF(unit, from, to)``: boundaries of the unit in between, signed; 12:00:59 to 12:01:00 is 1 minute."""
    unit_us = UNIT_US[unit]
    return to_us // unit_us - from_us // unit_us


def join(terms: Join, left: Input, right: Input, rows: Sequence[Row]) -> list[Row]:
    """The joined rows, with payloads named ``input.column`` (S14).

    A pair matches iff its ``on`` columns are equal and not null and ``DATEDIFF(unit, left, right)`` of the system
    timestamps lies between ``from`` and ``to``, both included; it counts at the later of the two, and arrives as the
    later of the two does (pairs that one event completes: in the order of the other). A left row without
    a match has nulls on the right and counts when a match was last possible: ``to`` units after it, or at once where
    ``to`` is negative.
    """
    lefts = [row for row in rows if row.input == left.name]
    rights: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        if row.input == right.name:
            rights.setdefault(_key(terms, right, row), []).append(row)
    joined: list[Row] = []
    for row in lefts:
        key = _key(terms, left, row)
        matches = [] if None in key else [one for one in rights.get(key, []) if _within(terms, row, one)]
        joined.extend(
            Row(
                max(row.start_us, one.start_us),
                tuple(sorted(row.arrived + one.arrived, reverse=True)),
                _payload(left, row) | _payload(right, one),
                {},
            )
            for one in matches
        )
        if not matches and terms.kind == "left":
            until_us = row.start_us + max(terms.to_units, 0) * UNIT_US[terms.unit]
            joined.append(Row(until_us, row.arrived, _payload(left, row) | _payload(right, None), {}))
    return joined


def _within(terms: Join, left: Row, right: Row) -> bool:
    return terms.from_units <= boundaries_crossed(terms.unit, left.start_us, right.start_us) <= terms.to_units


def _key(terms: Join, part: Input, row: Row) -> tuple[object, ...]:
    columns = [part.column(name) for name in terms.on]
    return tuple(grouping_key(row.payload[column.name]) for column in columns if column is not None)


def _payload(part: Input, row: Row | None) -> dict[str, object]:
    return {f"{part.name}.{one.name}": None if row is None else row.payload[one.name] for one in part.columns}
