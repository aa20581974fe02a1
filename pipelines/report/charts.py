"""Charts: Altair makes the Vega-Lite, vl-convert draws it as self-contained SVG.

Colours are the page's CSS variables, so that one drawing works in light and dark mode; every chart is drawn twice, wide
and narrow, and the page shows the one that fits. Every chart also has its numbers in a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert

WIDE, NARROW = 720, 340
HEAT_STEPS = 6
_CLOCK = {
    "milliseconds": "%H:%M:%S.%L",
    "seconds": "%H:%M:%S",
    "minutes": "%H:%M",
    "hours": "%H:%M",
    "date": "%d %b",
    "week": "%d %b",
    "month": "%b %Y",
    "quarter": "%b %Y",
    "year": "%Y",
}
"""How ticks of each size are written."""
_TEXT, _FAINT, _GRID = "var(--ink)", "var(--faint)", "var(--grid)"


@dataclass(frozen=True, slots=True)
class Line:
    """A level line: where it is, and its colour variable."""

    at: float
    color: str


@dataclass(frozen=True, slots=True)
class Series:
    """One line or set of bars: its colour variable and values, one an x (None: there is none)."""

    name: str
    color: str
    values: Sequence[float | None]


def heat_map(
    x_us: Sequence[int],
    width_us: int,
    cells: Mapping[tuple[int, int], int],
    row_labels: Sequence[str],
    thresholds: Sequence[int],
    lines: Sequence[Line],
    trace: Mapping[int, float],
    *,
    width: int,
) -> str:
    """Cells ``(column, row): count`` in rising columns of ``x_us``; ``row_labels`` are at the lines between rows.

    ``thresholds`` divide the counts into :data:`HEAT_STEPS` steps; ``lines`` and ``trace`` (by column) are heights in
    rows.
    """
    rows = len(row_labels) - 1
    data = [
        {"x": x_us[column] // 1000, "x2": (x_us[column] + width_us) // 1000, "y": row, "y2": row + 1, "n": count}
        for (column, row), count in sorted(cells.items())
    ]
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(domain=[0, rows], nice=False, zero=False),
        axis=alt.Axis(
            title=None,
            values=list(range(rows + 1)),
            labelExpr=_labels(row_labels),
            grid=False,
            labelOverlap="greedy",
        ),
    )
    steps = [f"var(--heat-{step})" for step in range(1, HEAT_STEPS + 1)]
    color = alt.Color("n:Q", scale=alt.Scale(type="threshold", domain=list(thresholds), range=steps), legend=None)
    x = _time_axis(x_us, width_us, width)
    layers: list[Any] = [_chart(data).mark_rect().encode(x=x, x2="x2:Q", y=y, y2="y2:Q", color=color)]
    layers += [layer for line in lines for layer in _level(line, y)]
    if trace:
        points = [
            {"x": (x_us[column] + width_us // 2) // 1000, "y": height} for column, height in sorted(trace.items())
        ]
        chart = _chart(points)
        layers.append(chart.mark_line(stroke="var(--paper)", strokeWidth=4).encode(x=x, y=y))
        layers.append(chart.mark_line(stroke="var(--mark)", strokeWidth=2).encode(x=x, y=y))
    return _drawn(alt.layer(*layers), width, max(200, 16 * rows + 40))


def bars_over_time(
    x_us: Sequence[int], width_us: int, series: Series, *, width: int, height: int = 96, most: float | None = None
) -> str:
    """One set of bars over time, on its own scale."""
    data = [
        {"x": start_us // 1000, "x2": (start_us + width_us) // 1000, "n": value}
        for start_us, value in zip(x_us, series.values, strict=True)
        if value
    ]
    limit = most or max((row["n"] for row in data), default=1)
    y = alt.Y("n:Q", scale=alt.Scale(domain=[0, limit], nice=True), axis=_value_axis(tickMinStep=1))
    x = _time_axis(x_us, width_us, width)
    chart = _chart(data).mark_rect(fill=f"var(--{series.color})")
    return _drawn(chart.encode(x=x, x2="x2:Q", y=y, y2=alt.datum(0)), width, height)


def stacks_over_time(x_us: Sequence[int], width_us: int, series: Sequence[Series], *, width: int) -> str:
    """The sets of bars over time, each on top of those before it."""
    data = []
    for place, start_us in enumerate(x_us):
        top = 0.0
        for one in series:
            low, top = top, top + (one.values[place] or 0)
            if top > low:
                x = {"x": start_us // 1000, "x2": (start_us + width_us) // 1000}
                data.append({**x, "low": low, "top": top, "color": f"var(--{one.color})"})
    y = alt.Y("top:Q", scale=alt.Scale(zero=True, nice=True), axis=_value_axis(tickMinStep=1))
    color = alt.Color("color:N", scale=None, legend=None)
    chart = _chart(data).mark_rect()
    encoded = chart.encode(x=_time_axis(x_us, width_us, width), x2="x2:Q", y=y, y2="low:Q", color=color)
    return _drawn(encoded, width, 160)


def steps_with_line(labels: Sequence[str], shares: Sequence[float], bound: float | None, *, width: int) -> str:
    """Shares from 0 to 1 over labelled steps, and a line at the step ``bound``."""
    data = [{"x": place, "y": share} for place, share in enumerate(shares)]
    low = min(shares, default=0.0)
    floor = 0.0 if low < 0.5 else (0.5 if low < 0.9 else 0.9)
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[0, max(len(labels) - 1, 1)], nice=False),
        axis=alt.Axis(
            title=None,
            values=list(range(len(labels))),
            labelExpr=_labels(labels),
            labelOverlap="greedy",
            grid=False,
            labelFlush=True,
        ),
    )
    y = alt.Y(
        "y:Q", scale=alt.Scale(domain=[floor, 1], nice=False), axis=alt.Axis(title=None, format=".0%", tickCount=5)
    )
    chart = _chart(data)
    layers: list[Any] = [
        chart.mark_line(stroke="var(--accepted)", strokeWidth=2).encode(x=x, y=y),
        chart.mark_point(fill="var(--accepted)", filled=True, size=36, opacity=1).encode(x=x, y=y),
    ]
    if bound is not None:
        mark = _chart([{"x": bound}])
        layers.append(mark.mark_rule(stroke="var(--dropped)", strokeWidth=2, strokeDash=[6, 4]).encode(x=x))
    return _drawn(alt.layer(*layers), width, 200)


def frontier(
    labels: Sequence[str], points: Sequence[tuple[int, float]], best: Sequence[tuple[int, float]], *, width: int
) -> str:
    """Shares at places of a labelled axis; those in ``best``, in rising order, are joined by a line."""
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=[-0.5, len(labels) - 0.5], nice=False),
        axis=alt.Axis(
            title=None,
            values=list(range(len(labels))),
            labelExpr=_labels(labels),
            labelOverlap="greedy",
            grid=False,
        ),
    )
    y = alt.Y("y:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=None, format=".1%", tickCount=5))
    every, line = _chart([{"x": at, "y": share} for at, share in points]), _chart([{"x": a, "y": b} for a, b in best])
    layers: list[Any] = [
        every.mark_point(fill="var(--faint)", filled=True, size=40, opacity=1).encode(x=x, y=y),
        line.mark_line(stroke="var(--accepted)", strokeWidth=2).encode(x=x, y=y),
        line.mark_point(fill="var(--accepted)", filled=True, size=60, opacity=1).encode(x=x, y=y),
    ]
    return _drawn(alt.layer(*layers), width, 240)


def pairs_over_time(
    x_us: Sequence[int], width_us: int, replay: Series, stream: Series, differs: Sequence[bool], *, width: int
) -> str:
    """The replay as bars, the live run as points, one an x; where they differ the bar is outlined and marked above."""
    base = [
        {
            "x": start_us // 1000,
            "x2": (start_us + width_us) // 1000,
            "mid": (start_us + width_us // 2) // 1000,
            "r": ours,
            "s": theirs,
            "d": differ,
        }
        for start_us, ours, theirs, differ in zip(x_us, replay.values, stream.values, differs, strict=True)
    ]
    known = [value for row in base for value in (row["r"], row["s"]) if value is not None]
    low, high = min([*known, 0]), max([*known, 1])
    room = (high - low) * 0.12
    scale = alt.Scale(domain=[low, high + room], nice=False)
    x = _time_axis(x_us, width_us, width)
    mid = _time_axis(x_us, width_us, width, "mid:T")

    def y(name: str) -> Any:
        return alt.Y(f"{name}:Q", scale=scale, axis=_value_axis())

    marks = [{**row, "top": high + room * 0.6} for row in base if row["d"]]
    layers: list[Any] = [
        _chart([row for row in base if row["r"] is not None])
        .mark_rect(fill=f"var(--{replay.color})")
        .encode(x=x, x2="x2:Q", y=y("r"), y2=alt.datum(0)),
        _chart([row for row in base if row["s"] is not None])
        .mark_point(filled=True, size=34, fill=f"var(--{stream.color})", stroke="var(--paper)", opacity=1)
        .encode(x=mid, y=y("s")),
    ]
    if marks:
        top = _chart(marks)
        layers.append(
            top.mark_point(shape="triangle-down", filled=True, size=80, fill="var(--bad)", opacity=1).encode(
                x=mid, y=y("top")
            )
        )
    return _drawn(alt.layer(*layers), width, 220)


def _level(line: Line, y: Any) -> list[Any]:
    """A dashed line on a line of the background colour, so that it is visible on any cell."""
    data = _chart([{"y": line.at}])
    return [
        data.mark_rule(stroke="var(--paper)", strokeWidth=4).encode(y=y),
        data.mark_rule(stroke=f"var(--{line.color})", strokeWidth=2, strokeDash=[6, 4]).encode(y=y),
    ]


def _chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    return alt.Chart(alt.Data(values=list(rows)))  # type: ignore[no-untyped-call]


def _time_axis(x_us: Sequence[int], width_us: int, width: int, field: str = "x:T") -> Any:
    domain = [x_us[0] // 1000, (x_us[-1] + width_us) // 1000] if x_us else [0, 1]
    axis = alt.Axis(
        title=None,
        grid=False,
        tickCount=max(2, width // 110),
        labelOverlap="greedy",
        labelFlush=True,
        format=_CLOCK,
    )
    return alt.X(field, scale=alt.Scale(type="utc", domain=domain, nice=False), axis=axis)


def _value_axis(**more: Any) -> Any:
    return alt.Axis(title=None, tickCount=3, **more)


def _labels(labels: Sequence[str]) -> str:
    """A Vega expression for the label of a place; labels are durations that we format, never data."""
    assert all(re.fullmatch(r"[-0-9a-z]*", label) for label in labels), labels
    return "[" + ", ".join(f"'{label}'" for label in labels) + "][datum.value]"


def _drawn(chart: Any, width: int, height: int) -> str:
    """SVG without a background and hidden from screen readers."""
    spec = (
        chart.properties(width=width, height=height, autosize=alt.AutoSizeParams(type="fit", contains="padding"))
        .configure(background="transparent", aria=False, padding=4, font="system-ui, sans-serif")
        .configure_view(stroke=None)
        .configure_axis(
            labelColor=_TEXT,
            labelFontSize=12,
            domainColor=_FAINT,
            tickColor=_FAINT,
            gridColor=_GRID,
            gridOpacity=1,
        )
    )
    svg: str = vl_convert.vegalite_to_svg(spec.to_json(indent=None, validate=False))
    # text and tables give screen readers the same information
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)
