"""Two drawings for the page: every contender on every log, and the cost curves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

from bench.summary import Figures
from bench.tables import quotient

_COLORS = {
    "plain": "#8a8a8a",
    "window": "#b4602d",
    "over": "#6a4fa3",
    "exceptions": "#3f8f4f",
    "replay": "#1f6f8b",
    "tailrace": "#1f6f8b",
}
_INK, _GRID = "#333333", "#dddddd"
_WIDTH = 560
_COLUMNS = 2


def ratios(logs: Sequence[Figures]) -> Any:
    """A dot for each contender at its median, a line from its least to its most, on one logarithmic scale."""
    found = [row for log in logs for row in log["rows"] if row.get("ratio")]
    ends = [row["ratio"][end] for row in found for end in ("least", "most")]
    scale = alt.Scale(type="log", domain=[min(0.5, *ends) / 1.5, max(2.0, *ends) * 2])
    return alt.vconcat(*[_dots(log, scale) for log in logs if any(row.get("ratio") for row in log["rows"])])


def _dots(log: Figures, scale: alt.Scale) -> Any:
    data = [
        {"contender": row["title"], "told": quotient(row["ratio"]["median"]), **row["ratio"]}
        for row in log["rows"]
        if row.get("ratio")
    ]
    x = alt.X("median:Q", scale=scale, axis=alt.Axis(title="times plain windowing (logarithmic)", grid=True))
    y = alt.Y("contender:N", sort=None, axis=alt.Axis(title=None, labelLimit=360))
    chart = alt.Chart(alt.InlineData(values=data), title=log["title"], width=_WIDTH, height=alt.Step(22))
    span = chart.mark_rule(strokeWidth=2, color=_COLORS["tailrace"]).encode(
        x=alt.X("least:Q", scale=scale), x2="most:Q", y=y
    )
    dots = chart.mark_point(filled=True, size=70, opacity=1, color=_COLORS["tailrace"]).encode(x=x, y=y)
    text = chart.mark_text(align="left", dx=8, dy=-7, color=_INK).encode(x=x, y=y, text="told:N")
    return span + dots + text


def curves(found: Sequence[Figures]) -> Any:
    """One small drawing a curve."""
    drawn = [_curve(one) for one in found if any(_values(one))]
    lines = [alt.hconcat(*drawn[at : at + _COLUMNS]) for at in range(0, len(drawn), _COLUMNS)]
    return alt.vconcat(*lines).resolve_scale(color="shared")


def _curve(curve: Figures) -> Any:
    names = sorted({value["contender"] for value in _values(curve)})
    y_title = "times plain windowing" if "plain" in names else "times the first point"
    chart = alt.Chart(alt.InlineData(values=list(_values(curve))), title=curve["title"], width=260, height=170)
    x = alt.X("point:N", sort=None, axis=alt.Axis(title=curve["axis"], labelAngle=0))
    y = alt.Y("median:Q", scale=alt.Scale(zero=True), axis=alt.Axis(title=y_title))
    color = alt.Color(
        "contender:N",
        scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values())),
        legend=alt.Legend(title=None, orient="bottom", values=[*_COLORS]),
    )
    lines = chart.mark_line(point=True).encode(x=x, y=y, color=color)
    spans = chart.mark_rule().encode(x=x, y="least:Q", y2="most:Q", color=color)
    return lines + spans


def _values(curve: Figures) -> list[dict[str, Any]]:
    """By plain where there is a plain contender, else by the first point."""
    values = []
    for point in curve["points"]:
        for row in point["rows"]:
            ratio = row.get("ratio") or (row["of_first"] if row["name"] == "replay" else None)
            if ratio:
                values.append({"point": point["label"], "contender": row["name"], **ratio})
    return values


def write_svg(chart: Any, place: Path) -> Path:
    """Draw ``chart`` into a file that needs nothing else."""
    styled = chart.configure(background="white", font="sans-serif").configure_axis(
        gridColor=_GRID, labelColor=_INK, titleColor=_INK, titleFontWeight="normal"
    )
    svg = vl_convert.vegalite_to_svg(styled.configure_title(anchor="start", fontSize=12).to_json())
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(svg + "\n")
    return place
