"""The page of compared settings: the chart of windows that differ by wait, and all figures as tables."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from pipelines.core.time import format_duration
from pipelines.lakehouse.documents import tune_document, write_document
from pipelines.lakehouse.root import Lakehouse
from pipelines.report import charts
from pipelines.report.page import rendered
from pipelines.report.story import range_text
from pipelines.report.view import Figure, Swatch, Table, drawn
from pipelines.tune.result import COLUMNS, Figures, Tuning, row_of, value_of


def write_tuning(tuning: Tuning, lakehouse: Lakehouse) -> str:
    """Writes the page to ``reports/<job>/tune/<range>.html``; where it is now."""
    return write_document(lakehouse, tune_document(tuning.job.name, tuning.output), render(tuning))


def render(tuning: Tuning) -> str:
    """The page as HTML text."""
    keys = tuning.varied
    table = Table(
        f"The {len(tuning.settings)} settings",
        (*keys, *COLUMNS),
        tuple(tuple(row_of(one, keys)) for one in tuning.settings),
        numbers=0,
    )
    return rendered(
        "tune.html.j2",
        tuning=tuning,
        range_text=range_text(tuning.output),
        figure=_figure(tuning),
        table=table,
        amounts=_amounts(tuning),
    )


def _figure(tuning: Tuning) -> Figure:
    every = {one.setting.wait_us for one in tuning.settings}
    waits = sorted(every, key=lambda wait_us: (wait_us is None, wait_us or 0))
    labels = ["unbounded" if wait_us is None else format_duration(wait_us) for wait_us in waits]

    def point(one: Figures) -> tuple[int, float]:
        return waits.index(one.setting.wait_us), one.share

    best = [point(one) for one in tuning.frontier]
    figure = drawn(
        partial(charts.frontier, labels, [point(one) for one in tuning.settings], best),
        "Windows that differ from the complete truth, by how long results wait at most",
        "Each point is a setting: the share of windows that differ, at the longest wait. "
        + "; ".join(f"{labels[at]}: {share:.1%}" for at, share in best),
        (),
    )
    legend = (Swatch("accepted", "on the efficient frontier"), Swatch("faint", "another setting is better"))
    return replace(figure, legend=legend)


def _amounts(tuning: Tuning) -> Table:
    keys = tuning.varied
    rows = [
        (
            *(value_of(one, key) for key in keys),
            name,
            f"{value.windows:,}",
            *("" if amount is None else f"{amount:,.6g}" for amount in (value.sum, value.max)),
        )
        for one in tuning.settings
        for name, value in one.differences.values
    ]
    header = (*keys, "aggregate", "windows that differ", "sum of differences", "greatest difference")
    return Table("Absolute differences from the complete truth", header, tuple(rows), numbers=len(keys) + 1)
