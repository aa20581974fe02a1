"""``tailrace demo``: a year of real departures, run live, replayed, compared and shown."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pipelines.cli.common import Steps, context, emit, progress
from pipelines.core.intervals import days_of, parse_range
from pipelines.core.model import EVERYTHING, StreamAnalyticsOrdering
from pipelines.core.time import MINUTE, format_duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from pipelines.core.model import Job
    from pipelines.ingest.batch import IngestSummary
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.live.run import StreamSummary
    from pipelines.reconcile.result import Reconciliation
    from pipelines.replay.summary import RunSummary
    from pipelines.report.write_report import WrittenReport

JOB = "departures_per_hour"
INPUT = "departures"
WEEK = parse_range("2013-07-08", "2013-07-15")
DAYS = [day for day, _ in days_of(WEEK)]
ORIGIN, CARRIER = "JFK", "B6"
SHORT_LATE_ARRIVAL_US = 15 * MINUTE

Row = dict[str, Any]


@dataclass(frozen=True)
class Results:
    """The results of all steps of the demo. ``week``: the windows of one airport and airline in the week shown.

    ``short_tolerance`` compares with a live run whose late tolerance was shorter, ``agreed`` with one of the same job.
    """

    lakehouse: Lakehouse
    ingested: IngestSummary
    live: StreamSummary
    run: RunSummary
    short_tolerance: Reconciliation
    agreed: Reconciliation
    report: WrittenReport
    week: Sequence[Row]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "lakehouse": self.lakehouse.root,
            "ingested": self.ingested.as_dict(),
            "live_run": self.live.as_dict(),
            "run": self.run.as_dict(),
            "reconciled": self.agreed.as_dict(),
            "reconciled_with_another_tolerance": self.short_tolerance.as_dict(),
            "report": self.report.as_dict(),
            "week": self.week,
        }


def demo() -> None:
    """Load a year of real departures, run it live, replay it, compare both, and show a week of it."""
    from pipelines.lakehouse.root import Lakehouse

    with progress("demo", steps=8) as step:
        results = _run_demo(_shipped_job(), Lakehouse.at(context().lakehouse), step)
    emit(results.as_dict(), _lines(results))
    if results.agreed.differing:
        raise typer.Exit(1)


def _run_demo(job: Job, lakehouse: Lakehouse, step: Steps) -> Results:
    from pipelines.demo.departures import PACKAGE, VERSION, write_arrival_log
    from pipelines.ingest.batch import ingest
    from pipelines.reconcile.run import reconcile
    from pipelines.replay.run import replay
    from pipelines.report.write_report import write_report

    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
        step("writing the arrival log")
        log = write_arrival_log(Path(folder))
        step("ingesting it")
        ingested = ingest(job, INPUT, [log], lakehouse, batch=f"{PACKAGE}-{VERSION}")
    step("running it live")
    live = _stream(job, lakehouse)
    step("running it live with another tolerance")
    other = _with_short_tolerance(job)
    _stream(other, lakehouse)
    step("replaying the year")
    run = replay(job, EVERYTHING, lakehouse)
    step("comparing with the other tolerance")
    differing = reconcile(job, WEEK, lakehouse, against=f"stream_windows/{other.name}")
    step("comparing with the live run")
    agreed = reconcile(job, EVERYTHING, lakehouse)
    step("writing the report")
    report = write_report(job, lakehouse, WEEK)
    return Results(lakehouse, ingested, live, run, differing, agreed, report, _week(job, lakehouse))


def _stream(job: Job, lakehouse: Lakehouse) -> StreamSummary:
    """The live run. Where an earlier version of Tailrace began it for another fingerprint, it begins again."""
    from pipelines.live.run import stream
    from pipelines.live.spark.announcements import latest

    before = latest(lakehouse, job)
    return stream(job, lakehouse, from_start=before is not None and before.fingerprint != job.fingerprint)


def _with_short_tolerance(job: Job) -> Job:
    """The same job under another name, with a shorter late tolerance."""
    orderings = tuple(
        (name, replace(ordering, late_arrival_us=SHORT_LATE_ARRIVAL_US))
        for name, ordering in job.orderings
        if isinstance(ordering, StreamAnalyticsOrdering)
    )
    name = f"{job.name}_short_tolerance"
    return replace(job, name=name, orderings=orderings, stream_windows=f"stream_windows/{name}")


def _shipped_job() -> Job:
    """The job that ships, whatever folder ``TAILRACE_JOBS`` names."""
    from importlib import resources

    from pipelines.job.load import load_job

    return load_job(str(resources.files("pipelines.job.examples") / f"{JOB}.yaml"))


def _week(job: Job, lakehouse: Lakehouse) -> list[Row]:
    """The week's windows of one airport and airline, by their end."""
    from pipelines.lakehouse.show import plain_rows, rows_of

    rows = rows_of(job, "windows", lakehouse, WEEK)
    assert rows is not None, "the replay has written this table"
    names = ("origin", "carrier", "window_end", "departures", "mean_delay")
    found = ({name: row[name] for name in names} for row in plain_rows(rows))
    return [row for row in found if (row["origin"], row["carrier"]) == (ORIGIN, CARRIER)]


