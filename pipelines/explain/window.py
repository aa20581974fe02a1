"""The story of one window: the events that made its number, and those that only the policy kept out of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, product
from pathlib import Path

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.expressions import plain_column, read
from pipelines.core.model import (
    Arrival,
    Decision,
    Grid,
    Job,
    OutputRange,
    Session,
    Sliding,
    Snapshot,
    Window,
    output_name,
)
from pipelines.core.time import HOUR, format_instant
from pipelines.explain.recomputation import Recomputation, RecomputedRange
from pipelines.explain.story import Story, live_sentence, shown_decision, shown_instant, shown_row
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain
from pipelines.recompute.naming import event_id, key_names
from pipelines.recompute.windows import RecomputedWindow, Values, instant_in
from pipelines.reference.events import place_of

_LISTED = 10
_FAR = 200
"""Events with a time in the window that arrived far from it: so many are looked at."""

Span = tuple[int, int]
"""Start and end of a window."""


@dataclass(frozen=True)
class EventDecision:
    """One event of the log and what became of it."""

    one: Arrival
    decision: Decision

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "id": event_id(self.one),
            "arrival_time": format_instant(self.one.arrival_time_us),
            "event_time": shown_instant(self.decision.event_time_us),
            **shown_decision(self.decision),
        }

    @property
    def sentence(self) -> str:
        """One line."""
        at = shown_instant(self.decision.event_time_us) or "no readable time"
        why = f" ({', '.join(self.decision.reasons)})" if self.decision.reasons else ""
        counts_us = self.decision.system_timestamp_us
        where = "" if counts_us is None else f", counts at {format_instant(counts_us)}"
        arrived = format_instant(self.one.arrival_time_us)
        return f"{event_id(self.one)}: happened {at}, arrived {arrived}: {self.decision.verdict}{why}{where}"


def why_window(job: Job, end_us: int, keys: Mapping[str, str], lakehouse: str | Path | Lakehouse) -> Story:
    """Why the windows that end at ``end_us`` with these ``keys`` (columns of the result, as text) have their values.

    Raises :class:`UsageError` if a key is none of the job's.
    """
    recomputation = Recomputation(job, Lakehouse.at(lakehouse))
    _check_keys(job, keys)
    recomputed = recomputation.around(OutputRange(end_us, end_us + 1))
    rows = recomputation.replayed_windows(end_us)
    data: dict[str, object] = {"job": job.name, "window_end": format_instant(end_us), "keys": dict(keys)}
    sentences: list[str] = []
    windows = []
    for window in recomputed.windows:
        if _has_keys(window.row, keys):
            shown, found = _window(recomputation, recomputed, window)
            windows.append(shown)
            sentences += found
    data["windows"] = windows
    if not windows:
        kept_out = _kept_out(recomputation, recomputed, _spans(job, end_us), keys, ())
        data["kept_out"] = [event.as_dict() for event in kept_out]
        sentences.append(f"No event counts in a window that ends at {format_instant(end_us)}{_of_keys(keys)}.")
        sentences += _kept_out_sentences(job, kept_out)
    data["replay"] = [shown_row(row) for row in rows if _has_keys(row, keys)]
    return Story(data, tuple(sentences), tuple(recomputation.notes))


def _window(
    recomputation: Recomputation, recomputed: RecomputedRange, window: RecomputedWindow
) -> tuple[dict[str, object], list[str]]:
    job, row = recomputation.job, window.row
    shape = next(one for window_id, one in job.window_query.windows if window_id == row["window_id"])
    bounds = instant_in(row, "window_start"), window.end_us
    span = _instants(job, shape, *bounds)
    members = [_with_decision(recomputed, one) for one in window.members]
    moved_in = [event for event in members if not _happened(event, span)]
    keys = {name: _text(row[name]) for name in key_names(job)[3:]}
    kept_out = _kept_out(recomputation, recomputed, [span], keys, {event_id(event.one) for event in members})
    values = ", ".join(f"{one.name} {shown_row(row)[one.name]}" for one in job.window_query.aggregates)
    begin, end = map(format_instant, bounds)
    sentences = [f"The window from {begin} to {end}{_of_keys(keys)} has {values}, from {len(members)} event(s):"]
    sentences += _list(members)
    if moved_in:
        sentences.append(f"{len(moved_in)} of them happened at another time and were moved in by the policy.")
    sentences += _kept_out_sentences(job, kept_out)
    data: dict[str, object] = {
        **shown_row(row),
        "events": [event.as_dict() for event in members],
        "moved_in": [event_id(event.one) for event in moved_in],
        "kept_out": [event.as_dict() for event in kept_out],
    }
    live = recomputation.live_windows(row)
    if live is not None:
        data["stream"] = [shown_row(one) for one in live]
        sentences.append(live_sentence(job, row, live))
    for found in recomputation.reconciled(row)[:1]:
        data["reconciliation"] = {name: plain(found[name]) for name in ("status", "cause", "evidence")}
        sentences.append(f"The last reconciliation calls it {found['status']}, cause {found['cause']}.")
    return data, sentences


def _kept_out(
    recomputation: Recomputation,
    recomputed: RecomputedRange,
    spans: Sequence[Span],
    keys: Mapping[str, str],
    members: Collection[str],
) -> list[EventDecision]:
    """Events of the window's time and keys that do not count there."""
    job = recomputation.job
    near = (
        EventDecision(one, decision)
        for one in recomputed.arrivals
        if (decision := recomputed.decision_of(one)) is not None
    )
    found = {
        event_id(event.one): event
        for event in chain(near, _far(recomputation, recomputed, spans))
        if any(_happened(event, span) for span in spans)
        and event_id(event.one) not in members
        and _of_group(job, event.one, keys)
    }
    return sorted(found.values(), key=lambda event: place_of(event.one))


