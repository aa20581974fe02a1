"""From samples to figures: JSON-ready data, which tables, pages and charts are made from."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import statistics
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.disorder import EVENTS_A_DAY, Disorder
from bench.groups import Group
from bench.questions import READINGS
from bench.rounds import Ratio, Row, Sample, cpu_seconds, ratio
from pipelines import __version__
from pipelines.core.time import format_duration

Figures = dict[str, Any]
PACKAGES = ("pyspark", "delta-spark", "deltalake", "pyarrow", "numpy", "duckdb", "polars")


def report(groups: list[tuple[Group, dict[str, Row]]], rounds: int, java: str) -> Figures:
    """Everything that was found, and on what."""
    return {
        "machine": _machine(java),
        "model": {**asdict(Disorder(0, 0)), "events_a_day": EVENTS_A_DAY},
        "question": {
            name.removesuffix("_us"): format_duration(value) if name.endswith("_us") else value
            for name, value in asdict(READINGS).items()
        },
        "logs": [_log(group, rows) | {"taken": taken(rounds)} for group, rows in groups if not group.axis],
        "curves": [_curve(group, rows) | {"taken": taken(rounds)} for group, rows in groups if group.axis],
    }


def taken(rounds: int) -> Figures:
    """When something was measured, how often, and on how busy a machine."""
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"at": at, "rounds": rounds, "load_average": LOAD_AT_START}


def _log(group: Group, rows: Mapping[str, Row]) -> Figures:
    told = [_figures(row, rows.get(row.against), by_event=True) for row in rows.values()]
    return {"name": group.name, "title": group.title, "events": next(iter(rows.values())).events, "rows": told}


def _curve(group: Group, rows: Mapping[str, Row]) -> Figures:
    points = []
    for point in group.points:
        told = []
        for contender in point.contenders:
            row = rows[contender.name]
            bare = contender.name.removeprefix(f"{point.label}/")
            first = rows[f"{group.points[0].label}/{bare}"]
            figures = _figures(row, rows.get(row.against), by_event=False)
            told.append({**figures, "name": bare, "of_first": _ratio(ratio(row, first, by_event=False))})
        points.append({"label": point.label, "rows": told})
    return {"name": group.name, "title": group.title, "axis": group.axis, "points": points}


def _figures(row: Row, base: Row | None, *, by_event: bool) -> Figures:
    figures: Figures = {
        "name": row.name,
        "title": row.title,
        "against": row.against,
        "events": row.events,
        "status": row.status,
        "note": row.note,
        "rounds": len(row.samples),
    }
    if not row.counts:
        return figures
    times = [sample.seconds for sample in row.samples]
    if base is not None:
        figures["ratio"] = _ratio(ratio(row, base, by_event=by_event))
        figures["cpu_ratio"] = _ratio(ratio(row, base, cpu_seconds, by_event=by_event))
    return {
        **figures,
        "seconds": statistics.median(times),
        "events_per_second": row.events / statistics.median(times),
        **{name: _median(row, take) for name, take in _COSTS.items()},
    }


_COSTS: dict[str, Callable[[Sample], float | None]] = {
    "peak_bytes": lambda sample: sample.processes.peak_bytes if sample.processes else None,
    "read_bytes": lambda sample: sample.processes.read_bytes if sample.processes else None,
    "heap_peak_bytes": lambda sample: sample.spark.heap_peak_bytes if sample.spark else None,
    "files_read": lambda sample: sample.spark.files_read if sample.spark else None,
    "shuffle_bytes": lambda sample: sample.spark.shuffle_bytes if sample.spark else None,
    "spilled_bytes": lambda sample: sample.spark.spilled_bytes if sample.spark else None,
    "tasks": lambda sample: sample.spark.tasks if sample.spark else None,
    "largest_over_median": lambda sample: sample.spark.largest_over_median if sample.spark else None,
}


def _median(row: Row, take: Callable[[Sample], float | None]) -> float | None:
    values = [value for sample in row.samples if (value := take(sample)) is not None]
    return statistics.median(values) if values else None


def _ratio(found: Ratio | None) -> Figures | None:
    return None if found is None else asdict(found)


def _machine(java: str) -> Figures:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {name: importlib.metadata.version(name) for name in PACKAGES if _is_installed(name)}
    return {
        "processor": _processor(),
        "cores": cores,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "system": f"{platform.system()} {platform.release()}",
        "versions": {"tailrace": __version__, "python": platform.python_version(), "java": java, **versions},
    }


LOAD_AT_START = round(os.getloadavg()[0], 1)
"""How busy the machine was before anything was measured."""


def _is_installed(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _processor() -> str:
    """The processor's name, as far as the system tells it."""
    place = Path("/proc/cpuinfo")
    if place.exists():
        for line in place.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
