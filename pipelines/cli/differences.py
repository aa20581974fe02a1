"""How differences between two results are printed, by ``replay --preview`` and ``reconcile --against``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.reconcile.differences import Differences, TableDifferences

_BAR = 40
_MOST_BARS = 40
_SHOWN = 5


def difference_lines(found: Differences) -> Iterator[str]:
    """Each table with its counts, causes, totals, largest changes, and a chart over time."""
    if not found.differing:
        yield f"{found.job}: {found.now} equals {found.before}"
    for one in found.tables:
        yield f"{one.table}: {one.differing} of {one.rows} row(s) differ between {found.now} and {found.before}"
        if one.differing:
            yield from _of_table(one)


def _of_table(one: TableDifferences) -> Iterator[str]:
    yield "  " + ", ".join(f"{status} {count}" for status, count in one.by_status.items())
    yield from (f"  cause {cause}: {count}. {one.evidence[cause]}" for cause, count in one.by_cause.items())
    for name, (before, now) in one.totals.items():
        yield f"  total of {name}: {_number(before)} before, {_number(now)} now{_percent(before, now)}"
    if one.largest:
        yield "  the largest changes:"
        yield from (f"    {_row(row)}" for row in one.largest[:_SHOWN])
    bars = [(row, differing) for row in one.by_time if (differing := row["added"] + row["removed"] + row["changed"])]
    most = max(differing for _, differing in bars)
    for row, differing in bars[:_MOST_BARS]:
        yield f"  {row['at']} {'█' * max(1, round(_BAR * differing / most))} {differing} of {row['rows']}"
    if len(bars) > _MOST_BARS:
        yield f"  and {len(bars) - _MOST_BARS} more such times"


def _row(row: dict[str, Any]) -> str:
    from pipelines.reconcile.differences import NO_KEYS

    keys = ", ".join(f"{name} {_number(value)}" for name, value in row.items() if name not in NO_KEYS)
    sides = (row.get("before"), row.get("now"))
    if sides == (None, None):
        return f"{row['status']}: {keys}, {row['copies_before']} row(s) before, {row['copies_now']} now"
    before, now = ("no row" if side is None else json.dumps(side, ensure_ascii=False) for side in sides)
    return f"{row['status']}: {keys}: {before} before, {now} now"


def _number(value: object) -> str:
    return "null" if value is None else f"{value:.10g}" if isinstance(value, float) else str(value)


def _percent(before: float | None, now: float | None) -> str:
    if not before or now is None:
        return ""
    return f" ({100 * (now - before) / abs(before):+.3g} %)"