def _lines(results: Results) -> Iterator[RenderableType]:
    lakehouse, run, ingested = results.lakehouse, results.run, results.ingested
    agreed, short_tolerance = results.agreed, results.short_tolerance
    yield _week_table(results.week)
    yield _verdict_table(run)
    verdict = f"{agreed.differing:,} windows DIFFER" if agreed.differing else f"all {agreed.equal:,} windows agree"
    yield f"\nReplay against the live run: {verdict}."
    causes = ", ".join(f"{cause} {count:,}" for cause, count in short_tolerance.by_cause.items())
    yield (
        f"Against a live run that waited {format_duration(SHORT_LATE_ARRIVAL_US)} for late events, in that week:"
        f" {short_tolerance.differing:,} windows differ ({causes}), {short_tolerance.equal:,} agree."
    )
    yield from (f"  {sentence}" for sentence in short_tolerance.story)
    loaded = "was loaded before" if ingested.already_ingested else f"{ingested.appended:,} departures loaded"
    yield f"\narrival log    {lakehouse.uri(f'arrivals/{INPUT}')} ({loaded})"
    yield f"live run       {lakehouse.uri(f'stream_windows/{JOB}')}"
    for name, count in run.rows_written.items():
        yield f"{name.split('/')[0]:<14} {lakehouse.uri(name)} ({count:,} rows)"
    yield f"runs           {lakehouse.uri('runs')} (this one: {run.run_id})"
    yield f"fingerprint    {run.output_fingerprint}"
    yield f"report         {results.report.place}"
    yield f"look around:   tailrace show {JOB} windows --from {DAYS[0]} --to {DAYS[1]}"


def _week_table(week: Sequence[Row]) -> Table:
    """Hours down, days across; a cell is one window's number of departures."""
    from rich.table import Table

    title = f"A week of hourly windows: departures of {CARRIER} from {ORIGIN} by window end (UTC)"
    table = Table(title=title, title_justify="left")
    table.add_column("ends")
    for day in DAYS:
        table.add_column(day.strftime("%a %d"), justify="right")
    # a window ends on the hour: 2013-07-08T14:00:00Z
    cells = {(row["window_end"][11:16], row["window_end"][:10]): row for row in week}
    for hour in sorted({hour for hour, _ in cells}):
        found = [cells.get((hour, str(day))) for day in DAYS]
        table.add_row(hour, *("" if row is None else str(row["departures"]) for row in found))
    table.add_section()
    by_day = [[row for row in week if row["window_end"].startswith(str(day))] for day in DAYS]
    table.add_row("day", *(str(sum(row["departures"] for row in rows)) for rows in by_day))
    table.add_row("delay", *(_mean_delay(rows) for rows in by_day))
    return table


def _mean_delay(rows: Sequence[Row]) -> str:
    """Minutes, over a day's windows; empty without departures."""
    departures = sum(row["departures"] for row in rows)
    return f"{sum(row['mean_delay'] * row['departures'] for row in rows) / departures:.1f} m" if departures else ""


def _verdict_table(run: RunSummary) -> Table:
    from rich.table import Table

    table = Table(title="Verdicts and reasons of every departure of 2013", title_justify="left")
    table.add_column("verdict or reason")
    table.add_column("events", justify="right")
    for indent, counts in (("", run.found.counts_by_verdict), ("  ", run.found.counts_by_reason)):
        for name, count in sorted(counts.items(), key=lambda item: -item[1]):
            table.add_row(f"{indent}{name}", f"{count:,}")
        table.add_section()
    table.add_row("all", f"{run.events:,}")
    return table
