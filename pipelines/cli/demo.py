"""``tailrace demo``: a year of real departures, loaded, replayed and shown."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from pipelines.cli.common import context, emit, progress
from pipelines.core.time import format_instant, from_datetime

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pipelines.core.model import Job
    from pipelines.lakehouse.ingest import IngestSummary
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.replay import RunSummary

JOB = "departures_per_hour"
INPUT = "departures"
MONDAY = date(2013, 7, 8)
DAYS = 7
ORIGIN, CARRIER = "JFK", "B6"


@dataclass(frozen=True)
class WindowOfWeek:
    """One window of the week that is shown."""

    window_end: datetime
    departures: int
    mean_delay: float


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("demo")
    def demo() -> None:
        """Load a year of real departures, replay it, and show a week of windows and the year's verdicts."""
        from pipelines.core.model import EVERYTHING
        from pipelines.demo.departures import PACKAGE, VERSION, write_arrival_log
        from pipelines.lakehouse.ingest import ingest
        from pipelines.lakehouse.root import Lakehouse
        from pipelines.replay import replay

        job, house = _shipped_job(), Lakehouse.at(context().lakehouse)
        with progress("demo", steps=4) as step, tempfile.TemporaryDirectory(prefix="tailrace-demo-") as folder:
            step("writing the arrival log")
            log = write_arrival_log(Path(folder))
            step("ingesting it")
            ingested = ingest(job, INPUT, [log], house, batch=f"{PACKAGE}-{VERSION}")
            step("replaying the year")
            run = replay(job, EVERYTHING, house)
            step("reading a week back")
            week = _week(house)
        emit(
            {
                "lakehouse": house.root,
                "ingested": ingested.as_dict(),
                "run": run.as_dict(),
                "week": [
                    {
                        "origin": ORIGIN,
                        "carrier": CARRIER,
                        "window_end": format_instant(from_datetime(row.window_end)),
                        "departures": row.departures,
                        "mean_delay": row.mean_delay,
                    }
                    for row in week
                ],
            },
            lambda out: _print(out, house, ingested, run, week),
        )


def _shipped_job() -> Job:
    """The job that ships, whatever folder ``TAILRACE_JOBS`` names."""
    from importlib import resources

    from pipelines.job.load import load_job

    return load_job(str(resources.files("pipelines.job.examples") / f"{JOB}.yaml"))


def _week(house: Lakehouse) -> list[WindowOfWeek]:
    """The week's windows of one airport and airline, by their end."""
    table = house.open(f"windows/{JOB}")
    assert table is not None, "the replay has written this table"
    day_after = MONDAY + timedelta(days=DAYS)
    rows = table.to_pyarrow_table(
        columns=["window_end", "departures", "mean_delay"],
        partitions=[("output_date", ">=", MONDAY.isoformat()), ("output_date", "<", day_after.isoformat())],
        filters=[("origin", "=", ORIGIN), ("carrier", "=", CARRIER)],
    ).to_pylist()
    return sorted((WindowOfWeek(**row) for row in rows), key=lambda row: row.window_end)


def _print(
    out: Console, house: Lakehouse, ingested: IngestSummary, run: RunSummary, week: Sequence[WindowOfWeek]
) -> None:
    out.print(_week_table(week))
    out.print(_verdict_table(run))
    loaded = "was loaded before" if ingested.already_ingested else f"{ingested.appended:,} departures loaded"
    out.print(f"arrival log    {house.uri(f'arrivals/{INPUT}')} ({loaded})", markup=False)
    for name, count in run.rows_written.items():
        out.print(f"{name.split('/')[0]:<14} {house.uri(name)} ({count:,} rows)", markup=False)
    out.print(f"runs           {house.uri('runs')} (this one: {run.run_id})", markup=False)
    out.print(f"fingerprint    {run.output_fingerprint}", markup=False)
    out.print(
        f"look around:   tailrace show {JOB} windows --from {MONDAY} --to {MONDAY + timedelta(days=1)}", markup=False
    )


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
    for verdict, count in sorted(run.counts_by_verdict.items(), key=lambda item: -item[1]):
        table.add_row(verdict, f"{count:,}")
    table.add_section()
    for reason, count in sorted(run.counts_by_reason.items(), key=lambda item: -item[1]):
        table.add_row(f"  {reason}", f"{count:,}")
    table.add_section()
    table.add_row("all", f"{run.events:,}")
    return table
