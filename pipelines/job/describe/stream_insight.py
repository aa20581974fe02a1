"""StreamInsight in plain sentences: how time advances, the policy, and what its documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.time import format_duration
from pipelines.job.describe.shared import origin_ambiguities, tie_ambiguities
from pipelines.job.limits import job_windows

CLOSED = "at or before the last CTI"


def advances(ordering: model.StreamInsightOrdering) -> bool:
    """Does anything but punctuations in the log advance the input's time?"""
    return (ordering.every_events, ordering.every_us, ordering.import_from) != (None, None, None)


def policy_words(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    """How the input's time advances, and what becomes of an item before the current time."""
    return [
        f"{_shape_words(source)}; the whole input is one timeline, in arrival order.",
        *_advance_words(ordering),
        "time never goes back: a CTI at or below the current one changes nothing.",
        *_violation_words(source, ordering),
    ]


def _shape_words(source: model.Input) -> str:
    start = source.timestamp_by or "the arrival time"
    match source.shape:
        case "point":
            return f"points: start time is {start}, and each lasts 1us"
        case "interval":
            return f"intervals: from {start} to {source.end_by}, the end outside"
    match_on = f"({', '.join(source.match_on)})" if source.match_on else "all other columns"
    return (
        f"edges: {source.edge_by} says start or end; an end edge ends at {source.end_by} the start edge of equal"
        f" {start} and {match_on}"
    )


def _advance_words(ordering: model.StreamInsightOrdering) -> list[str]:
    words = []
    if ordering.delay_us < 0:
        stamp = f"the last start plus {format_duration(-ordering.delay_us)}"
    else:
        stamp = f"the last start minus {format_duration(ordering.delay_us)}"
    if ordering.every_events is not None:
        words.append(f"time advances after every {ordering.every_events} event(s), to {stamp}; end edges do not count.")
    if ordering.every_us is not None:
        every = format_duration(ordering.every_us)
        words.append(f"time advances when start times have moved by {every}, to {stamp}; end edges do not count.")
    if ordering.import_from is not None:
        words.append(f"time also advances with input {ordering.import_from}.")
    words.append("punctuations in the log advance time to their own time.")
    return words


def _violation_words(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    if source.shape == "edge":
        moved = "dropped" if ordering.action == "drop" else "moved to begin there"
        return [
            f"a start edge before the current time is {moved}.",
            "an end edge that ends before the current time is dropped, and what it should have ended stays open.",
        ]
    if source.shape == "interval" and ordering.action == "adjust":
        return ["an interval that starts before the current time begins there if it ends after it; else it is dropped."]
    also = ", under adjust as under drop: it cannot reach beyond it" if ordering.action == "adjust" else ""
    return [f"an event that starts before the current time is dropped{also}."]


def ordering_ambiguities(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    """What the documents leave open about one input's advance and policy."""
    return [
        *_advance_ambiguities(source, ordering),
        *_import_ambiguities(ordering),
        *_interval_ambiguities(source, ordering),
        *_edge_ambiguities(source, ordering),
    ]


def _advance_ambiguities(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    found = []
    every = ordering.every_events
    if every is not None and (every > 1 or ordering.delay_us < -1):
        found.append(
            "Whether dropped events count towards the frequency is not settled: the reference counts events received."
            " Tailrace counts them as received, whatever becomes of them."
        )
    if every is not None and every > 1:
        found.append(
            "A CTI's time is relative to the last received event, also where that is not the newest."
            " Tailrace takes the last received one, by the letter."
        )
    if ordering.every_us is not None:
        found.append(
            "What the duration is measured from, and whether the first event triggers, is not said. Tailrace measures"
            " from the start of the event that triggered last, fires at exactly the duration, and at the first event."
        )
    if ordering.delay_us < 0:
        found.append(
            "The product's tick is 100ns, times here are whole microseconds."
            " Tailrace takes one tick, as in the delay of -1 tick, for 1us."
        )
        if ordering.action == "adjust" and source.shape != "point":
            found.append(
                "Whether a moved event's CTI follows from its old start or its new one is not said."
                " Tailrace takes the old one."
            )
    if (every is not None and every > 1) or ordering.every_us is not None:
        found.append(
            "Whether a CTI from outside (a punctuation or an import) restarts the count or the duration is not said."
            " Tailrace does not restart it."
        )
    if advances(ordering):
        found.append(
            "The engine's memory (count, duration, current time, open edges) after a restart is not described."
            " Tailrace takes the log for one run without restarts."
        )
    return found


def _import_ambiguities(ordering: model.StreamInsightOrdering) -> list[str]:
    if ordering.import_from is None:
        return []
    return [
        "Which imported CTI precedes which event is the engine's scheduling. Tailrace goes by arrival order over both"
        " inputs; at the same place the imported CTI comes first."
    ]


def _interval_ambiguities(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    if source.shape != "interval" or ordering.action != "adjust":
        return []
    return [
        "An interval that ends exactly at the current time is neither 'ends after' nor 'ends before' it."
        " Tailrace drops it: nothing of it would be left."
    ]


def _edge_ambiguities(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    if source.shape != "edge":
        return []
    found = [
        "Several open start edges alike: which one an end edge ends is not said."
        " Tailrace takes the first that arrived.",
        "An end edge at its event's own start leaves nothing. Tailrace drops both rows (cancelled).",
        "Whether an end edge is judged by its start as well is not said. Tailrace judges it by its end alone.",
    ]
    if ordering.action == "adjust":
        found.append(
            "A late end edge under Adjust: dropped by the later edition of the reference, not mentioned by the earlier."
            " Tailrace drops it."
        )
    else:
        found.append(
            "An end edge in time whose start edge was dropped is not described. Tailrace drops it (orphan_end)."
        )
    return found


def query_ambiguities(job: model.Job) -> list[str]:
    """What the documents leave open about windows and shutdown."""
    found = []
    windows = [window for _, window in job_windows(job)]
    if any(isinstance(window, model.Grid) for window in windows):
        found.append(
            "A window's result lasts as long as the window or is a point at its end, by the output policy and the"
            " product's version. Tailrace writes both ends, window_start and window_end."
        )
    if any(isinstance(window, model.Count) for window in windows):
        found.append(
            "Count windows take no built-in aggregates in the documented versions. Tailrace takes all of them."
        )
    if job.end_of_log == "hold":
        found.append(
            "A result that ends exactly at the last CTI: 'before the CTI' by one page, released by another's example."
            " Tailrace releases it."
        )
    elif any(source.shape == "edge" for source in job.inputs):
        found.append(
            "How far the windows of an event that never ends go at shutdown is not said. Tailrace stops with the window"
            " that holds the greatest end, start or CTI, and writes no row for a snapshot that never ends."
        )
    return list(dict.fromkeys([*found, *origin_ambiguities(job, "is implied, not stated"), *tie_ambiguities(job)]))
