"""Comparison of the windows of the replay with those of the live run.

Windows are the same window if start, end, id and group keys are (null equals null); they agree if every aggregate is
the same value, NaN included. Causes come from ``reconciliations/<job>``, if it is written; they are never guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from pipelines.core.errors import UsageError
from pipelines.core.model import Job, OutputRange, output_name
from pipelines.core.time import parse_instant
from pipelines.core.values import grouping_key
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of

Row = dict[str, Any]
MAX_ROWS = 2_000_000
"""The most rows of a table that are compared, because they are all in memory."""
STATUSES = ("different", "missing_in_replay", "missing_in_stream", "duplicated_in_stream")


@dataclass(frozen=True, slots=True)
class Pair:
    """One window: ``key`` its start, end, id and group keys, ``replay`` and ``stream`` the aggregates of each side.

    A side without the window is None. ``status`` is ``equal`` or one of :data:`STATUSES`.
    """

    end_us: int
    key: Mapping[str, Any]
    replay: Row | None
    stream: Row | None
    status: str
    cause: str | None = None
    evidence: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """All windows of a range in output order. ``has_stream``: there is a table of the live run to compare with.

    ``reconciled``: causes come from a reconciliation; ``stale``: it names other windows than differ now.
    """

    pairs: tuple[Pair, ...]
    aggregates: tuple[str, ...]
    has_windows: bool
    has_stream: bool
    reconciled: bool
    stale: bool

    @property
    def different(self) -> list[Pair]:
        """The windows that differ, in output order."""
        return [pair for pair in self.pairs if _differs(pair)]

    @property
    def counts(self) -> Counter[str]:
        """Windows by status."""
        return Counter(pair.status for pair in self.pairs)


def compare(lakehouse: Lakehouse, job: Job, output: OutputRange) -> Comparison:
    """The windows of ``job`` that end in ``output``; without a live run every pair has the status ``alone``.

    Raises :class:`UsageError` beyond :data:`MAX_ROWS`.

    If the live run's table cannot be read (it is in a catalog, or lacks a key column), the differences are those of
    the reconciliation.
    """
    keys = ("window_start", "window_end", "window_id", *map(output_name, job.query.group_by))
    aggregates = tuple(one.name for one in job.query.aggregates)
    ours = _rows(lakehouse, job, "windows", output)
    theirs = _live_rows(lakehouse, job, output, keys)
    known = _rows(lakehouse, job, "reconciliations", output)
    causes = {_key(row, keys): row for row in known or ()}
    pairs = {
        key: _pair(sides, keys, aggregates, theirs is not None) for key, sides in _sides(ours, theirs, keys).items()
    }
    stale = known is not None and theirs is not None and {key for key in pairs if _differs(pairs[key])} != set(causes)
    for key, row in causes.items():
        if theirs is None:
            pairs[key] = _reconciled_pair(row, keys)
        elif key in pairs and _differs(pairs[key]):
            pairs[key] = replace(pairs[key], cause=row.get("cause"), evidence=_text(row.get("evidence")))
    if theirs is None and known is not None:
        pairs = {key: replace(pair, status="equal") if pair.status == "alone" else pair for key, pair in pairs.items()}
    ordered = sorted(pairs.values(), key=lambda pair: (pair.end_us, *(str(value) for value in pair.key.values())))
    has_stream = theirs is not None or known is not None
    return Comparison(tuple(ordered), aggregates, ours is not None, has_stream, known is not None, stale)


def _rows(lakehouse: Lakehouse, job: Job, table: str, output: OutputRange) -> list[Row] | None:
    rows = rows_of(job, table, lakehouse, output)
    return None if rows is None else _plain(rows, table)


def _plain(rows: pa.Table, table: str) -> list[Row]:
    if rows.num_rows > MAX_ROWS:
        raise UsageError(
            f"{table} has {rows.num_rows} rows in this range, a report takes at most {MAX_ROWS}",
            hint="report a shorter range",
        )
    return plain_rows(rows)


def _live_rows(lakehouse: Lakehouse, job: Job, output: OutputRange, keys: Sequence[str]) -> list[Row] | None:
    """The live run's rows under our column names; None if they cannot be read."""
    try:
        rows = rows_of(job, "stream_windows", lakehouse, output)
    except UsageError:  # a table in a catalog, which only Spark can open
        return None
    if rows is None:
        return None
    ours = dict(job.stream_columns)
    rows = rows.rename_columns([ours.get(name, name) for name in rows.column_names])
    return _plain(rows, "stream_windows") if {*keys, "window_end"} <= set(rows.column_names) else None


def _sides(
    ours: Sequence[Row] | None, theirs: Sequence[Row] | None, keys: Sequence[str]
) -> dict[Hashable, tuple[list[Row], list[Row]]]:
    sides: dict[Hashable, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for place, rows in enumerate((ours or (), theirs or ())):
        for row in rows:
            sides[_key(row, keys)][place].append(row)
    return sides


def _pair(sides: tuple[list[Row], list[Row]], keys: Sequence[str], aggregates: Sequence[str], compared: bool) -> Pair:
    left, right = sides
    row = (left or right)[0]
    ours, theirs = ([{name: one.get(name) for name in aggregates} for one in side] for side in sides)
    status = _status(ours, theirs) if compared else "alone"
    shown = {name: row.get(name) for name in keys}
    replay, stream = (side[0] if side else None for side in (ours, theirs))
    return Pair(parse_instant(str(row["window_end"])), shown, replay, stream, status)


def _reconciled_pair(row: Row, keys: Sequence[str]) -> Pair:
    """A difference as the reconciliation has it."""
    shown = {name: row.get(name) for name in keys}
    end_us = parse_instant(str(row["window_end"]))
    replay, stream = row.get("replay"), row.get("stream")
    return Pair(end_us, shown, replay, stream, str(row["status"]), row.get("cause"), _text(row.get("evidence")))


def _differs(pair: Pair) -> bool:
    return pair.status in STATUSES


def _key(row: Row, keys: Sequence[str]) -> Hashable:
    return tuple(grouping_key(row.get(name)) for name in keys)


def _status(ours: Sequence[Row], theirs: Sequence[Row]) -> str:
    """Several rows may share a key (sessions of different chains that look alike): they are compared as a multiset."""
    if not ours:
        return "missing_in_replay" if len(theirs) == 1 else "duplicated_in_stream"
    if len(theirs) != len(ours):
        return "missing_in_stream" if len(theirs) < len(ours) else "duplicated_in_stream"
    left, right = (Counter(grouping_key(row) for row in side) for side in (ours, theirs))
    return "equal" if left == right else "different"


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
