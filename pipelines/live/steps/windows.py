"""Windows over any relation (Q46 to Q60): one row for each window and group that has rows, at the window's end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.expressions import quoted_path
from pipelines.core.model import AnyOf, Grid, Session, SimpleWindow, Window
from pipelines.core.steps import Windowed
from pipelines.core.values import grouping_key, order_key
from pipelines.live.state.columns import Numbers, numbered
from pipelines.live.state.output import EndOfLog
from pipelines.live.state.rows import Row
from pipelines.live.steps.aggregates import Aggregator, expressions_of
from pipelines.live.steps.expressions import Evaluate
from pipelines.live.steps.relation import Columns, Order, Relation, column_of, instants
from pipelines.live.windows.buffers import Formed, by_group
from pipelines.live.windows.by_column import WindowsByColumn, windows_on_grid
from pipelines.live.windows.end_aligned import end_aligned
from pipelines.live.windows.start_aligned import starts_of

Missed = Mapping[tuple[Any, ...], frozenset[int]]
"""By event, what its order begins with: the starts of the windows that it came too late for."""


@dataclass(frozen=True)
class _Groups:
    """For each row the number of its group, and the values of ``partition_by`` and of the keys by number."""

    number: Numbers
    values: Sequence[tuple[object, ...]]


def windowed(
    rows: Relation,
    step: Windowed,
    wanted: tuple[int, int],
    missed: Missed | None,
    settled_by: EndOfLog | None,
    evaluate: Evaluate,
) -> Relation:
    """The windows that end in the range ``wanted``, without those that ``settled_by`` leaves out.

    ``missed`` is set for documents of atlas, which count in ``[start, end)`` unless they came too late for it (A5, A6).
    """
    keys = [*step.partition_by, *(one.expression for one in step.keys)]
    chains = [quoted_path(name) for _, one in _members(step.window) for name in _chain(one)]
    found = evaluate(rows.named, [*keys, *chains, *(text for one in step.aggregates for text in expressions_of(one))])
    groups = _Groups(*numbered([found[text] for text in keys], len(rows)))
    times: list[int] = []
    orders: list[Order] = []
    spans: list[tuple[int, int, str | None]] = []
    shown: list[tuple[object, ...]] = []
    results: list[list[pa.ChunkedArray]] = []
    for window_id, window in _members(step.window):
        if missed is None:
            formed = _formed(window, rows, step, groups, found, wanted)
        else:
            assert isinstance(window, Grid), "refused before"
            formed = _concatenated(_start_aligned(window, rows, groups.number, missed, wanted))
        results.append([Aggregator(one, found).over_windows(formed.rows, formed.starts) for one in step.aggregates])
        mine = [groups.values[number] for number in groups.number[formed.rows[formed.starts]].tolist()]
        shown += [group[len(step.partition_by) :] for group in mine]
        for start_us, end_us, group in zip(formed.start_us, formed.end_us, mine, strict=True):
            times.append(end_us)
            orders.append(((*map(order_key, (window_id, *group)), start_us), ()))
            spans.append((start_us, end_us, window_id))
    by_key = list(zip(*shown, strict=True)) or [()] * len(step.keys)
    columns = {
        one.name: column_of(values, found[one.expression].type) for one, values in zip(step.keys, by_key, strict=True)
    }
    for one, parts in zip(step.aggregates, zip(*results, strict=True), strict=True):
        columns[one.name] = pa.chunked_array(chain.from_iterable(part.chunks for part in parts), parts[0].type)
    origin = {
        "window_start": instants([start_us for start_us, _, _ in spans]),
        "window_end": instants(times),
        "window_id": column_of([window_id for _, _, window_id in spans], pa.string()),
    }
    kind = ("window", *(str(found[text].type) for text in keys))
    found_windows = Relation.sorted(times, orders, columns, origin, kind)
    return found_windows if settled_by is None else found_windows.take(_settled(found_windows, step, settled_by))


def _settled(windows: Relation, step: Windowed, settled_by: EndOfLog) -> list[int]:
    """The places of windows that were not open when the log ended."""
    names = [one.expression.strip("`").lower() for one in step.keys]
    keys = zip(*(windows.columns[one.name].to_pylist() for one in step.keys), strict=True)
    groups = [dict(zip(names, map(grouping_key, key), strict=True)) for key in keys] or [{}] * len(windows)
    return [
        place
        for place, (end_us, group) in enumerate(zip(windows.times, groups, strict=True))
        if settled_by.settled(end_us, group)
    ]


def _members(window: Window) -> tuple[tuple[str | None, SimpleWindow], ...]:
    return window.members if isinstance(window, AnyOf) else ((None, window),)


def _chain(window: SimpleWindow) -> tuple[str, ...]:
    return window.partition_by if isinstance(window, Session) else ()


def _formed(
    window: SimpleWindow, rows: Relation, step: Windowed, groups: _Groups, found: Columns, ends: tuple[int, int]
) -> WindowsByColumn:
    times = np.asarray(rows.times, np.int64)
    if isinstance(window, Grid):
        return windows_on_grid(window, times, groups.number, *ends)
    texts = [*step.partition_by, *map(quoted_path, _chain(window))]
    apart = numbered([found[text] for text in texts], len(rows))[0] if isinstance(window, Session) else groups.number
    formed: Formed = []
    for members in _by_number(rows, apart, groups.number):
        formed += end_aligned(window, members, *ends)
    if isinstance(window, Session):
        formed = by_group(formed)
    return _concatenated(formed)


def _start_aligned(window: Grid, rows: Relation, groups: Numbers, missed: Missed, ends: tuple[int, int]) -> Formed:
    found: dict[tuple[int, int], list[Row]] = {}
    for place, (time, order, group) in enumerate(zip(rows.times, rows.orders, groups.tolist(), strict=True)):
        too_late = missed.get(order[0], frozenset())
        for start in starts_of(window, time, time + 1):
            if ends[0] <= start + window.size_us < ends[1] and start not in too_late:
                found.setdefault((start, group), []).append(Row(time, (place,), (), group))
    return [(start, start + window.size_us, inside) for (start, _), inside in found.items()]


def _concatenated(formed: Formed) -> WindowsByColumn:
    counts = [len(inside) for _, _, inside in formed]
    places = chain.from_iterable(sorted(row.arrived[0] for row in inside) for _, _, inside in formed)
    return WindowsByColumn(
        np.fromiter(places, np.int64, sum(counts)),
        np.fromiter(accumulate(counts[:-1], initial=0) if counts else (), np.int64, len(counts)),
        [start_us for start_us, _, _ in formed],
        [end_us for _, end_us, _ in formed],
    )


def _by_number(rows: Relation, apart: Numbers, groups: Numbers) -> Iterable[list[Row]]:
    """Rows one by one, those with one number ``apart`` together; a row's place is its order of arrival."""
    found: dict[int, list[Row]] = {}
    for place, (time, number, group) in enumerate(zip(rows.times, apart.tolist(), groups.tolist(), strict=True)):
        found.setdefault(number, []).append(Row(time, (place,), (), group))
    return found.values()
