"""The report as one JSON document, which the page contains as ``<script type="application/json" id="facts">``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines import __version__
from pipelines.core.time import format_duration, format_instant
from pipelines.lakehouse.show import plain
from pipelines.plan.definition import instant_or_none
from pipelines.report.compare import STATUSES, Pair
from pipelines.report.report_data import InputData, ReportData
from pipelines.report.story import first_divergence, reproduce_command, verdict

MOST_DIFFERENCES = 200
"""How many windows that differ a page names; it counts them all."""


def numbers(report: ReportData) -> dict[str, Any]:
    """JSON-ready data; instants are ISO 8601, a share is a number from 0 to 1."""
    found, windows = verdict(report), report.windows
    return {
        "tailrace": __version__,
        "job": report.job.name,
        "profile": report.job.profile,
        "job_fingerprint": report.job.fingerprint,
        "output_from": instant_or_none(report.output.from_us),
        "output_to": instant_or_none(report.output.to_us),
        "generated_at": format_instant(report.generated_us),
        "state": found.state,
        "verdict": found.sentence,
        "first_divergence": first_divergence(report),
        "events": report.events,
        "undecided_events": report.undecided,
        "verdicts": {name: counts.total() for name, counts in report.by_verdict.items()},
        "reasons": {name: counts.total() for name, counts in report.by_reason.items()},
        "over_time": _over_time(report),
        "inputs": [_input(one) for one in report.inputs],
        "windows": {
            "rows": sum(pair.replay is not None for pair in windows.pairs),
            "compared": windows.has_stream,
            "reconciled": windows.reconciled,
            "reconciliation_is_older": windows.stale,
            "equal": windows.counts["equal"],
            **{status: windows.counts[status] for status in STATUSES},
        },
        "differences": [difference(pair) for pair in windows.different[:MOST_DIFFERENCES]],
        "checks": [check.as_dict() for check in report.checks],
        "not_checked": list(report.unchecked),
        "plan": None if report.plan is None else report.plan.as_dict(),
        "runs": [_run(report, run) for run in report.runs],
    }


def difference(pair: Pair) -> dict[str, Any]:
    """One window that differs."""
    return {
        **pair.key,
        "status": pair.status,
        "cause": pair.cause,
        "replay": pair.replay,
        "stream": pair.stream,
        "evidence": pair.evidence,
    }


def _over_time(report: ReportData) -> dict[str, Any]:
    """Counts by bin of arrival time, bins without an event left out."""
    if report.bins is None:
        return {"bin": None, "rows": []}
    columns = {**report.by_verdict, **report.by_reason}
    filled = sorted({bin_ for counts in columns.values() for bin_, count in counts.items() if count})
    rows = [
        {"from": format_instant(report.bins.start_us(bin_)), **{name: columns[name][bin_] for name in columns}}
        for bin_ in filled
    ]
    return {"bin": format_duration(report.bins.width_us), "rows": rows}


def _input(one: InputData) -> dict[str, Any]:
    timed = one.events - one.without_time
    return {
        "input": one.name,
        "events": one.events,
        "without_event_time": one.without_time,
        "lag": [{"band": one.bands.name(band), "events": count} for band, count in enumerate(one.by_band()) if count],
        "completeness": [
            {"tolerance": label, "within": within, "share": within / timed if timed else None}
            for _, label, within in one.completeness()
        ],
    }


def _run(report: ReportData, run: Mapping[str, Any]) -> dict[str, Any]:
    named = ("run_id", "output_from", "output_to", "read_from", "read_to", "versions_read", "versions_written")
    more = ("counts_by_verdict", "counts_by_reason", "output_fingerprint", "job_fingerprint", "finished_at", "engine")
    maps = ("versions_read", "versions_written", "counts_by_verdict", "counts_by_reason", "engine")
    found = {name: plain(dict(run[name] or {}) if name in maps else run[name]) for name in (*named, *more)}
    return {**found, "command": reproduce_command(report, run)}
