"""The story of one window: the events that made its number, and those that only the policy kept out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.expressions import plain_column, read
from pipelines.core.model import AnyOf, Arrival, Fate, Grid, Input, Job, OutputRange, Sliding, output_name
from pipelines.core.time import DAY, format_instant
from pipelines.explain.event import fate_as_dict, live_sentence
from pipelines.explain.recomputation import RecomputedRange, Scene, matches, shown_row
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain
from pipelines.recompute.naming import event_id, key_names
from pipelines.recompute.windows import Made
from pipelines.reference.events import place_of

_LISTED = 10
_FAR = 200
"""Events with a time in the window that arrived far from it: so many are looked at."""


@dataclass(frozen=True)
class WindowStory:
    """Everything that is to be said about the windows that end at one instant and have given keys."""

    data: Mapping[str, object]
    sentences: tuple[str, ...]
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {**self.data, "story": list(self.sentences), "notes": list(self.notes)}


@dataclass(frozen=True)
class Told:
    """One event and what became of it, beside a window."""

    one: Arrival
    fate: Fate

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        event_us = self.fate.event_time_us
        return {
            "id": event_id(self.one),
            "arrival_time": format_instant(self.one.arrival_time_us),
            "event_time": None if event_us is None else format_instant(event_us),
            **fate_as_dict(self.fate),
        }

    @property
    def says(self) -> str:
        """One line."""
        at = "no readable time" if self.fate.event_time_us is None else format_instant(self.fate.event_time_us)
        why = f" ({', '.join(self.fate.reasons)})" if self.fate.reasons else ""
        counts_us = self.fate.system_timestamp_us
        where = "" if counts_us is None else f", counts at {format_instant(counts_us)}"
        arrived = format_instant(self.one.arrival_time_us)
        return f"{event_id(self.one)}: happened {at}, arrived {arrived}: {self.fate.verdict}{why}{where}"


def why_window(job: Job, end_us: int, keys: Mapping[str, str], lakehouse: str | Path | Lakehouse) -> WindowStory:
    """Why the windows that end at ``end_us`` with these ``keys`` (columns of the result, as text) hold their values.

    Raises :class:`UsageError` if a key is none of the job's.
    """
    recomputation = Scene(job, Lakehouse.at(lakehouse))
    _check_keys(job, keys)
    recomputed = recomputation.around(OutputRange(end_us, end_us + 1))
    found = [made for made in recomputed.windows if _has_keys(made.row, keys)]
    rows = recomputation.replayed_windows(end_us) or []
    sentences: list[str] = []
    windows = []
    for made in found:
        data, said = _window(recomputation, recomputed, made)
        windows.append(data)
        sentences += said
    if not found:
        spans = _spans(job, end_us)
        outside, said = _kept_out(recomputation, recomputed, spans, keys, set())
        sentences.append(f"No event counts in a window that ends at {format_instant(end_us)}{_keys_words(keys)}.")
        sentences += said
        windows_without = [one.as_dict() for one in outside]
    else:
        windows_without = []
    data = {
        "job": job.name,
        "window_end": format_instant(end_us),
        "keys": dict(keys),
        "windows": windows,
        **({"kept_out": windows_without} if not found else {}),
        "replay": [shown_row(row) for row in rows if _has_keys(row, keys)],
    }
    return WindowStory(data, tuple(sentences), tuple(recomputation.notes))


def _window(recomputation: Scene, recomputed: RecomputedRange, made: Made) -> tuple[dict[str, object], list[str]]:
    job, row = recomputation.job, made.row
    span = (_us(row["window_start"]), _us(row["window_end"]))
    members = [_told(recomputed, recomputed.arrivals[place]) for place in made.members]
    inside = {event_id(told.one) for told in members}
    moved_in = [told for told in members if not _holds(job, span, told.fate.event_time_us)]
    keys = {name: _text(row[name]) for name in key_names(job)[3:]}
    kept_out, kept_out_said = _kept_out(recomputation, recomputed, [span], keys, inside)
    names = [one.name for one in job.query.aggregates]
    values = ", ".join(f"{name} {shown_row(row)[name]}" for name in names)
    begin, end = format_instant(span[0]), format_instant(span[1])
    sentences = [f"The window from {begin} to {end}{_keys_words(keys)} has {values}, from {len(members)} event(s):"]
    sentences += _list(members)
    if moved_in:
        sentences.append(f"{len(moved_in)} of them happened at another time and were moved in by the policy.")
    sentences += kept_out_said
    data: dict[str, object] = {
        **shown_row(row),
        "events": [told.as_dict() for told in members],
        "moved_in": [event_id(told.one) for told in moved_in],
        "kept_out": [told.as_dict() for told in kept_out],
    }
    live = recomputation.live_windows(span[1])
    if live is not None:
        mine = [one for one in live if matches(one, row, key_names(job))]
        data["stream"] = [shown_row(one) for one in mine]
        sentences.append(live_sentence(job, row, mine, [name for name in names if mine and name in mine[0]]))
    causes = [one for one in recomputation.reconciled(span[1]) or [] if matches(one, row, key_names(job))]
    if causes:
        data["reconciliation"] = {name: plain(causes[0][name]) for name in ("status", "cause", "evidence")}
        sentences.append(f"The last reconciliation calls it {causes[0]['status']}, cause {causes[0]['cause']}.")
    return data, sentences


def _kept_out(
    recomputation: Scene,
    recomputed: RecomputedRange,
    spans: Sequence[tuple[int, int]],
    keys: Mapping[str, str],
    inside: set[str],
) -> tuple[list[Told], list[str]]:
    """Events whose time lies in the window and whose keys are its, and which do not count there."""
    found: dict[str, Told] = {}
    for told in _near_and_far(recomputation, recomputed, spans):
        name = event_id(told.one)
        held = any(_holds(recomputation.job, span, told.fate.event_time_us) for span in spans)
        if held and name not in inside and name not in found and _of_group(recomputation, told.one, keys):
            found[name] = told
    kept_out = sorted(found.values(), key=lambda told: place_of(told.one))
    if not kept_out:
        return [], []
    head = f"{len(kept_out)} event(s) happened in it, and do not count there by the policy (or by 'where'):"
    if not recomputation.job.query.where:
        head = f"{len(kept_out)} event(s) happened in it, and do not count there by the policy:"
    return kept_out, [head, *_list(kept_out)]


def _near_and_far(recomputation: Scene, recomputed: RecomputedRange, spans: Sequence[tuple[int, int]]) -> list[Told]:
    """Events of the stretch, and those of the same event time that arrived at any other time, with their fates."""
    told = [_told(recomputed, one) for one in recomputed.arrivals if one.punctuation_us is None]
    known = {event_id(one.one) for one in told}
    for part in _sources(recomputation.job):
        for span in spans:
            far = recomputation.by_event_time(part, *span)
            if far is None:
                recomputation.notes.append(
                    f"the event time of {part.name} is an expression: events that arrived far from the window are not"
                    " looked for"
                )
                continue
            others = [one for one in far if event_id(one) not in known]
            if len(others) > _FAR:
                recomputation.notes.append(
                    f"{len(others)} events of that time arrived far from it; {_FAR} are looked at"
                )
            told += _far(recomputation, others[:_FAR])
            known |= {event_id(one) for one in others}
    return told


def _far(recomputation: Scene, others: Sequence[Arrival]) -> list[Told]:
    """Their fates, stretch by stretch."""
    told: list[Told] = []
    rest = sorted(others, key=place_of)
    while rest:
        first_us = rest[0].arrival_time_us
        together = [one for one in rest if one.arrival_time_us < first_us + DAY // 24]
        recomputed = recomputation.around(OutputRange(first_us, together[-1].arrival_time_us + 1))
        told += [_told(recomputed, one) for one in together]
        rest = rest[len(together) :]
    return told


def _told(recomputed: RecomputedRange, one: Arrival) -> Told:
    fate = recomputed.fate_of(one)
    assert fate is not None, event_id(one)
    return Told(one, fate)


def _sources(job: Job) -> list[Input]:
    join = job.query.join
    names = [join.left, join.right] if join is not None else list(job.query.sources)
    return [job.input(name) for name in names]


def _holds(job: Job, span: tuple[int, int], time_us: int | None) -> bool:
    """Does an event of that time belong to the window, left to itself?"""
    if time_us is None:
        return False
    if job.profile != "stream_analytics":
        return span[0] <= time_us < span[1]
    return span[0] < time_us <= span[1] or span[0] == span[1] == time_us


def _spans(job: Job, end_us: int) -> list[tuple[int, int]]:
    """The windows that end there by their shape alone, where the shape says it."""
    window = job.query.window
    members = [member for _, member in window.members] if isinstance(window, AnyOf) else [window]
    return [(end_us - one.size_us, end_us) for one in members if isinstance(one, (Grid, Sliding))]


def _of_group(recomputation: Scene, one: Arrival, keys: Mapping[str, str]) -> bool:
    """Has the event the window's keys, as far as its own columns say?"""
    part = recomputation.job.input(one.input)
    for column in recomputation.job.query.group_by:
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
    known = [*key_names(job)[2:]]
    for name in keys:
        if name not in known:
            raise UsageError(f"'{name}' is no key of job {job.name}; {did_you_mean(name, known)}", key="--key")


def _has_keys(row: Mapping[str, object], keys: Mapping[str, str]) -> bool:
    return all(_text(row.get(name)) == text for name, text in keys.items())


def _text(value: object) -> str:
    """A key as ``--key`` takes it."""
    shown = plain(value)
    if shown is None:
        return "null"
    return str(shown).lower() if isinstance(shown, bool) else str(shown)


def _keys_words(keys: Mapping[str, str]) -> str:
    return f" of {', '.join(f'{name} {value}' for name, value in keys.items())}" if keys else ""


def _list(told: Sequence[Told]) -> list[str]:
    lines = [f"  {one.says}" for one in told[:_LISTED]]
    return lines if len(told) <= _LISTED else [*lines, f"  and {len(told) - _LISTED} more"]


def _us(value: object) -> int:
    assert isinstance(value, int)
    return value
