"""The story of one event: its arrival, each test with its numbers, its verdict, and the windows it counts in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipelines.core.model import Arrival, Fate, Job, OutputRange
from pipelines.core.time import format_duration, format_instant
from pipelines.explain.recomputation import RecomputedRange, Scene, matches, shown_payload, shown_row, windows_after
from pipelines.explain.tests import reasons
from pipelines.lakehouse.root import Lakehouse
from pipelines.recompute.naming import event_id, key_names
from pipelines.recompute.windows import Made, same_values


@dataclass(frozen=True)
class EventStory:
    """Everything that is to be said about one event; ``sentences`` for a person, :meth:`as_dict` for a program."""

    data: Mapping[str, object]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {**self.data, "story": list(self.sentences), "notes": list(self.notes)}


def why_event(job: Job, event: str, lakehouse: str | Path | Lakehouse) -> EventStory:
    """Why the event ``INPUT/PARTITION/SEQUENCE`` has its verdict and counts where it counts.

    Reads the arrivals that make its verdict and its windows exact, and no more. Raises :class:`UsageError` if there is
    no such event.
    """
    recomputation = Scene(job, Lakehouse.at(lakehouse))
    one = recomputation.arrival(event)
    recomputed, fate, windows = _recomputed(recomputation, one)
    why = reasons(job, one, fate, recomputed.arrivals, recomputed.fate_of)
    shown, live_sentences = _windows(recomputation, windows)
    live, verdict_sentence = _live_verdict(recomputation, one, fate)
    sentences = [
        _arrived(one, fate),
        *([] if why.tests and "early" in fate.reasons else [why.watermark_says]),
        *(test.says for test in why.tests),
        *_verdict(fate),
        *_counts(job, fate, windows),
        *live_sentences,
        *verdict_sentence,
    ]
    data: dict[str, object] = {
        "job": job.name,
        "event": {
            "id": event_id(one),
            "arrival_time": format_instant(one.arrival_time_us),
            "event_time": _instant(fate.event_time_us),
            "payload": shown_payload(job.input(one.input), one.payload),
        },
        "watermark": {
            "value": _instant(fate.watermark_us),
            "set_by": None if why.set_by is None else event_id(why.set_by),
            "says": why.watermark_says,
        },
        "tests": [test.as_dict() for test in why.tests],
        **fate_as_dict(fate),
        "windows": shown,
        "live": live,
    }
    return EventStory(data, tuple(sentences), tuple(recomputation.notes))


def fate_as_dict(fate: Fate) -> dict[str, object]:
    """What became of an event, as JSON-ready data."""
    return {
        "verdict": fate.verdict,
        "reasons": list(fate.reasons),
        "system_timestamp": _instant(fate.system_timestamp_us),
        "lifetime_end": _instant(fate.lifetime_end_us),
        "missed_windows": [format_instant(us) for us in fate.missed_windows_us],
    }


def _recomputed(recomputation: Scene, one: Arrival) -> tuple[RecomputedRange, Fate, list[Made]]:
    """The stretch that decides the event, its fate, and the windows that it counts in."""
    verdict = OutputRange(one.arrival_time_us, one.arrival_time_us + 1)
    recomputed = recomputation.around(verdict)
    fate = recomputed.fate_of(one)
    assert fate is not None, "the event's own arrival lies in the stretch that decides it"
    if fate.system_timestamp_us is None:
        return recomputed, fate, []
    output = windows_after(recomputation.job, fate.system_timestamp_us)
    return recomputed, fate, recomputation.around(output).with_member(one)


def _arrived(one: Arrival, fate: Fate) -> str:
    arrival = format_instant(one.arrival_time_us)
    if fate.event_time_us is None:
        return f"{event_id(one)} arrived at {arrival}; its event time cannot be read."
    apart_us = one.arrival_time_us - fate.event_time_us
    how = "at that very instant" if not apart_us else f"{format_duration(abs(apart_us))} earlier"
    if apart_us < 0:
        how = f"{format_duration(-apart_us)} after its arrival"
    return f"{event_id(one)} arrived at {arrival}; it happened at {format_instant(fate.event_time_us)}, {how}."


def _verdict(fate: Fate) -> list[str]:
    why = f" ({', '.join(fate.reasons)})" if fate.reasons else ""
    if fate.system_timestamp_us is None:
        return [f"Verdict: {fate.verdict}{why}; it counts nowhere."]
    return [f"Verdict: {fate.verdict}{why}; it counts at {format_instant(fate.system_timestamp_us)}."]


def _counts(job: Job, fate: Fate, windows: list[Made]) -> list[str]:
    if fate.system_timestamp_us is None:
        return []
    if not windows:
        removed = f", for 'where' ({job.query.where}) removes it or its" if job.query.where else ": its"
        if job.end_of_log == "hold":
            removed = f": its windows are still open at the end of the log, or {removed.lstrip(',: ')}"
        return [f"It counts in no window{removed} time falls in none."]
    return [
        f"It counts in {_window_words(job, made.row)}, one of {len(made.members)} event(s) there." for made in windows
    ]


def _window_words(job: Job, row: Mapping[str, object]) -> str:
    start, end = (format_instant(int(str(row[name]))) for name in ("window_start", "window_end"))
    bounds = f"({start}, {end}]" if job.profile == "stream_analytics" else f"[{start}, {end})"
    keys = ", ".join(f"{name} {row[name]}" for name in key_names(job)[3:])
    which = f" {row['window_id']}" if row["window_id"] is not None else ""
    return f"the window{which} {bounds}{' of ' + keys if keys else ''}"


def _windows(recomputation: Scene, windows: list[Made]) -> tuple[list[dict[str, object]], list[str]]:
    """The windows with what the live run wrote for them."""
    names = [one.name for one in recomputation.job.query.aggregates]
    shown, sentences = [], []
    for made in windows:
        end_us = int(str(made.row["window_end"]))
        data: dict[str, object] = {**shown_row(made.row), "events": len(made.members)}
        live = recomputation.live_windows(end_us)
        if live is not None:
            rows = [row for row in live if matches(row, made.row, key_names(recomputation.job))]
            data["stream"] = [shown_row(row) for row in rows]
            sentences.append(
                live_sentence(recomputation.job, made.row, rows, [name for name in names if _has(rows, name)])
            )
        shown.append(data)
    return shown, sentences


def live_sentence(job: Job, row: Mapping[str, object], rows: list[dict[str, object]], names: list[str]) -> str:
    """What the live run wrote for a recomputed row."""
    where = _window_words(job, row)
    if not rows:
        return f"The live run has no row for {where}."
    if len(rows) > 1:
        return f"The live run wrote {len(rows)} rows for {where}."
    if same_values(rows[0], row, names):
        return f"The live run wrote the same values for {where}."
    differing = [name for name in names if not same_values(rows[0], row, [name])]
    values = ", ".join(f"{name} {shown_row(rows[0])[name]} instead of {shown_row(row)[name]}" for name in differing)
    return f"The live run wrote {values} for {where}."


def _has(rows: list[dict[str, object]], name: str) -> bool:
    return bool(rows) and name in rows[0]


def _live_verdict(recomputation: Scene, one: Arrival, fate: Fate) -> tuple[object, list[str]]:
    known, row = recomputation.live_verdict(one)
    if not known:
        return None, []
    if row is None:
        if recomputation.job.keep_verdicts == "exceptions" and fate.verdict == "accepted":
            return {"verdict": None}, []
        if recomputation.job.keep_verdicts == "exceptions":
            return {"verdict": None}, ["The live run kept no verdict on it: there it simply counted, or never came."]
        return {"verdict": None}, ["The live run kept no verdict on it: it never came there."]
    if row["verdict"] == fate.verdict and row["system_timestamp"] == _instant(fate.system_timestamp_us):
        return row, ["The live run's verdict is the same."]
    return row, [
        f"The live run's verdict is {row['verdict']}; there it counts at {row['system_timestamp'] or 'no time'}."
    ]


def _instant(us: int | None) -> str | None:
    return None if us is None else format_instant(us)
