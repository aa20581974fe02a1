"""Sentences that the profiles share: about windows, and about what no product defines."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.core import model
from pipelines.core.steps import Windowed
from pipelines.core.time import DAY, format_duration, format_instant
from pipelines.job.limits import job_windows

POSITIONAL = frozenset({"first", "last", "collect"})
"""Aggregates whose result depends on the order of rows with equal times."""


def window_words(window: model.Window, profile: model.Profile) -> list[str]:
    """One sentence a window; a window with an id says it first."""
    if isinstance(window, model.AnyOf):
        return [f"{label} is: {_simple_words(member, profile)}" for label, member in window.members]
    return [_simple_words(window, profile)]


def _simple_words(window: model.SimpleWindow, profile: model.Profile) -> str:
    match window:
        case model.Grid():
            return _grid_words(window, profile)
        case model.Sliding(size_us=size_us):
            return (
                f"Windows: sliding, {format_duration(size_us)}, (start, end], one row at each end at which the content"
                " changes, as an event enters and as one has left."
            )
        case model.Session(timeout_us=timeout_us, max_duration_us=None):
            gap = format_duration(timeout_us)
            return (
                f"Windows: sessions of documents less than {gap} apart,{_chain(window)} from the first document's time"
                f" to {gap} after the last."
            )
        case model.Session(timeout_us=timeout_us, max_duration_us=int(longest_us)):
            timeout, longest = format_duration(timeout_us), format_duration(longest_us)
            return (
                f"Windows: sessions,{_chain(window)} that end {timeout} after their last event, or at the first of the"
                f" check points every {longest} from {format_instant(window.align_us)} at which they are at least"
                f" {longest} old. After such a check point the next session opens there if its first event comes at"
                f" most {timeout} after the last one, else at its first event."
            )
        case model.Snapshot():
            if profile == "stream_analytics":
                return "Windows: snapshots, one for each system timestamp."
            return "Windows: snapshots, one between each two neighbouring starts and ends of lifetimes in a group."
        case model.Count(n=n):
            return f"Windows: from each start time to the {n}th distinct one (its own included) plus 1us, per group."
    raise AssertionError(window)


def _grid_words(window: model.Grid, profile: model.Profile) -> str:
    size, hop = format_duration(window.size_us), format_duration(window.hop_us)
    kind = f"tumbling, {size}" if window.size_us == window.hop_us else f"hopping, {size} every {hop}"
    bounds, on_grid = ("(start, end]", "ends") if profile == "stream_analytics" else ("[start, end)", "starts")
    origin = format_instant(window.align_us)
    if window.offset_us:
        sign = "-" if window.offset_us < 0 else "+"
        origin = f"{origin} {sign} {format_duration(abs(window.offset_us))}"
    return f"Windows: {kind}, {bounds}, with {on_grid} at {origin} and every {hop} from there."


def _chain(window: model.Session) -> str:
    return f" one chain for each ({', '.join(window.partition_by)})," if window.partition_by else " one chain for all,"


def origin_ambiguities(job: model.Job, undocumented: str) -> list[str]:
    """The grids whose place depends on an origin that ``undocumented`` says no page names."""
    found = []
    for _, window in job_windows(job):
        if not isinstance(window, model.Grid | model.Session):
            continue
        step_us = window.hop_us if isinstance(window, model.Grid) else window.max_duration_us
        if step_us is not None and DAY % step_us:
            found.append(
                f"The origin of a grid of {format_duration(step_us)}, which does not divide a day, {undocumented}."
                f" Tailrace counts from {format_instant(window.align_us)}; align_to changes it."
            )
    return list(dict.fromkeys(found))


def tie_ambiguities(job: model.Job) -> list[str]:
    """The order among rows of equal time, where an aggregate shows it."""
    if not any(aggregate.function in POSITIONAL for aggregate in _aggregates(job)):
        return []
    return [
        "The order among events of equal time is not defined, and first, last and collect show it."
        " Tailrace takes arrival order: arrival time, input partition, sequence."
    ]


def _aggregates(job: model.Job) -> Iterator[model.Aggregate]:
    if job.steps is None:
        yield from job.window_query.aggregates
        return
    for _, rows in job.steps.relations():
        if isinstance(rows, Windowed):
            yield from rows.aggregates
