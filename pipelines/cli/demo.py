"""``tailrace demo``: a year of real departures, run live, replayed, proved and shown."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pipelines.cli.common import Steps, context, emit, progress
from pipelines.core.model import OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import MINUTE, format_duration, format_instant, from_datetime

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pipelines.core.model import Job
    from pipelines.ingest.batch import IngestSummary
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.live.run import StreamSummary
    from pipelines.reconcile.result import Reconciliation
    from pipelines.replay.summary import RunSummary
    from pipelines.report.write import Written

JOB = "departures_per_hour"
INPUT = "departures"
MONDAY = date(2013, 7, 8)
DAYS = 7
ORIGIN, CARRIER = "JFK", "B6"
HURRIED_LATE_ARRIVAL_US = 15 * MINUTE


@dataclass(frozen=True)
class WindowOfWeek:
    """One window of the week that is shown."""

    window_end: datetime
    departures: int
    mean_delay: float


@dataclass(frozen=True)
class Shown:
    """Everything that the demo did and shows."""

    lakehouse: Lakehouse
    ingested: IngestSummary
    live: StreamSummary
    run: RunSummary
    hurried: Reconciliation
    agreed: Reconciliation
    report: Written
    week: Sequence[WindowOfWeek]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "lakehouse": self.lakehouse.root,
            "ingested": self.ingested.as_dict(),
            "live_run": self.live.as_dict(),
            "run": self.run.as_dict(),
            "reconciled": self.agreed.as_dict(),
            "reconciled_with_another_tolerance": self.hurried.as_dict(),
            "report": self.report.as_dict(),
            "week": [
                {
                    "origin": ORIGIN,
                    "carrier": CARRIER,
                    "window_end": format_instant(from_datetime(row.window_end)),
                    "departures": row.departures,
                    "mean_delay": row.mean_delay,
                }
                for row in self.week
            ],
        }


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("demo")
    def demo() -> None:
        """Load a year of real departures, run it live, replay it, prove that both agree, and show a week of it."""
        from pipelines.lakehouse.root import Lakehouse

        with progress("demo", steps=8) as step:
            shown = _demo(_shipped_job(), Lakehouse.at(context().lakehouse), step)
        emit(shown.as_dict(), lambda out: _print(out, shown))
        if shown.agreed.differing:
            raise typer.Exit(1)


def _demo(job: Job, lakehouse: Lakehouse, step: Steps) -> Shown:
    from pipelines.core.model import EVERYTHING
    from pipelines.demo.departures import PACKAGE, VERSION, write_arrival_log
    from pipelines.ingest.batch import ingest
    from pipelines.live.run import stream
    from pipelines.reconcile.run import reconcile
    from pipelines.replay.run import replay
    from pipelines.report.write import write_report

    with tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
        step("writing the arrival log")
        log = write_arrival_log(Path(folder))
        step("ingesting it")
        ingested = ingest(job, INPUT, [log], lakehouse, batch=f"{PACKAGE}-{VERSION}")
    step("running it live")
    live = stream(job, lakehouse)
    step("running it live with another tolerance")
    hurried = _hurried(job)
    stream(hurried, lakehouse)
    step("replaying the year")
    run = replay(job, EVERYTHING, lakehouse)
    step("comparing with the other tolerance")
    differing = reconcile(job, _week_range(), lakehouse, against=f"stream_windows/{hurried.name}")
    step("comparing with the live run")
    agreed = reconcile(job, EVERYTHING, lakehouse)
    step("writing the report")
    report = write_report(job, lakehouse, _week_range())
    return Shown(lakehouse, ingested, live, run, differing, agreed, report, _week(lakehouse))


def _hurried(job: Job) -> Job:
    """The job as somebody might have run it: with a shorter late tolerance."""
    orderings = tuple(
        (name, replace(ordering, late_arrival_us=HURRIED_LATE_ARRIVAL_US))
        for name, ordering in job.orderings
        if isinstance(ordering, StreamAnalyticsOrdering)
    )
    name = f"{job.name}_hurried"
    return replace(job, name=name, orderings=orderings, stream_windows=f"stream_windows/{name}")


def _week_range() -> OutputRange:
    begin = datetime.combine(MONDAY, time(), UTC)
    return OutputRange(from_datetime(begin), from_datetime(begin + timedelta(days=DAYS)))


def _shipped_job() -> Job:
    """The job that ships, whatever folder ``TAILRACE_JOBS`` names."""
    from importlib import resources

    from pipelines.job.load import load_job

    return load_job(str(resources.files("pipelines.job.examples") / f"{JOB}.yaml"))


def _week(lakehouse: Lakehouse) -> list[WindowOfWeek]:
    """The week's windows of one airport and airline, by their end."""
    table = lakehouse.open(f"windows/{JOB}")
    assert table is not None, "the replay has written this table"
    day_after = MONDAY + timedelta(days=DAYS)
    rows = table.to_pyarrow_table(
        columns=["window_end", "departures", "mean_delay"],
        partitions=[("output_date", ">=", MONDAY.isoformat()), ("output_date", "<", day_after.isoformat())],
        filters=[("origin", "=", ORIGIN), ("carrier", "=", CARRIER)],
    ).to_pylist()
    return sorted((WindowOfWeek(**row) for row in rows), key=lambda row: row.window_end)


