"""The figures as rows of text, the same for the terminal and for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table

from bench.summary import Figures

NONE = "–"


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: ``numeric`` says which columns stand on the right."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[bool, ...]


def times(log: Figures) -> Sheet:
    """How long each contender took, as ratios; one that is not equal has none."""
    rows = []
    for row in log["rows"]:
        ratio, cpu = row.get("ratio"), row.get("cpu_ratio")
        against = "" if row["against"] == "plain" else " ¹"
        shorter = "" if row["events"] == log["events"] else " ²"
        rows.append(
            (
                row["title"],
                _median(ratio) + (against if ratio else ""),
                _spread(ratio),
                _median(cpu),
                f"{row['events_per_second']:,.0f}{shorter}" if "events_per_second" in row else NONE,
                verdict(row),
            )
        )
    header = ("contender", "× plain", "least – most", "× plain, processor", "events/s", "result")
    return _sheet(log["title"], header, rows, words=(0, 5))


def costs(log: Figures) -> Sheet:
    """What each contender took besides time."""
    rows = [
        (
            row["title"],
            _megabytes(row["peak_bytes"]),
            _megabytes(row["heap_peak_bytes"]),
            _megabytes(row["read_bytes"]),
            _number(row["files_read"]),
            _megabytes(row["shuffle_bytes"]),
            _megabytes(row["spilled_bytes"]),
            _number(row["tasks"]),
            _one_digit(row["largest_over_median"]),
        )
        for row in log["rows"]
        if "seconds" in row
    ]
    header = (
        "contender",
        "resident, MB",
        "heap, MB",
        "read, MB",
        "files",
        "shuffled, MB",
        "spilled, MB",
        "tasks",
        "largest / median task",
    )
    return _sheet(f"{log['title']}: memory, reading, shuffling", header, rows, words=(0,))


def along(curve: Figures) -> Sheet:
    """One cost curve."""
    rows = []
    for point in curve["points"]:
        for row in point["rows"]:
            rows.append(
                (
                    point["label"],
                    row["title"],
                    _median(row.get("ratio")),
                    _spread(row.get("ratio")),
                    _median(row["of_first"]),
                    _number(row.get("files_read")),
                    _megabytes(row.get("read_bytes")),
                    _one_digit(row.get("largest_over_median")),
                    verdict(row),
                )
            )
    header = (
        curve["axis"],
        "contender",
        "× plain",
        "least – most",
        "× its first",
        "files",
        "read, MB",
        "largest / median task",
        "result",
    )
    return _sheet(curve["title"], header, rows, words=(0, 1, 8))


def ingest(figures: Figures) -> Sheet:
    """How long each contender of ingest took, as ratios, and its memory."""
    header = ("", "records", "contender", "time", "processor", "records/s", "memory at most, MiB")
    rows = [
        (
            row["task"],
            _number(row["records"]),
            row["contender"],
            quotient(row["seconds_ratio"]),
            quotient(row["processor_ratio"]),
            _number(row["records"] / row["seconds"]),
            _number(row["mebibytes"]),
        )
        for row in figures["rows"]
    ]
    return _sheet("ingest", header, rows, words=(0, 2))


def on_screen(sheet: Sheet) -> Table:
    """The table for a terminal."""
    table = Table(title=sheet.title, title_justify="left")
    for name, numeric in zip(sheet.header, sheet.numeric, strict=True):
        table.add_column(name, justify="right" if numeric else "left")
    for row in sheet.rows:
        table.add_row(*row)
    return table


def verdict(row: Figures) -> str:
    """What the comparison with Tailrace's result said."""
    return f"{row['status']}: {row['note']}" if row["note"] else str(row["status"])


def _sheet(title: str, header: Sequence[str], rows: Sequence[tuple[str, ...]], words: Sequence[int]) -> Sheet:
    return Sheet(title, tuple(header), tuple(rows), tuple(index not in words for index in range(len(header))))


def quotient(value: float) -> str:
    """A ratio, with two digits behind the point or two that are not zeros."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _median(ratio: Figures | None) -> str:
    return NONE if ratio is None else quotient(ratio["median"])


def _spread(ratio: Figures | None) -> str:
    return NONE if ratio is None else f"{quotient(ratio['least'])} – {quotient(ratio['most'])}"


def _megabytes(count: float | None) -> str:
    return NONE if count is None else f"{count / 1e6:,.1f}" if count < 1e7 else f"{count / 1e6:,.0f}"


def _number(count: float | None) -> str:
    return NONE if count is None else f"{count:,.0f}"


def _one_digit(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"
