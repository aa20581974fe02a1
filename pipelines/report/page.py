"""The page: the report as text, charts and tables, in one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from pipelines.core.time import format_duration, format_instant, from_datetime
from pipelines.job.describe import describe_policy, describe_read_range
from pipelines.report import charts, windows_view
from pipelines.report.heat import heat_view
from pipelines.report.numbers import numbers
from pipelines.report.report_data import InputData, ReportData
from pipelines.report.story import (
    first_divergence,
    range_text,
    reconcile_command,
    reproduce_command,
    shown,
    span,
    verdict,
    why_command,
)
from pipelines.report.view import Figure, Swatch, Table, drawn

MAX_BYTES = 5_000_000
"""A page stays below this."""

_WORDS = {
    "accepted": "counted at their own time",
    "adjusted": "counted at another time than their own",
    "partial": "counted in some of their windows and missed others",
    "dropped": "counted nowhere",
    "invalid_time": "the event time could not be read",
    "invalid_key": "a key of the substream was missing",
    "early": "the event time was too far ahead of the arrival",
    "before_current_time": "it was before the current time when it arrived",
    "late": "it arrived too long after it happened",
    "out_of_order": "it was below the watermark when it arrived",
    "orphan_end": "an end without its start",
    "cancelled": "it ended as it started",
}


@dataclass(frozen=True, slots=True)
class Tile:
    """One number at the head of the page."""

    value: str
    label: str


def render(report: ReportData) -> str:
    """The page as HTML text. Raises :class:`AssertionError` if it has :data:`MAX_BYTES` or more."""
    found = verdict(report)
    return rendered(
        "page.html.j2",
        report=report,
        title=f"{report.job.name}: {found.sentence}",
        verdict=found,
        range_text=range_text(report.output),
        generated=format_instant(report.generated_us // 1_000_000 * 1_000_000),
        tiles=_tiles(report),
        windows=windows_view.figures(report),
        story=first_divergence(report),
        next_command=_next_command(report),
        heat=[heat_view(report, one) for one in report.inputs],
        verdict_figures=_verdict_figures(report),
        completeness=[_completeness(one) for one in report.inputs if one.events > one.without_time],
        policy=[*describe_policy(report.job), *describe_read_range(report.job)],
        runs=[(run, reproduce_command(report, run)) for run in report.runs],
        gaps=[span(gap) for gap in report.gaps],
        numbers=numbers(report),
        verdict_table=verdict_table(report),
        status_table=windows_view.status_table(report),
        difference_table=windows_view.difference_table(report),
        previews=_previews(report),
        shown=shown,
        span=span,
    )


def rendered(template: str, **values: object) -> str:
    """A page of this folder's template. Raises :class:`AssertionError` if it has :data:`MAX_BYTES` or more."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, loader=FunctionLoader(_source))
    environment.filters["count"] = lambda number: f"{number:,}"
    css = Markup(_source("page.css"))  # noqa: S704  # our own file
    page = environment.get_template(template).render(**values, css=css)
    assert len(page.encode()) < MAX_BYTES, "the page is too large"
    return page


def _source(name: str) -> str:
    return (resources.files("pipelines.report") / name).read_text(encoding="utf-8")


def _tiles(report: ReportData) -> list[Tile]:
    windows = report.windows
    found = [Tile(f"{report.events:,}", "events arrived")]
    found += [Tile(f"{counts.total():,}", name) for name, counts in report.by_verdict.items() if counts.total()]
    found.append(Tile(f"{sum(pair.replay is not None for pair in windows.pairs):,}", f"{windows.noun}s"))
    if windows.has_stream:
        found.append(Tile(f"{len(windows.different):,}", "differ from the live run"))
    if report.checks:
        passed = len(report.checks) - len(report.failed)
        found.append(Tile(f"{passed} of {len(report.checks)}", "checks passed"))
    return found


def _next_command(report: ReportData) -> str | None:
    if not report.windows.different:
        return None
    if not report.windows.reconciled or report.windows.stale:
        return reconcile_command(report)
    return why_command(report, report.windows.different[0])


def _verdict_figures(report: ReportData) -> list[Figure]:
    """One chart for each verdict and reason, each on its own scale, so that small counts are visible."""
    bins = report.bins
    if bins is None or not report.by_verdict:
        return []
    x_us = [bins.start_us(index) for index in range(bins.count)]
    found = []
    parts = [(name, name, counts) for name, counts in report.by_verdict.items()]
    parts += [(name, "reason", counts) for name, counts in report.by_reason.items()]
    for name, color, counts in parts:
        series = charts.Series(name, color, [float(counts[index]) for index in range(bins.count)])
        share = counts.total() / report.events if report.events else 0.0
        kind = "Reason" if color == "reason" else "Verdict"
        most = max(counts, key=lambda index: counts[index], default=0)
        description = (
            f"{kind} {name}: {counts.total():,} of {report.events:,} events, {share:.2%}."
            f" Most in the {format_duration(bins.width_us)} from {format_instant(bins.start_us(most))}:"
            f" {counts[most]:,}."
        )
        figure = drawn(partial(charts.bars_over_time, x_us, bins.width_us, series), name, description, ())
        found.append(replace(figure, note=_WORDS.get(name, "")))
    return found


def verdict_table(report: ReportData) -> Table | None:
    """Events by bin, verdict and reason."""
    rows = numbers(report)["over_time"]
    if not rows["rows"]:
        return None
    names = [name for name in rows["rows"][0] if name != "from"]
    data = [(row["from"], *(f"{row[name]:,}" for name in names)) for row in rows["rows"]]
    return Table(f"Events by verdict and reason, in steps of {rows['bin']}", ("from", *names), tuple(data), 1)


def _previews(report: ReportData) -> Table | None:
    rows = tuple(
        (
            one.name,
            range_text(one.output),
            format_instant(from_datetime(one.run["finished_at"])),
            format_instant(from_datetime(one.expires_at)),
            str(one.run["reason"] or ""),
        )
        for one in report.previews
    )
    return Table("Previews of the job", ("name", "range", "made", "expires", "reason"), rows) if rows else None


def _completeness(one: InputData) -> Figure:
    steps = one.completeness()
    timed = one.events - one.without_time
    shares = [within / timed for _, _, within in steps]
    bound = next((place for place, step in enumerate(steps) if step[0] == one.policy.late_us), None)
    labels = [label for _, label, _ in steps]
    within_bound = "" if bound is None else f" Within the tolerance of {labels[bound]}: {shares[bound]:.2%}."
    description = (
        f"{one.name}: {shares[0]:.2%} of the events had arrived by the time they happened, {shares[-1]:.2%} within"
        f" {labels[-1]}.{within_bound}"
    )
    table = Table(
        "Share of the events that arrive within a tolerance",
        ("tolerance", "events within", "share", "events beyond"),
        tuple((label, f"{within:,}", f"{within / timed:.4%}", f"{timed - within:,}") for _, label, within in steps),
        1,
    )
    legend: Sequence[Swatch] = (Swatch("accepted", "share of events that arrived within the tolerance"),)
    if bound is not None:
        legend = (*legend, Swatch("dropped", f"late tolerance, {labels[bound]}", dashed=True))
    figure = drawn(partial(charts.steps_with_line, labels, shares, bound), one.name, description, (table,))
    return replace(figure, legend=tuple(legend))
