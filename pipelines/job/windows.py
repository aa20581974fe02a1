"""The window of a job file's query: the kinds that each profile has, and the window that a section defines."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import BaseModel

from pipelines.core import model
from pipelines.core.errors import did_you_mean
from pipelines.core.time import ORIGIN_0001_US
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
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


def build_window(file: JobFile, data: dict[str, Any], profile: str, columns: list[str], path: KeyPath) -> model.Window:
    """The window at ``path``: ``{kind: settings}``."""
    if len(data) != 1:
        raise file.error("needs exactly one kind of window, like {tumbling: {size: 1h}}", path)
    kind, body = next(iter(data.items()))
    known = _WINDOW_SECTIONS[profile]
    if kind == "any_of" and profile == "stream_analytics":
        return _any_of(file, body, profile, columns, (*path, kind))
    if kind not in known:
        names = [*known, "any_of"] if profile == "stream_analytics" else list(known)
        raise file.error(f"profile {profile} has no window '{kind}'; {did_you_mean(kind, names)}", (*path, kind))
    section = file.section(known[kind], body, (*path, kind))
    origin_us = 0 if profile == "atlas" else ORIGIN_0001_US
    return _simple_window(file, section, origin_us, columns, (*path, kind))


def _any_of(file: JobFile, body: Any, profile: str, columns: list[str], path: KeyPath) -> model.AnyOf:
    if not isinstance(body, dict) or not body:
        raise file.error("needs at least one named window", path)
    members: list[tuple[str, model.SimpleWindow]] = []
    for name, data in body.items():
        if not isinstance(data, dict) or "any_of" in data:
            raise file.error("must be one window, like {tumbling: {size: 1h}}, not a further any_of", (*path, name))
        if any(name.lower() == member.lower() for member, _ in members):
            raise file.error("is defined twice; ids are compared without case", (*path, name))
        window = build_window(file, data, profile, columns, (*path, name))
        assert not isinstance(window, model.AnyOf)
        members.append((name, window))
    return model.AnyOf(tuple(members))


def _simple_window(
    file: JobFile, section: BaseModel, origin_us: int, columns: list[str], path: KeyPath
) -> model.SimpleWindow:
    def keys(given: list[str]) -> tuple[str, ...]:
        return tuple(file.at((*path, "partition_by"), partial(check_column, column, columns)) for column in given)

    align_us = getattr(section, "align_to", None)
    align_us = origin_us if align_us is None else align_us
    match section:
        case schema.TumblingSection():
            return model.Grid(section.size, section.size, section.offset, align_us)
        case schema.HoppingSection():
            return model.Grid(section.size, section.hop, section.offset, align_us)
        case schema.SlidingSection():
            return model.Sliding(section.size)
        case schema.SessionSection():
            return model.Session(section.timeout, section.max_duration, keys(section.partition_by), align_us)
        case schema.AtlasSessionSection():
            return model.Session(section.gap, None, keys(section.partition_by), origin_us)
        case schema.SnapshotSection():
            return model.Snapshot()
        case schema.CountSection():
            return model.Count(section.n)
    raise AssertionError(section)
