"""A heat map of lag (arrival time minus event time) over arrival time."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

from pipelines.core.time import format_duration, format_instant
from pipelines.report import charts
from pipelines.report.axes import Bands, Bins
from pipelines.report.report_data import InputData, ReportData
from pipelines.report.story import duration_text
from pipelines.report.view import Figure, Swatch, Table, drawn


def heat_view(report: ReportData, one: InputData) -> Figure:
    """The figure of one input."""
    bins = report.bins
    assert bins is not None
    lowest, highest = _drawn_bands(one)
    labels = _row_labels(one.bands, lowest, highest)
    cells = {(bin_, band - lowest): count for (bin_, band), count in one.counts.items()}
    parts = thresholds(max(cells.values(), default=1))
    lines, legend = _policy_lines(one, lowest)
    trace = {bin_: _height(one.bands, mark.median_us) - lowest for bin_, mark in one.watermarks.items()}
    trace = {bin_: min(max(height, 0.0), highest - lowest + 1.0) for bin_, height in trace.items()}
    if trace:
        legend.append(Swatch("mark", "watermark behind the arrivals, median of the events that have a verdict row"))
    x_us = [bins.start_us(index) for index in range(bins.count)]
    draw = partial(charts.heat_map, x_us, bins.width_us, cells, labels, parts, lines, trace)
    figure = drawn(draw, one.name, _words(one), (_band_table(one), _cell_table(one, bins)))
    return replace(
        figure, legend=(*_heat_legend(parts, max(cells.values(), default=1)), *legend), note=one.policy.description
    )


def thresholds(most: int) -> list[int]:
    """The bounds between the steps of colour, each greater by about the same factor, up to ``most``."""
    found: list[int] = []
    for step in range(1, charts.HEAT_STEPS):
        found.append(max(math.ceil(most ** (step / charts.HEAT_STEPS)), found[-1] + 1 if found else 2))
    return found


def _heat_legend(parts: list[int], most: int) -> list[Swatch]:
    found = []
    for step, begin in enumerate([1, *parts], start=1):
        if begin > most:
            break
        end = parts[step - 1] - 1 if step <= len(parts) else most
        end = min(end, most)
        found.append(Swatch(f"heat-{step}", f"{begin:,}" if begin == end else f"{begin:,}–{end:,}"))
    return found


def _drawn_bands(one: InputData) -> tuple[int, int]:
    """First and last band that is drawn: the open bands at the ends only if they have events."""
    totals = one.by_band()
    lowest = 0 if totals[0] else 1
    highest = one.bands.count - 1 if totals[-1] else one.bands.count - 2
    return lowest, max(highest, lowest)


def _row_labels(bands: Bands, lowest: int, highest: int) -> list[str]:
    """The label of each line between rows, from below; an open end has none."""
    labels = ["", *(edge.label for edge in bands.edges), ""]
    return labels[lowest : highest + 2]


def _policy_lines(one: InputData, lowest: int) -> tuple[list[charts.Line], list[Swatch]]:
    lines, legend = [], []
    lags_us = one.bands.lags_us
    if one.policy.late_us in lags_us and one.policy.late_us is not None:
        lines.append(charts.Line(lags_us.index(one.policy.late_us) + 1 - lowest, "dropped"))
        bound = format_duration(one.policy.late_us)
        legend.append(Swatch("dropped", f"late tolerance, {bound}: above it is late", True))
    if one.policy.early_us is not None and -one.policy.early_us - 1 in lags_us:
        lines.append(charts.Line(lags_us.index(-one.policy.early_us - 1) + 1 - lowest, "partial"))
        bound = format_duration(one.policy.early_us)
        legend.append(Swatch("partial", f"early guard, {bound}: below it is early", True))
    return lines, legend


def _height(bands: Bands, lag_us: int) -> float:
    """The height of a lag in rows, counted in bands from the lowest: inside a band in proportion."""
    lags_us = bands.lags_us
    band = sum(edge_us < lag_us for edge_us in lags_us)
    if band in (0, len(lags_us)):
        return band + 0.5
    low_us, high_us = lags_us[band - 1], lags_us[band]
    return band + (lag_us - low_us) / (high_us - low_us)


def _words(one: InputData) -> str:
    timed = one.events - one.without_time
    if not timed:
        return f"None of the {one.events:,} events of {one.name} has an event time."
    totals = one.by_band()
    most = max(range(len(totals)), key=lambda band: totals[band])
    share = f"{totals[most] / timed:.1%}"
    sentences = [f"{one.events:,} events. Most, {share}, arrived {one.bands.name(most)} they happened"]
    late_us, early_us = one.policy.late_us, one.policy.early_us
    if late_us is not None:
        late = sum(count for band, count in enumerate(totals) if band > one.bands.lags_us.index(late_us))
        bound = format_duration(late_us)
        sentences.append(f"{late:,} ({late / timed:.1%}) arrived later than the tolerance of {bound}")
    if early_us is not None:
        early = sum(totals[: one.bands.lags_us.index(-early_us - 1) + 1])
        bound = format_duration(early_us)
        sentences.append(f"{early:,} ({early / timed:.1%}) were further ahead than the guard of {bound}")
    if one.without_time:
        sentences.append(f"{one.without_time:,} have no readable event time")
    return ". ".join(sentences) + "."


def _band_table(one: InputData) -> Table:
    timed = max(one.events - one.without_time, 1)
    rows = [
        (one.bands.name(band), f"{count:,}", f"{count / timed:.3%}")
        for band, count in enumerate(one.by_band())
        if count
    ]
    return Table("Events by how long after they happened they arrived", ("arrived", "events", "share"), tuple(rows), 1)


def _cell_table(one: InputData, bins: Bins) -> Table:
    used = [band for band, count in enumerate(one.by_band()) if count]
    header = ("arrived from", *(one.bands.name(band) for band in used), "watermark behind: least, median, greatest")
    rows = []
    for bin_ in sorted({bin_ for bin_, _ in one.counts} | one.watermarks.keys()):
        mark = one.watermarks.get(bin_)
        behind = ""
        if mark is not None:
            behind = ", ".join(map(duration_text, (mark.least_us, mark.median_us, mark.greatest_us)))
        counts = (f"{one.counts.get((bin_, band), 0):,}" for band in used)
        rows.append((format_instant(bins.start_us(bin_)), *counts, behind))
    return Table(f"The map's cells, in steps of {format_duration(bins.width_us)}", header, tuple(rows), 1)
