"""The paths from inputs through steps to outputs, and how far each output looks back and ahead along them.

:mod:`pipelines.plan.extent` has the extents of single constructs, and the proof that they add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from pipelines.core.model import AnyOf, Count, Grid, Job, Session, Sliding, Snapshot, Window
from pipelines.core.steps import (
    Analysed,
    InputRows,
    Joined,
    Output,
    ReferenceRows,
    Rows,
    Step,
    StepRows,
    Steps,
    Windowed,
    children_of,
)
from pipelines.core.time import UNIT_US, format_duration
from pipelines.plan.extent import Extent, extent_of, greatest, join_extent, look_back


@dataclass(frozen=True, slots=True)
class Place:
    """A step or an output on a path, with those of its constructs that look back or ahead, in the order of the path."""

    name: str
    constructs: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} ({', '.join(self.constructs)})" if self.constructs else self.name


@dataclass(frozen=True, slots=True)
class Path:
    """A way from an input or a reference, ``source``, to an output; ``extent`` is the sum over its constructs."""

    source: str
    places: tuple[Place, ...] = ()
    extent: Extent = field(default_factory=Extent)

    def into(self, name: str) -> Path:
        """The path into the step or the output of that name."""
        return replace(self, places=(*self.places, Place(name)))

    def through(self, construct: str, extent: Extent) -> Path:
        """The path through a construct of the place that it has come to."""
        if extent == Extent():
            return self
        *before, last = self.places
        place = Place(last.name, (*last.constructs, construct))
        return Path(self.source, (*before, place), self.extent.then(extent))

    def __str__(self) -> str:
        back_us, ahead_us = self.extent.back_us, self.extent.ahead_us
        back = "any time" if back_us is None else format_duration(back_us)
        *steps, output = map(str, self.places)
        places = " -> ".join([self.source, *steps, f"output {output}"])
        return f"{places}: {back} back, {format_duration(ahead_us)} ahead"

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "source": self.source,
            "steps": [{"name": place.name, "constructs": list(place.constructs)} for place in self.places],
            "back_us": self.extent.back_us,
            "ahead_us": self.extent.ahead_us,
        }


@dataclass(frozen=True, slots=True)
class _Farthest:
    """Of the paths from one source, the one that looks back farthest, and the one that looks ahead farthest."""

    back: Path
    ahead: Path

    @property
    def extent(self) -> Extent:
        return Extent(self.back.extent.back_us, self.ahead.extent.ahead_us)

    def or_beyond(self, other: _Farthest) -> _Farthest:
        back = max(self.back, other.back, key=lambda path: _farness(path.extent))
        return _Farthest(back, max(self.ahead, other.ahead, key=lambda path: _farness(path.extent)[::-1]))

    def into(self, name: str) -> _Farthest:
        return _Farthest(self.back.into(name), self.ahead.into(name))

    def through(self, construct: str, extent: Extent) -> _Farthest:
        return _Farthest(self.back.through(construct, extent), self.ahead.through(construct, extent))


def paths(job: Job) -> tuple[Path, ...]:
    """For each input and reference that outputs read, the path that sets how far back it is read, then the one that
    sets how far ahead, where it is another one. Empty for profiles whose read ranges have other rules."""
    if job.profile != "stream_analytics":
        return ()
    found = []
    for one in _farthest(job).values():
        found.append(one.back)
        if one.ahead.extent.ahead_us > one.back.extent.ahead_us:
            found.append(one.ahead)
    return tuple(found)


def extents(job: Job) -> dict[str, Extent]:
    """What an output of ``job`` depends on, by input and reference; those that no output reads are left out."""
    return {name: one.extent for name, one in _farthest(job).items()}


def output_extents(job: Job, name: str) -> dict[str, Extent]:
    """What the output of that name depends on, by input and reference."""
    if job.steps is None:
        return extents(job)
    return {name: one.extent for name, one in _reads(job.steps.output(name), job.steps, {}).items()}


def job_extent(job: Job) -> Extent:
    """The greatest reach of ``job`` over all its inputs."""
    names = {part.name for part in job.inputs}
    found = [extent for name, extent in extents(job).items() if name in names]
    return Extent(
        greatest([one.back_us for one in found]) if found else 0, max((one.ahead_us for one in found), default=0)
    )


def _farness(extent: Extent) -> tuple[float, float]:
    return float("inf") if extent.back_us is None else extent.back_us, extent.ahead_us


def _farthest(job: Job) -> dict[str, _Farthest]:
    """The farthest paths from each input and reference to an output."""
    if job.steps is not None:
        known: dict[str, dict[str, _Farthest]] = {}
        return _farthest_of(_reads(one, job.steps, known) for one in job.steps.outputs)
    query, found = job.window_query, {}
    for name in query.inputs:
        path = Path(name).into("windows")
        if (join := query.join) is not None:
            spans = (UNIT_US[join.unit], join.from_units, join.to_units)
            path = path.through(_join_text(join.kind, *spans), join_extent(*spans, is_left=join.kind == "left"))
        path = path.through(_window_text(query.window), Extent(look_back(query.window)))
        found[name] = _Farthest(path, path)
    return found


def _reads(place: Step | Output, steps: Steps, known: dict[str, dict[str, _Farthest]]) -> dict[str, _Farthest]:
    """The farthest paths from each input and reference into ``place``; ``known`` are steps seen already."""

    def found(rows: Rows) -> dict[str, _Farthest]:
        match rows:
            case InputRows(name) | ReferenceRows(name):
                path = Path(name).into(place.name)
                return {name: _Farthest(path, path)}
            case StepRows(name):
                if name not in known:
                    step = next(one for one in steps.steps if one.name == name)
                    known[name] = _reads(step, steps, known)
                return {source: one.into(place.name) for source, one in known[name].items()}
            case _:
                below = _farthest_of(map(found, children_of(rows)))
                text, extent = _text(rows), extent_of(rows)
                return {source: one.through(text, extent) for source, one in below.items()}

    return found(place.rows)


def _farthest_of(parts: Iterable[Mapping[str, _Farthest]]) -> dict[str, _Farthest]:
    found: dict[str, _Farthest] = {}
    for part in parts:
        for name, one in part.items():
            found[name] = found[name].or_beyond(one) if name in found else one
    return found


def _text(rows: Rows) -> str:
    """What a construct that looks back or ahead is, in a few words."""
    match rows:
        case Windowed(window=window):
            return _window_text(window)
        case Analysed(functions=functions):
            farthest = max(functions, key=lambda one: one.within_us)
            name = farthest.function if farthest.aggregate is None else farthest.aggregate.function
            return f"{name} {format_duration(farthest.within_us)}"
        case Joined(unit_us=unit_us, from_units=from_units, to_units=to_units, kind=kind):
            return _join_text(kind, unit_us, from_units, to_units)
        case _:
            return ""


def _window_text(window: Window) -> str:
    match window:
        case Grid(size_us=size_us, hop_us=hop_us):
            return f"{'tumbling' if size_us == hop_us else 'hopping'} {format_duration(size_us)}"
        case Sliding(size_us=size_us):
            return f"sliding {format_duration(size_us)}"
        case Session(timeout_us=timeout_us, max_duration_us=longest_us):
            longest = "" if longest_us is None else f" of at most {format_duration(longest_us)}"
            return f"session {format_duration(timeout_us)}{longest}"
        case AnyOf(members=members):
            return " or ".join(_window_text(member) for _, member in members)
        case Snapshot():
            return "snapshot"
        case Count(n=n):
            return f"count {n}"


def _join_text(kind: str, unit_us: int, from_units: int, to_units: int) -> str:
    return f"{kind} join over {from_units} to {to_units} boundaries of {format_duration(unit_us)}"