def _print(out: Console, shown: Shown) -> None:
    out.print(_week_table(shown.week))
    out.print(_verdict_table(shown.run))
    for line in (*_proof(shown), *_places(shown)):
        out.print(line, markup=False)


def _proof(shown: Shown) -> list[str]:
    agreed, hurried = shown.agreed, shown.hurried
    told = f"all {agreed.equal:,} windows agree" if not agreed.differing else f"{agreed.differing:,} windows DIFFER"
    causes = ", ".join(f"{cause} {count:,}" for cause, count in hurried.by_cause.items())
    return [
        "",
        f"Replay against the live run: {told}.",
        f"Against a live run that waited {format_duration(HURRIED_LATE_ARRIVAL_US)} for late events, in that week:"
        f" {hurried.differing:,} windows differ ({causes}), {hurried.equal:,} agree.",
        *(f"  {sentence}" for sentence in hurried.story),
        "",
    ]


def _places(shown: Shown) -> list[str]:
    lakehouse, run, ingested = shown.lakehouse, shown.run, shown.ingested
    loaded = "was loaded before" if ingested.already_ingested else f"{ingested.appended:,} departures loaded"
    return [
        f"arrival log    {lakehouse.uri(f'arrivals/{INPUT}')} ({loaded})",
        f"live run       {lakehouse.uri(f'stream_windows/{JOB}')}",
        *(
            f"{name.split('/')[0]:<14} {lakehouse.uri(name)} ({count:,} rows)"
            for name, count in run.rows_written.items()
        ),
        f"runs           {lakehouse.uri('runs')} (this one: {run.run_id})",
        f"fingerprint    {run.output_fingerprint}",
        f"report         {shown.report.place}",
        f"look around:   tailrace show {JOB} windows --from {MONDAY} --to {MONDAY + timedelta(days=1)}",
    ]


def _week_table(week: Sequence[WindowOfWeek]) -> Table:
    """Hours down, days across; a cell is one window's number of departures."""
    from rich.table import Table

    days = [MONDAY + timedelta(days=offset) for offset in range(DAYS)]
    title = f"A week of hourly windows: departures of {CARRIER} from {ORIGIN} by window end (UTC)"
    table = Table(title=title, title_justify="left")
    table.add_column("ends")
    for day in days:
        table.add_column(day.strftime("%a %d"), justify="right")
    cells = {(row.window_end.astimezone(UTC).hour, row.window_end.astimezone(UTC).date()): row for row in week}
    for hour in sorted({hour for hour, _ in cells}):
        found = [cells.get((hour, day)) for day in days]
        table.add_row(f"{hour:02}:00", *("" if row is None else str(row.departures) for row in found))
    table.add_section()
    by_day = [[row for (_, at), row in cells.items() if at == day] for day in days]
    table.add_row("day", *(str(sum(row.departures for row in rows)) for rows in by_day))
    table.add_row("delay", *(_mean_delay(rows) for rows in by_day))
    return table


def _mean_delay(rows: Sequence[WindowOfWeek]) -> str:
    """Minutes, over a day's windows; empty without departures."""
    departures = sum(row.departures for row in rows)
    return f"{sum(row.mean_delay * row.departures for row in rows) / departures:.1f} m" if departures else ""


def _verdict_table(run: RunSummary) -> Table:
    from rich.table import Table

    table = Table(title="What became of every departure of 2013", title_justify="left")
    table.add_column("verdict or reason")
    table.add_column("events", justify="right")
    for verdict, count in sorted(run.found.counts_by_verdict.items(), key=lambda item: -item[1]):
        table.add_row(verdict, f"{count:,}")
    table.add_section()
    for reason, count in sorted(run.found.counts_by_reason.items(), key=lambda item: -item[1]):
        table.add_row(f"  {reason}", f"{count:,}")
    table.add_section()
    table.add_row("all", f"{run.events:,}")
    return table
