"""The window of a job file's query: which kinds each profile has, and what a section of one means."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.core.time import ORIGIN_0001_US
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.expressions import check_column
from pipelines.job.yaml import Path as KeyPath

_WINDOW_SECTIONS: dict[str, dict[str, type[BaseModel]]] = {
    "stream_analytics": {
        "tumbling": schema.TumblingSection,
        "hopping": schema.HoppingSection,
        "sliding": schema.SlidingSection,
        "session": schema.SessionSection,
        "snapshot": schema.SnapshotSection,
    },
    "atlas": {
        "tumbling": schema.TumblingSection,
        "hopping": schema.HoppingSection,
        "session": schema.AtlasSessionSection,
    },
    "stream_insight": {
        "tumbling": schema.TumblingSection,
        "hopping": schema.HoppingSection,
        "snapshot": schema.SnapshotSection,
        "count": schema.CountSection,
    },
}


def build_window(
    say: Complaints, data: dict[str, Any], profile: str, columns: list[str], path: KeyPath
) -> model.Window:
    """The window written at ``path``: ``{kind: settings}``."""
    if len(data) != 1:
        raise say.error("needs exactly one kind of window, like {tumbling: {size: 1h}}", path)
    kind, body = next(iter(data.items()))
    known = _WINDOW_SECTIONS[profile]
    if kind == "any_of" and profile == "stream_analytics":
        return _any_of(say, body, profile, columns, (*path, kind))
    if kind not in known:
        names = [*known, "any_of"] if profile == "stream_analytics" else list(known)
        raise say.error(f"profile {profile} has no window '{kind}'; {did_you_mean(kind, names)}", (*path, kind))
    section = say.section(known[kind], body, (*path, kind))
    origin_us = 0 if profile == "atlas" else ORIGIN_0001_US
    return _simple_window(say, section, origin_us, columns, (*path, kind))


def _any_of(say: Complaints, body: Any, profile: str, columns: list[str], path: KeyPath) -> model.AnyOf:
    if not isinstance(body, dict) or not body:
        raise say.error("needs at least one named window", path)
    members: list[tuple[str, model.SimpleWindow]] = []
    for name, data in body.items():
        if not isinstance(data, dict) or "any_of" in data:
            raise say.error("must be one window, like {tumbling: {size: 1h}}, not a further any_of", (*path, name))
        if any(name.lower() == other.lower() for other, _ in members):
            raise say.error("is named twice; ids are compared without case", (*path, name))
        window = build_window(say, data, profile, columns, (*path, name))
        assert not isinstance(window, model.AnyOf)
        members.append((name, window))
    return model.AnyOf(tuple(members))


def _simple_window(
    say: Complaints, section: BaseModel, origin_us: int, columns: list[str], path: KeyPath
) -> model.SimpleWindow:
    def keys(wanted: list[str]) -> tuple[str, ...]:
        return tuple(say.at((*path, "partition_by"), partial(check_column, one, columns)) for one in wanted)

    match section:
        case schema.TumblingSection():
            align_us = origin_us if section.align_to is None else section.align_to
            return model.Grid(section.size, section.size, section.offset, align_us)
        case schema.HoppingSection():
            align_us = origin_us if section.align_to is None else section.align_to
            return model.Grid(section.size, section.hop, section.offset, align_us)
        case schema.SlidingSection():
            return model.Sliding(section.size)
        case schema.SessionSection():
            align_us = origin_us if section.align_to is None else section.align_to
            return model.Session(section.timeout, section.max_duration, keys(section.partition_by), align_us)
        case schema.AtlasSessionSection():
            return model.Session(section.gap, None, keys(section.partition_by), origin_us)
        case schema.SnapshotSection():
            return model.Snapshot()
        case schema.CountSection():
            return model.Count(section.n)
    raise AssertionError(section)
