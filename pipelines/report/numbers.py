"""The facts as one JSON document: what stands in the page as ``<script type="application/json" id="facts">``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines import __version__
from pipelines.core.time import format_duration, format_instant
from pipelines.lakehouse.show import plain
from pipelines.plan.definition import instant_or_none
from pipelines.report.compare import STATUSES, Pair
from pipelines.report.facts import Facts, InputFacts
from pipelines.report.story import first_divergence, reproduce_command, verdict

MOST_DIFFERENCES = 200
"""Windows that differ which a page names; it counts them all."""


def numbers(facts: Facts) -> dict[str, Any]:
    """JSON-ready data; instants are ISO 8601, a share is a number from 0 to 1."""
    told, windows = verdict(facts), facts.windows
    return {
        "tailrace": __version__,
        "job": facts.job.name,
        "profile": facts.job.profile,
        "job_fingerprint": facts.job.fingerprint,
        "output_from": instant_or_none(facts.output.from_us),
        "output_to": instant_or_none(facts.output.to_us),
        "generated_at": format_instant(facts.generated_us),
        "state": told.state,
        "verdict": told.sentence,
        "first_divergence": first_divergence(facts),
        "events": facts.events,
        "undecided_events": facts.undecided,
        "verdicts": {name: counts.total() for name, counts in facts.by_verdict.items()},
        "reasons": {name: counts.total() for name, counts in facts.by_reason.items()},
        "over_time": _over_time(facts),
        "inputs": [_input(one) for one in facts.inputs],
        "windows": {
            "rows": sum(pair.replay is not None for pair in windows.pairs),
            "compared": windows.has_stream,
            "reconciled": windows.reconciled,
            "reconciliation_is_older": windows.stale,
            "equal": windows.counts["equal"],
            **{status: windows.counts[status] for status in STATUSES},
        },
        "differences": [difference(pair) for pair in windows.different[:MOST_DIFFERENCES]],
        "checks": [check.as_dict() for check in facts.checks],
        "not_checked": list(facts.unchecked),
        "plan": None if facts.plan is None else facts.plan.as_dict(),
        "runs": [_run(facts, run) for run in facts.runs],
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


def _over_time(facts: Facts) -> dict[str, Any]:
    """Counts by bin of arrival time, bins without an event left out."""
    if facts.bins is None:
        return {"bin": None, "rows": []}
    columns = {**facts.by_verdict, **facts.by_reason}
    filled = sorted({bin_ for counts in columns.values() for bin_, count in counts.items() if count})
    rows = [
        {"from": format_instant(facts.bins.start_us(bin_)), **{name: columns[name][bin_] for name in columns}}
        for bin_ in filled
    ]
    return {"bin": format_duration(facts.bins.width_us), "rows": rows}


def _input(one: InputFacts) -> dict[str, Any]:
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


def _run(facts: Facts, run: Mapping[str, Any]) -> dict[str, Any]:
    named = ("run_id", "output_from", "output_to", "read_from", "read_to", "versions_read", "versions_written")
    more = ("counts_by_verdict", "counts_by_reason", "output_fingerprint", "job_fingerprint", "finished_at", "engine")
    maps = ("versions_read", "versions_written", "counts_by_verdict", "counts_by_reason", "engine")
    told = {name: plain(dict(run[name] or {}) if name in maps else run[name]) for name in (*named, *more)}
    return {**told, "command": reproduce_command(facts, run)}