def _far(recomputation: Recomputation, recomputed: RecomputedRange, spans: Sequence[Span]) -> Iterator[EventDecision]:
    """Events with a time in the windows that did not arrive in the range; those of one hour are recomputed together."""
    for part, span in product(map(recomputation.job.input, recomputation.job.window_query.inputs), spans):
        same_time = recomputation.by_event_time(part, *span)
        if same_time is None:
            recomputation.note(
                f"the event time of {part.name} is an expression: events that arrived far from the window are not"
                " looked for"
            )
            continue
        far = [one for one in same_time if recomputed.decision_of(one) is None]
        if len(far) > _FAR:
            recomputation.note(f"{len(far)} events of that time arrived far from it; {_FAR} are looked at")
        for _, hour in groupby(far[:_FAR], key=lambda one: one.arrival_time_us // HOUR):
            together = list(hour)
            output = OutputRange(together[0].arrival_time_us, together[-1].arrival_time_us + 1)
            recomputed_hour = recomputation.around(output)
            yield from (_with_decision(recomputed_hour, one) for one in together)


def _with_decision(recomputed: RecomputedRange, one: Arrival) -> EventDecision:
    decision = recomputed.decision_of(one)
    assert decision is not None, event_id(one)
    return EventDecision(one, decision)


def _happened(event: EventDecision, span: Span) -> bool:
    """Whether the event's own time is one of these instants, both ends included."""
    time_us = event.decision.event_time_us
    return time_us is not None and span[0] <= time_us <= span[1]


def _instants(job: Job, window: Window, start_us: int, end_us: int) -> Span:
    """The first and the last instant of a window of ``job`` from ``start_us`` to ``end_us``."""
    if job.profile != "stream_analytics":
        return start_us, end_us - 1
    # these start with their first event, all others after their start
    starts_with_event = isinstance(window, Session | Snapshot)
    return start_us if starts_with_event else start_us + 1, end_us


def _spans(job: Job, end_us: int) -> list[Span]:
    """The instants of the windows that end there, where the query's window alone gives their starts."""
    windows = [one for _, one in job.window_query.windows if isinstance(one, (Grid, Sliding))]
    return [_instants(job, one, end_us - one.size_us, end_us) for one in windows]


def _of_group(job: Job, one: Arrival, keys: Mapping[str, str]) -> bool:
    """Has the event the window's keys, as far as its own columns say?"""
    part = job.input(one.input)
    for column in job.window_query.group_by:
        name = output_name(column)
        owner, dot, rest = column.partition(".")
        if name not in keys or (dot and owner != one.input):
            continue
        own = rest if dot else column
        if plain_column(own, part.columns) is None:
            continue
        value = read(part.columns, [one.payload], [own], None)[0][own]
        if _text(value) != keys[name]:
            return False
    return True


def _check_keys(job: Job, keys: Mapping[str, str]) -> None:
    known = key_names(job)[2:]
    for name in keys:
        if name not in known:
            raise UsageError(f"'{name}' is no key of job {job.name}; {did_you_mean(name, known)}", key="--key")


def _has_keys(row: Values, keys: Mapping[str, str]) -> bool:
    return all(_text(row.get(name)) == text for name, text in keys.items())


def _text(value: object) -> str:
    """A key as ``--key`` takes it."""
    shown = plain(value)
    if shown is None:
        return "null"
    return str(shown).lower() if isinstance(shown, bool) else str(shown)


def _of_keys(keys: Mapping[str, str]) -> str:
    return f" of {', '.join(f'{name} {value}' for name, value in keys.items())}" if keys else ""


def _kept_out_sentences(job: Job, kept_out: Sequence[EventDecision]) -> list[str]:
    if not kept_out:
        return []
    by = "by the policy (or by 'where')" if job.window_query.where else "by the policy"
    return [f"{len(kept_out)} event(s) happened in it, and do not count there {by}:", *_list(kept_out)]


def _list(events: Sequence[EventDecision]) -> list[str]:
    lines = [f"  {event.sentence}" for event in events[:_LISTED]]
    return lines if len(events) <= _LISTED else [*lines, f"  and {len(events) - _LISTED} more"]
