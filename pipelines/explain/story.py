"""What ``why`` answers: sentences for a person, and the same as JSON-ready data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.core.model import Decision, Input, Job
from pipelines.core.time import format_instant
from pipelines.lakehouse.show import plain
from pipelines.recompute.naming import key_names
from pipelines.recompute.windows import Values, instant_in, same_values


@dataclass(frozen=True)
class Story:
    """Everything there is to say about one event or window; ``notes``: what a reader should know about the answer."""

    data: Mapping[str, object]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {**self.data, "story": list(self.sentences), "notes": list(self.notes)}


def shown_row(row: Values) -> dict[str, object]:
    """A window row as JSON-ready data, its bounds as instants."""
    own = {name: value for name, value in row.items() if name != "output_date"}
    return _shown(own, {"window_start", "window_end", "emitted_at"})


def shown_payload(part: Input, payload: Values) -> dict[str, object]:
    """A payload as JSON-ready data."""
    return _shown(payload, {column.name for column in part.columns if column.type.startswith("timestamp")})


def _shown(values: Values, instants: set[str]) -> dict[str, object]:
    return {
        name: format_instant(value) if name in instants and isinstance(value, int) else plain(value)
        for name, value in values.items()
    }


def shown_decision(decision: Decision) -> dict[str, object]:
    """What became of an event, as JSON-ready data."""
    return {
        "verdict": decision.verdict,
        "reasons": list(decision.reasons),
        "system_timestamp": shown_instant(decision.system_timestamp_us),
        "lifetime_end": shown_instant(decision.lifetime_end_us),
        "missed_windows": [format_instant(us) for us in decision.missed_windows_us],
    }


def shown_instant(us: int | None) -> str | None:
    """ISO 8601, or None."""
    return None if us is None else format_instant(us)


def window_description(job: Job, row: Values) -> str:
    """``the window (2026-01-01T12:00:00Z, 2026-01-01T13:00:00Z] of booth a``"""
    start, end = (format_instant(instant_in(row, name)) for name in ("window_start", "window_end"))
    bounds = f"({start}, {end}]" if job.profile == "stream_analytics" else f"[{start}, {end})"
    keys = ", ".join(f"{name} {row[name]}" for name in key_names(job)[3:])
    which = f" {row['window_id']}" if row["window_id"] is not None else ""
    return f"the window{which} {bounds}{' of ' + keys if keys else ''}"


def live_sentence(job: Job, row: Values, live: list[dict[str, object]]) -> str:
    """What the live run wrote for a recomputed row: ``live`` are its rows of that key."""
    where = window_description(job, row)
    if not live:
        return f"The live run has no row for {where}."
    if len(live) > 1:
        return f"The live run wrote {len(live)} rows for {where}."
    names = [one.name for one in job.window_query.aggregates if one.name in live[0]]
    differing = [name for name in names if not same_values(live[0], row, [name])]
    if not differing:
        return f"The live run wrote the same values for {where}."
    values = ", ".join(f"{name} {shown_row(live[0])[name]} instead of {shown_row(row)[name]}" for name in differing)
    return f"The live run wrote {values} for {where}."
