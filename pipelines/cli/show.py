"""``tailrace show``: print a table."""

from __future__ import annotations

import csv
import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.cli.common import FROM, JOB, TO, console, context, emit, find_job, note, output_range

if TYPE_CHECKING:
    from pipelines.core.model import Job, OutputRange

Row = dict[str, Any]


class Format(StrEnum):
    """How rows are printed."""

    table = "table"
    jsonl = "jsonl"
    csv = "csv"


TABLE = Annotated[str, typer.Argument(metavar="TABLE", help="windows, verdicts, arrivals, quarantine, runs, ...")]
FORMAT = Annotated[Format, typer.Option("--format", help="How rows are printed.")]


def show(job: JOB, table: TABLE, from_: FROM = None, to: TO = None, format_: FORMAT = Format.table) -> None:
    """Print a table in a total order; a table not yet written shows nothing."""
    from pipelines.lakehouse.show import plain_rows, rows_of

    found = find_job(job)
    if table.lower() == "previews":
        data = _previews(found)
        _print(data, list(data[0]) if data else [], format_)
        return
    output = output_range(from_, to)
    rows = rows_of(found, table, context().lakehouse, output)
    if rows is None:
        note(f"{table} is not written yet")
        emit([], ())
        return
    for sentence in _origins(found, table, output):
        note(f"note: {sentence}")
    _print(plain_rows(rows), rows.column_names, format_)


def _origins(job: Job, table: str, output: OutputRange) -> list[str]:
    """Of what different origin the shown results are."""
    from pipelines.lakehouse.layout import result_tables
    from pipelines.lakehouse.owned_ranges import origins
    from pipelines.lakehouse.root import Lakehouse
    from pipelines.lakehouse.runs import runs_of
    from pipelines.lakehouse.show import tables_of

    shown, _ = tables_of(job)[table.lower()]
    if shown[0] not in dict(result_tables(job)):
        return []
    return origins(runs_of(Lakehouse.at(context().lakehouse), job.name), job, output)


def _previews(job: Job) -> list[Row]:
    from pipelines.lakehouse.previews import previews_of
    from pipelines.lakehouse.root import Lakehouse

    return [one.as_dict() for one in previews_of(Lakehouse.at(context().lakehouse), job.name)]


def _print(data: list[Row], names: list[str], format_: Format) -> None:
    if context().json:
        emit(data, ())
    elif format_ is Format.table:
        print_table(data, names)
    elif format_ is Format.jsonl:
        for row in data:
            sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_text(row[name]) for name in names] for row in data)


def print_table(data: list[Row], names: list[str]) -> None:
    """A grid; on a terminal that is too narrow for it, one block of lines a row."""
    from rich.measure import Measurement
    from rich.table import Table
    from rich.text import Text

    out = console()
    grid = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        numbers = bool(data) and all(isinstance(row[name], (int, float)) or row[name] is None for row in data)
        grid.add_column(name, justify="right" if numbers else "left", no_wrap=True)
    for row in data:
        grid.add_row(*[Text(_text(row[name])) for name in names])
    needed = Measurement.get(out, out.options.update(max_width=1_000_000), grid).maximum
    if needed <= out.width or not out.is_terminal:
        # a pipe has no width: every column as wide as its widest value
        out.width = max(out.width, needed)
        out.print(grid)
        return
    width = max(map(len, names), default=0)
    for number, row in enumerate(data, start=1):
        out.print(f"-- {number} of {len(data)}", markup=False)
        for name in names:
            out.print(f"{name:<{width}}  {_text(row[name])}".rstrip(), markup=False)


def _text(value: Any) -> str:
    """A cell: null is empty, nested values and booleans are JSON."""
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (bool, list, dict)) else str(value)
