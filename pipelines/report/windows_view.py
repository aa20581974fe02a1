"""The replay compared with the live run: windows around the first difference, differences over time, and each one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

from pipelines.core.time import format_duration, format_instant
from pipelines.report import charts
from pipelines.report.axes import bins_over
from pipelines.report.compare import STATUSES, Comparison, Pair
from pipelines.report.numbers import MOST_DIFFERENCES
from pipelines.report.report_data import ReportData
from pipelines.report.story import shown
from pipelines.report.view import Figure, Swatch, Table, drawn

AROUND = 24
"""Windows on each side of the first difference that are drawn."""


def figures(report: ReportData) -> list[Figure]:
    """Window by window, then the differences over time; empty where there are no windows."""
    windows = report.windows
    if not windows.pairs:
        return []
    return [figure for figure in (_closely(windows), _over_time(windows)) if figure is not None]


def difference_table(report: ReportData) -> Table | None:
    """The windows that differ, the first of them if they are many."""
    windows = report.windows
    if not windows.different:
        return None
    first = windows.different[:MOST_DIFFERENCES]
    time = "window_end" if windows.noun == "window" else "system_timestamp"
    keys = [time, *(name for name, _ in _group(first[0]) if name != time)]
    keys = [name for name in keys if name != "window_id" or any(pair.key.get(name) for pair in first)]
    # the values that differ come first, where a narrow screen shows them
    header = (*keys, "status", "replay", "live run", "cause", "window_start")
    rows = tuple(
        (
            *(shown(pair.key.get(name)) for name in keys),
            pair.status,
            *_both(pair),
            pair.cause or "",
            shown(pair.key.get("window_start")),
        )
        for pair in first
    )
    total = len(windows.different)
    caption = "The windows that differ" if total == len(first) else f"The first {len(first)} of {total:,} that differ"
    return Table(caption, header, rows, cards=True)


def status_table(report: ReportData) -> Table | None:
    """How many windows are equal, and how many differ in which way and why."""
    windows = report.windows
    if not windows.has_stream:
        return None
    counts = Counter((pair.status, pair.cause or "") for pair in windows.pairs)
    order = ("equal", *STATUSES)
    rows = sorted(counts.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return Table(
        "Windows by status and cause",
        ("status", "windows", "cause"),
        tuple((status, f"{count:,}", cause) for (status, cause), count in rows),
        numbers=1,
        texts_from=2,
    )


def _both(pair: Pair) -> tuple[str, str]:
    """The values of both sides; if both have the window, only the values that differ."""
    if pair.replay is None or pair.stream is None:
        return _side(pair.replay), _side(pair.stream)
    names = [name for name in pair.replay if pair.replay[name] != pair.stream.get(name)] or list(pair.replay)
    return _side({name: pair.replay[name] for name in names}), _side({name: pair.stream.get(name) for name in names})


def _side(values: Any) -> str:
    return "none" if values is None else ", ".join(f"{name} {shown(value)}" for name, value in values.items())


def _closely(windows: Comparison) -> Figure | None:
    """One value of one group, window by window: around the first difference, else the newest of the fullest group."""
    name = _number(windows)
    if name is None:
        return None
    pairs, title = _chosen(windows)
    ends_us = [pair.end_us for pair in pairs]
    gap_us = min((right - left for left, right in pairwise(ends_us) if right > left), default=0)
    # a bar must be visible even if windows end within a moment
    gap_us = max(gap_us, (ends_us[-1] - ends_us[0]) // (8 * AROUND), 1_000)
    starts_us = [end_us - gap_us for end_us in ends_us]
    replay = charts.Series("replay", "replay", [_value(pair.replay, name) for pair in pairs])
    stream = charts.Series("live run", "stream", [_value(pair.stream, name) for pair in pairs])
    differs = [pair.status in STATUSES for pair in pairs]
    between = f"from {format_instant(ends_us[0])} to {format_instant(ends_us[-1])}"
    description = f"{name} of {len(pairs)} windows{title}, ending {between}"
    if windows.has_stream:
        description += (
            f": {sum(differs)} of them differ" if any(differs) else ": replay and live run agree in all of them"
        )
    table = Table(
        f"{name}, window by window",
        ("window_end", "replay", "live run", "status"),
        tuple(
            (format_instant(pair.end_us), _cell(pair.replay, name), _cell(pair.stream, name), pair.status)
            for pair in pairs
        ),
        1,
    )
    legend = [Swatch("replay", "replay (bars)")]
    if windows.has_stream:
        legend.append(Swatch("stream", "live run (points)"))
    if any(differs):
        legend.append(Swatch("bad", "they differ (triangles)"))
    draw = partial(charts.pairs_over_time, starts_us, gap_us, replay, stream, differs)
    figure = drawn(draw, f"{name}, window by window", f"{description}.", (table,))
    return replace(figure, legend=tuple(legend))


def _chosen(windows: Comparison) -> tuple[list[Pair], str]:
    """The windows to draw, in order of their ends, and the text that names their group."""
    hashable = [str(_group(pair)) for pair in windows.pairs]
    if windows.different:
        first = windows.different[0]
        place = next(index for index, pair in enumerate(windows.pairs) if pair is first)
        group = hashable[place]
    else:
        group = Counter(hashable).most_common(1)[0][0]
    pairs = [pair for pair, mine in zip(windows.pairs, hashable, strict=True) if mine == group]
    group_text = ", ".join(f"{name} {shown(value)}" for name, value in _group(pairs[0]) if name != "window_id" or value)
    title = f" of {group_text}" if group_text else ""
    if windows.different:
        middle = next(index for index, pair in enumerate(pairs) if pair is windows.different[0])
        return pairs[max(0, middle - AROUND) : middle + AROUND + 1], title
    return pairs[-2 * AROUND :], title


def _group(pair: Pair) -> list[tuple[str, Any]]:
    """The id and the group keys, which the windows of one series share."""
    return [(name, value) for name, value in pair.key.items() if name not in ("window_start", "window_end")]


def _over_time(windows: Comparison) -> Figure | None:
    """How many windows differ, by when they end."""
    if not windows.different:
        return None
    bins = bins_over(windows.pairs[0].end_us, windows.pairs[-1].end_us)
    counts = Counter(bins.index(pair.end_us) for pair in windows.different)
    series = charts.Series("differ", "bad", [float(counts[index]) for index in range(bins.count)])
    x_us = [bins.start_us(index) for index in range(bins.count)]
    total = Counter(bins.index(pair.end_us) for pair in windows.pairs)
    table = Table(
        f"Windows by when they end, in steps of {format_duration(bins.width_us)}",
        ("from", "differ", "windows"),
        tuple((format_instant(bins.start_us(one)), f"{counts[one]:,}", f"{total[one]:,}") for one in sorted(total)),
        1,
    )
    description = (
        f"{len(windows.different):,} windows differ, ending from {format_instant(windows.different[0].end_us)}"
        f" to {format_instant(windows.different[-1].end_us)}."
    )
    draw = partial(charts.bars_over_time, x_us, bins.width_us, series)
    figure = drawn(draw, "Windows that differ, over time", description, (table,))
    return replace(figure, legend=(Swatch("bad", "windows that differ"),))


def _number(windows: Comparison) -> str | None:
    """The first aggregate that is a number."""
    for name in windows.aggregates:
        for pair in windows.pairs:
            value = (pair.replay or pair.stream or {}).get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return name
    return None


def _value(side: Any, name: str) -> float | None:
    value = None if side is None else side.get(name)
    return float(value) if isinstance(value, (int, float)) else None


def _cell(side: Any, name: str) -> str:
    return "" if side is None else shown(side.get(name))
