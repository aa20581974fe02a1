"""The story of one event: its arrival, each test with its numbers, its verdict, and the windows it counts in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.core.model import Arrival, Decision, Job, OutputRange
from pipelines.core.time import format_duration, format_instant
from pipelines.explain.recomputation import Recomputation, RecomputedRange, windows_after
from pipelines.explain.story import (
    Story,
    live_sentence,
    shown_decision,
    shown_instant,
    shown_payload,
    shown_row,
    window_description,
)
from pipelines.explain.tests import reasons
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.paths import output_extents
from pipelines.recompute.naming import event_id
from pipelines.recompute.windows import RecomputedWindow


def why_event(job: Job, event: str, lakehouse: str | Path | Lakehouse) -> Story:
    """Why the event ``INPUT/PARTITION/SEQUENCE`` has its verdict and counts where it counts.

    Reads the arrivals that make its verdict and its windows exact, and no more. Raises :class:`UsageError` if there is
    no such event.
    """
    recomputation = Recomputation(job, Lakehouse.at(lakehouse))
    one = recomputation.arrival(event)
    recomputed, decision, windows = _recomputed(recomputation, one)
    why = reasons(job, one, decision, recomputed.arrivals, recomputed.decision_of)
    shown, live_sentences = _windows(recomputation, windows)
    live, verdict_sentences = _live_verdict(recomputation, one, decision)
    sentences = [
        _arrived(one, decision),
        *([] if why.tests and "early" in decision.reasons else [why.watermark_sentence]),
        *(test.sentence for test in why.tests),
        _verdict(decision),
        *_counts(job, decision, windows),
        *live_sentences,
        *verdict_sentences,
    ]
    data: dict[str, object] = {
        "job": job.name,
        "event": {
            "id": event_id(one),
            "arrival_time": format_instant(one.arrival_time_us),
            "event_time": shown_instant(decision.event_time_us),
            "payload": shown_payload(job.input(one.input), one.payload),
        },
        "watermark": {
            "value": shown_instant(decision.watermark_us),
            "set_by": None if why.set_by is None else event_id(why.set_by),
            "says": why.watermark_sentence,
        },
        "tests": [test.as_dict() for test in why.tests],
        **shown_decision(decision),
        "windows": shown,
        "live": live,
    }
    return Story(data, tuple(sentences), tuple(recomputation.notes))


def _recomputed(
    recomputation: Recomputation, one: Arrival
) -> tuple[RecomputedRange, Decision, Sequence[RecomputedWindow]]:
    """The range that decides the event, its decision, and the windows that it counts in."""
    recomputed = recomputation.around(OutputRange(one.arrival_time_us, one.arrival_time_us + 1))
    decision = recomputed.decision_of(one)
    assert decision is not None, "the event's own arrival is in the range that decides it"
    if decision.system_timestamp_us is None or recomputation.job.steps is not None:
        return recomputed, decision, []
    return recomputed, decision, recomputation.around(windows_after(recomputation.job, decision)).with_member(one)


def _arrived(one: Arrival, decision: Decision) -> str:
    arrival = format_instant(one.arrival_time_us)
    if decision.event_time_us is None:
        return f"{event_id(one)} arrived at {arrival}; its event time cannot be read."
    apart_us = one.arrival_time_us - decision.event_time_us
    how = "at that very instant" if not apart_us else f"{format_duration(abs(apart_us))} earlier"
    if apart_us < 0:
        how = f"{format_duration(-apart_us)} after its arrival"
    return f"{event_id(one)} arrived at {arrival}; it happened at {format_instant(decision.event_time_us)}, {how}."


def _verdict(decision: Decision) -> str:
    why = f" ({', '.join(decision.reasons)})" if decision.reasons else ""
    if decision.system_timestamp_us is None:
        return f"Verdict: {decision.verdict}{why}; it counts nowhere."
    return f"Verdict: {decision.verdict}{why}; it counts at {format_instant(decision.system_timestamp_us)}."


def _counts(job: Job, decision: Decision, windows: Sequence[RecomputedWindow]) -> list[str]:
    if decision.system_timestamp_us is None:
        return []
    if job.steps is not None:
        return [*_reached_outputs(job, decision)]
    if not windows:
        removed = f", for 'where' ({job.window_query.where}) removes it or its" if job.window_query.where else ": its"
        if job.end_of_log == "hold":
            removed = f": its windows are still open at the end of the log, or {removed.lstrip(',: ')}"
        return [f"It counts in no window{removed} time falls in none."]
    return [
        f"It counts in {window_description(job, window.row)}, one of {len(window.members)} event(s) there."
        for window in windows
    ]


def _reached_outputs(job: Job, decision: Decision) -> Iterator[str]:
    """Which rows of each output may depend on the event."""
    time_us = decision.system_timestamp_us
    assert time_us is not None, "the event counts"
    for one in output_tables(job):
        extent = output_extents(job, one.output).get(decision.input)
        if extent is None:
            yield f"Output {one.output} does not read {decision.input}."
            continue
        first = format_instant(time_us - extent.ahead_us)
        last = "the end" if extent.back_us is None else format_instant(time_us + extent.back_us)
        yield f"Rows of {one.table} from {first} to {last} may depend on it."


def _windows(
    recomputation: Recomputation, windows: Sequence[RecomputedWindow]
) -> tuple[list[dict[str, object]], list[str]]:
    """The windows with what the live run wrote for them."""
    shown, sentences = [], []
    for window in windows:
        data: dict[str, object] = {**shown_row(window.row), "events": len(window.members)}
        live = recomputation.live_windows(window.row)
        if live is not None:
            data["stream"] = [shown_row(row) for row in live]
            sentences.append(live_sentence(recomputation.job, window.row, live))
        shown.append(data)
    return shown, sentences


def _live_verdict(recomputation: Recomputation, one: Arrival, decision: Decision) -> tuple[object, list[str]]:
    known, row = recomputation.live_verdict(one)
    if not known:
        return None, []
    if row is None:
        if recomputation.job.keep_verdicts != "exceptions":
            return {"verdict": None}, ["The live run kept no verdict on it: it never came there."]
        if decision.verdict == "accepted":
            return {"verdict": None}, []
        return {"verdict": None}, ["The live run kept no verdict on it: there it simply counted, or never came."]
    if row["verdict"] == decision.verdict and row["system_timestamp"] == shown_instant(decision.system_timestamp_us):
        return row, ["The live run's verdict is the same."]
    return row, [
        f"The live run's verdict is {row['verdict']}; there it counts at {row['system_timestamp'] or 'no time'}."
    ]
