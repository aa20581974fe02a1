"""The page of a preview: of each table what would be added, removed and changed over time, and the largest changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pipelines.core.model import Job
from pipelines.core.time import format_duration, format_instant, parse_instant
from pipelines.lakehouse.documents import preview_document, write_document
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.differences import ADDED, CHANGED, NO_KEYS, REMOVED, Differences, TableDifferences
from pipelines.report import charts
from pipelines.report.axes import MAX_BINS
from pipelines.report.page import rendered
from pipelines.report.story import range_text, shown
from pipelines.report.view import Figure, Swatch, Table, drawn

_COLORS = {ADDED: "accepted", REMOVED: "dropped", CHANGED: "adjusted"}


@dataclass(frozen=True, slots=True)
class Section:
    """One table of the job."""

    title: str
    sentence: str
    figure: Figure | None
    tables: tuple[Table, ...]


def write_preview(changes: Differences, job: Job, name: str, lakehouse: Lakehouse) -> str:
    """Writes the page to ``reports/<job>/preview/<name>.html``; where it is now.

    Raises :class:`EnvironmentUnfit` if it cannot be written.
    """
    page = rendered(
        "preview.html.j2",
        changes=changes,
        name=name,
        profile=job.profile,
        range_text=range_text(changes.output),
        tables=[_section(one) for one in changes.tables],
    )
    return write_document(lakehouse, preview_document(job.name, name), page)


def _section(one: TableDifferences) -> Section:
    counts = ", ".join(f"{count:,} {status}" for status, count in one.by_status.items()) or "no difference"
    sentence = f"{counts}, of {one.rows:,} rows."
    return Section(one.table, sentence, _figure(one) if one.differing else None, tuple(_tables(one)))


def _figure(one: TableDifferences) -> Figure:
    width_us, by_bin = _bins(one)
    first_us, last_us = min(by_bin), max(by_bin)
    x_us = range(first_us, last_us + width_us, width_us)
    series = [
        charts.Series(status, color, [float(by_bin[at_us][status]) if at_us in by_bin else 0.0 for at_us in x_us])
        for status, color in _COLORS.items()
    ]
    most_us = max(by_bin, key=lambda at_us: by_bin[at_us].total())
    figure = drawn(
        partial(charts.stacks_over_time, list(x_us), width_us, series),
        f"Rows of {one.table} that would change",
        f"Rows in steps of {format_duration(width_us)}. Most change in the step from {format_instant(most_us)}:"
        f" {by_bin[most_us].total():,}.",
        (),
    )
    return replace(figure, legend=tuple(Swatch(color, status) for status, color in _COLORS.items()))


def _bins(one: TableDifferences) -> tuple[int, dict[int, Counter[str]]]:
    """The width of a bin, and the rows by status of each bin that has some; at most :data:`MAX_BINS` bins."""
    instants = [parse_instant(row["at"]) for row in one.by_time]
    steps = (max(instants) - min(instants)) // one.step_us + 1
    width_us = one.step_us * -(-steps // MAX_BINS)
    found: dict[int, Counter[str]] = {}
    for at_us, row in zip(instants, one.by_time, strict=True):
        place_us = min(instants) + (at_us - min(instants)) // width_us * width_us
        found.setdefault(place_us, Counter()).update({status: row[status] for status in _COLORS})
    return width_us, found


def _tables(one: TableDifferences) -> Iterator[Table]:
    if one.by_cause:
        causes = tuple((name, f"{count:,}", one.evidence[name]) for name, count in one.by_cause.items())
        yield Table("Causes", ("cause", "rows", "evidence"), causes, numbers=1, texts_from=2)
    if one.totals:
        totals = tuple((name, *map(_number, pair)) for name, pair in one.totals.items())
        yield Table("Totals", ("column", "before", "now"), totals, numbers=1)
    if one.largest:
        keys = [name for name in one.largest[0] if name not in NO_KEYS]
        rows = tuple(
            (row["status"], *(shown(row[key]) for key in keys), row["cause"], *_sides(row)) for row in one.largest
        )
        yield Table("The largest changes", ("status", *keys, "cause", "before", "now"), rows, cards=True)


def _sides(row: Mapping[str, Any]) -> tuple[str, str]:
    if "copies_now" in row:
        return str(row["copies_before"]), str(row["copies_now"])
    sides = (row["before"], row["now"])
    before, now = (
        "no row" if side is None else ", ".join(f"{name} {shown(value)}" for name, value in side.items())
        for side in sides
    )
    return before, now


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.10g}"
