"""A job file's text to a validated, frozen :class:`~pipelines.core.model.Job`, or one error that names key and line."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pipelines.core import model
from pipelines.core.errors import JobFileError, UsageError, did_you_mean
from pipelines.core.time import ORIGIN_0001_US
from pipelines.job import schema
from pipelines.job.expressions import check_column, check_expression, columns_read, parse_aggregate, parse_columns
from pipelines.job.limits import limits_exceeded
from pipelines.job.yaml import Document, load_all
from pipelines.job.yaml import Path as KeyPath

T = TypeVar("T")
S = TypeVar("S", bound=BaseModel)

RESULT_COLUMNS = frozenset({"window_start", "window_end", "window_id", "output_date", "emitted_at"})
"""Columns of every result, which no group key and no aggregate may be called."""

_ORDERING_SECTIONS: dict[str, type[BaseModel]] = {
    "stream_analytics": schema.StreamAnalyticsSection,
    "atlas": schema.AtlasSection,
    "stream_insight": schema.StreamInsightSection,
}
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
_SHAPES = ("end_by", "edge_by", "match_on")


def load_job(path: str | Path) -> model.Job:
    """The job in the file at ``path``; raises :class:`JobFileError`, or :class:`UsageError` if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the job file: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise JobFileError(f"not UTF-8 text (byte {error.start})", file=str(path)) from None
    return parse_job(text, file=str(path))


def parse_job(text: str, *, file: str | None = None) -> model.Job:
    """The job in a YAML text of exactly one document."""
    documents = load_all(text, file=file)
    if len(documents) != 1:
        raise JobFileError(f"holds {len(documents)} documents; a job file holds one job", file=file)
    return build_job(documents[0], file=file)


def build_job(document: Document, *, file: str | None = None, root: KeyPath = ()) -> model.Job:
    """The job at key path ``root`` of ``document`` (the whole document by default)."""
    data = document.data
    for key in root:
        data = data[key]
    return _Builder(document, file, root).job(data)


class _Builder:
    """Turns sections into the model; every complaint becomes a :class:`JobFileError` with its place."""

    def __init__(self, document: Document, file: str | None, root: KeyPath) -> None:
        self.document = document
        self.file = file
        self.root = root

    def job(self, data: Any) -> model.Job:
        section = self.section(schema.JobSection, data, ())
        inputs = tuple(self.input(name, part, section.profile) for name, part in section.inputs.items())
        by_name = {part.name: part for part in inputs}
        orderings = self.orderings(section, by_name)
        query = self.query(section, by_name)
        job = model.Job(
            name=section.job,
            profile=section.profile,
            inputs=inputs,
            orderings=orderings,
            query=query,
            end_of_log=section.end_of_log or _default_end_of_log(section.profile, orderings),
            strict_limits=section.strict_limits,
            keep_verdicts=section.keep_verdicts,
            stream_windows=section.stream.windows or f"stream_windows/{section.job}",
            stream_columns=self.stream_columns(section.stream, query),
        )
        exceeded = limits_exceeded(job) if job.strict_limits else []
        if exceeded:
            raise self.error(f"{exceeded[0]}; relax it, or leave strict_limits out", ("strict_limits",))
        return job

    # -- errors -------------------------------------------------------------------------------------------------

    def error(self, what: str, path: KeyPath) -> JobFileError:
        line = self.document.line_of((*self.root, *path))
        return JobFileError(what, file=self.file, line=line, key=".".join(map(str, path)) or None)

    def at(self, path: KeyPath, make: Callable[[], T]) -> T:
        """``make()``, with a ValueError told as an error at ``path``."""
        try:
            return make()
        except ValueError as error:
            raise self.error(str(error), path) from None

    def section(self, kind: type[S], data: Any, path: KeyPath) -> S:
        try:
            return kind.model_validate(data)
        except ValidationError as error:
            raise self.first(error, path) from None

    def first(self, error: ValidationError, path: KeyPath) -> JobFileError:
        """The complaint that stands first in the file."""
        complaints = []
        for item in error.errors(include_url=False):
            # pydantic adds its own words to the path: the branch of a union, "[key]" for a mapping's key
            where = (*path, *(part for part in item["loc"] if part != "[key]" and not str(part).startswith("constr")))
            if item["type"] == "unknown_key":
                where = (*where, item["ctx"]["key"])
            complaints.append((self.document.line_of((*self.root, *where)) or 0, where, _sentence(item)))
        _, where, what = min(complaints, key=lambda complaint: complaint[0])
        return self.error(what, where)

    # -- inputs and ordering ------------------------------------------------------------------------------------

    def input(self, name: str, part: schema.InputSection, profile: str) -> model.Input:
        path: KeyPath = ("inputs", name)
        columns = self.at((*path, "columns"), lambda: parse_columns(part.columns))
        names = [column.name for column in columns]

        def expression(key: str, text: str | None) -> str | None:
            return None if text is None else self.at((*path, key), lambda: check_expression(text, names))

        def listed(key: str, wanted: list[str]) -> tuple[str, ...]:
            return tuple(self.at((*path, key), partial(check_column, one, names)) for one in wanted)

        if part.over and profile != "stream_analytics":
            raise self.error(f"profile {profile} has no substreams; leave 'over' out", (*path, "over"))
        if part.over and part.timestamp_by is None:
            raise self.error("'over' needs 'timestamp_by': without it no policy applies", (*path, "over"))
        result = model.Input(
            name=name,
            columns=columns,
            timestamp_by=expression("timestamp_by", part.timestamp_by),
            over=listed("over", part.over),
            sub_microsecond=part.sub_microsecond,
            partitions=part.partitions,
            shape=part.shape,
            end_by=expression("end_by", part.end_by),
            edge_by=expression("edge_by", part.edge_by),
            match_on=listed("match_on", part.match_on),
        )
        self.timestamp_type(result, path)
        return self.shape(result, profile, path)

    def timestamp_type(self, part: model.Input, path: KeyPath) -> None:
        column = part.column(part.timestamp_by) if part.timestamp_by else None
        if column is not None and column.type not in ("timestamp", "string", "date"):
            raise self.error(
                f"column '{column.name}' is {column.type.upper()}, not an instant; convert it, for example"
                f" timestamp_millis({column.name})",
                (*path, "timestamp_by"),
            )

    def shape(self, part: model.Input, profile: str, path: KeyPath) -> model.Input:
        if profile != "stream_insight":
            for key in ("shape", *_SHAPES):
                if (*self.root, *path, key) in self.document.lines:
                    raise self.error(f"'{key}' belongs to profile stream_insight", (*path, key))
            return part
        allowed = {"point": (), "interval": ("end_by",), "edge": _SHAPES}[part.shape]
        for key in _SHAPES:
            given = bool(getattr(part, key))
            if given and key not in allowed:
                raise self.error(f"a {part.shape} has no '{key}'", (*path, key))
            if not given and key in allowed and key != "match_on":
                raise self.error(f"shape {part.shape} needs '{key}'", (*path, "shape"))
        if part.shape != "point" and part.timestamp_by is None:
            raise self.error(f"shape {part.shape} needs 'timestamp_by', its start", (*path, "shape"))
        if part.shape == "edge" and not part.match_on:
            said = columns_read(text for text in (part.timestamp_by, part.end_by, part.edge_by) if text is not None)
            rest = tuple(column.name for column in part.columns if column.name.lower() not in said)
            return dataclasses.replace(part, match_on=rest)
        return part

    def orderings(
        self, section: schema.JobSection, inputs: Mapping[str, model.Input]
    ) -> tuple[tuple[str, model.Ordering], ...]:
        data = section.ordering
        kind = _ORDERING_SECTIONS[section.profile]
        keys = set(kind.model_fields)
        per_input = bool(data) and not (set(data) & keys) and all(isinstance(part, dict) for part in data.values())
        if per_input and set(data) & set(inputs):
            for name in data:
                if name not in inputs:
                    raise self.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("ordering", name))
            parts = {
                name: (data.get(name, {}), ("ordering", name) if name in data else ("ordering",)) for name in inputs
            }
        else:
            parts = dict.fromkeys(inputs, (data, ("ordering",)))
        return tuple(
            (name, self.ordering(self.section(kind, part, path), path, inputs, name))
            for name, (part, path) in parts.items()
        )

    def ordering(self, part: BaseModel, path: KeyPath, inputs: Mapping[str, model.Input], name: str) -> model.Ordering:
        if isinstance(part, schema.StreamAnalyticsSection):
            return model.StreamAnalyticsOrdering(part.early_arrival, part.late_arrival, part.out_of_order, part.action)
        if isinstance(part, schema.AtlasSection):
            return model.AtlasOrdering(
                part.allowed_lateness, part.idle_timeout, part.idle_rule, part.partition_idle_timeout, part.boundary
            )
        assert isinstance(part, schema.StreamInsightSection)
        source = part.import_from
        if source is not None and (source not in inputs or source == name):
            raise self.error(f"'{source}' is not another input of this job", (*path, "import_from"))
        return self.advance(part, path)

    def advance(self, part: schema.StreamInsightSection, path: KeyPath) -> model.StreamInsightOrdering:
        here = (*path, "advance")
        helper_delay_us: int | None = None
        match part.advance:
            case "increasing_start_time":
                helper_delay_us = 0
            case "strictly_increasing_start_time":
                helper_delay_us = -1
            case {"unordered_start_time": tolerance, **rest} if not rest:
                helper_delay_us = self.at(here, lambda: schema._not_negative(tolerance))
            case str(word):
                known = ("increasing_start_time", "strictly_increasing_start_time", "unordered_start_time")
                raise self.error(f"'{word}' is not a way to advance; {did_you_mean(word, known)}", here)
        if helper_delay_us is not None:
            for key in ("delay", "to_infinity_on_shutdown", "action"):
                if key in part.model_fields_set:
                    raise self.error(f"'advance' names a helper, which sets '{key}' itself; leave it out", (*path, key))
            return model.StreamInsightOrdering("drop", 1, None, helper_delay_us, True, part.import_from)
        if part.action is None:
            raise self.error("'action' is missing: adjust or drop must be said", path)
        every_events, every_us = None, None
        if part.advance is not None:
            every = self.section(schema.AdvanceSection, part.advance, here).every
            if isinstance(every, str):
                every_us = self.at((*here, "every"), lambda: schema._positive(every))
            elif every < 1:
                raise self.error(f"{every} events is not a frequency; it must be 1 or more", (*here, "every"))
            else:
                every_events = every
        return model.StreamInsightOrdering(
            part.action, every_events, every_us, part.delay, part.to_infinity_on_shutdown, part.import_from
        )

    # -- query --------------------------------------------------------------------------------------------------

    def query(self, section: schema.JobSection, inputs: Mapping[str, model.Input]) -> model.Query:
        part = section.query
        given = [key for key in ("from", "union", "join") if getattr(part, "from_" if key == "from" else key)]
        if len(given) != 1:
            raise self.error("needs exactly one of from, union and join", ("query", *given[1:2]))
        join = self.join(part.join, section.profile, inputs) if part.join else None
        sources = tuple([part.from_] if part.from_ else part.union or [])
        for name in sources:
            if name not in inputs:
                raise self.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", ("query", given[0]))
        columns = self.query_columns(sources, join, section.profile, inputs)
        where = None
        if part.where is not None:
            text = part.where
            where = self.at(("query", "where"), lambda: check_expression(text, columns))
        group_by = tuple(
            self.at(("query", "group_by", index), partial(check_column, one, columns))
            for index, one in enumerate(part.group_by)
        )
        names = [model.output_name(column).lower() for column in group_by]
        aggregates = tuple(
            self.at(("query", "aggregates", name), partial(parse_aggregate, name, text, columns))
            for name, text in part.aggregates.items()
        )
        self.result_names(names, part.aggregates)
        window = self.window(part.window, section.profile, columns, ("query", "window"))
        return model.Query(window, aggregates, sources, join, where, group_by)

    def stream_columns(self, part: schema.StreamSection, query: model.Query) -> tuple[tuple[str, str], ...]:
        names = [model.output_name(column) for column in query.group_by] + [one.name for one in query.aggregates]
        known = [*names, "window_start", "window_end", "window_id", "emitted_at"]
        mapping: list[tuple[str, str]] = []
        for theirs, ours in part.columns.items():
            path: KeyPath = ("stream", "columns", theirs)
            column = self.at(path, partial(check_column, ours, known))
            if any(column == other for _, other in mapping):
                raise self.error(f"'{column}' is the meaning of two columns", path)
            mapping.append((theirs, column))
        return tuple(mapping)

    def result_names(self, keys: list[str], aggregates: Mapping[str, str]) -> None:
        for index, key in enumerate(keys):
            if key in RESULT_COLUMNS or key in keys[:index]:
                raise self.error(f"'{key}' is taken in the result already", ("query", "group_by", index))
        seen = set(keys) | RESULT_COLUMNS
        for name in aggregates:
            if name.lower() in seen:
                raise self.error(f"'{name}' is taken in the result already", ("query", "aggregates", name))
            seen.add(name.lower())

    def query_columns(
        self,
        sources: tuple[str, ...],
        join: model.Join | None,
        profile: str,
        inputs: Mapping[str, model.Input],
    ) -> list[str]:
        if join is not None:
            return [f"{side}.{column.name}" for side in (join.left, join.right) for column in inputs[side].columns]
        if len(set(sources)) != len(sources):
            raise self.error("an input stands there twice", ("query", "union"))
        if len(sources) > 1 and profile == "atlas":
            raise self.error("profile atlas reads one source; a union needs a job for each", ("query", "union"))
        first = inputs[sources[0]]
        for name in sources[1:]:
            if inputs[name].columns != first.columns:
                raise self.error(f"'{name}' and '{first.name}' have different columns", ("query", "union"))
        return [column.name for column in first.columns]

    def join(self, part: schema.JoinSection, profile: str, inputs: Mapping[str, model.Input]) -> model.Join:
        path: KeyPath = ("query", "join")
        if profile != "stream_analytics":
            raise self.error(f"joins are built for profile stream_analytics, not for {profile}", path)
        for key, name in (("left", part.left), ("right", part.right)):
            if name not in inputs:
                raise self.error(f"there is no input '{name}'; {did_you_mean(name, inputs)}", (*path, key))
        if part.left == part.right:
            raise self.error("an input cannot be joined with itself; describe it twice", (*path, "right"))
        if part.within.from_ > part.within.to:
            raise self.error("'from' is greater than 'to': nothing can match", (*path, "within", "from"))
        for side in (part.left, part.right):
            names = [column.name for column in inputs[side].columns]
            for index, name in enumerate(part.on):
                self.at((*path, "on", index), partial(check_column, name, names))
        return model.Join(
            part.left, part.right, tuple(part.on), part.within.unit, part.within.from_, part.within.to, part.kind
        )

    def window(self, data: dict[str, Any], profile: str, columns: list[str], path: KeyPath) -> model.Window:
        if len(data) != 1:
            raise self.error("needs exactly one kind of window, like {tumbling: {size: 1h}}", path)
        kind, body = next(iter(data.items()))
        known = _WINDOW_SECTIONS[profile]
        if kind == "any_of" and profile == "stream_analytics":
            return self.any_of(body, profile, columns, (*path, kind))
        if kind not in known:
            names = [*known, "any_of"] if profile == "stream_analytics" else list(known)
            raise self.error(f"profile {profile} has no window '{kind}'; {did_you_mean(kind, names)}", (*path, kind))
        section = self.section(known[kind], body, (*path, kind))
        origin_us = 0 if profile == "atlas" else ORIGIN_0001_US
        return self.simple_window(section, origin_us, columns, (*path, kind))

    def any_of(self, body: Any, profile: str, columns: list[str], path: KeyPath) -> model.AnyOf:
        if not isinstance(body, dict) or not body:
            raise self.error("needs at least one named window", path)
        members: list[tuple[str, model.SimpleWindow]] = []
        for name, data in body.items():
            if not isinstance(data, dict) or "any_of" in data:
                raise self.error("must be one window, like {tumbling: {size: 1h}}, not a further any_of", (*path, name))
            if any(name.lower() == other.lower() for other, _ in members):
                raise self.error("is named twice; ids are compared without case", (*path, name))
            window = self.window(data, profile, columns, (*path, name))
            assert not isinstance(window, model.AnyOf)
            members.append((name, window))
        return model.AnyOf(tuple(members))

    def simple_window(
        self, section: BaseModel, origin_us: int, columns: list[str], path: KeyPath
    ) -> model.SimpleWindow:
        def keys(wanted: list[str]) -> tuple[str, ...]:
            return tuple(self.at((*path, "partition_by"), partial(check_column, one, columns)) for one in wanted)

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


def _default_end_of_log(profile: str, orderings: tuple[tuple[str, model.Ordering], ...]) -> model.EndOfLog:
    if profile == "stream_analytics":
        return "flush"
    if profile == "stream_insight" and all(
        isinstance(part, model.StreamInsightOrdering) and part.to_infinity_on_shutdown for _, part in orderings
    ):
        return "flush"
    return "hold"


def _sentence(item: Any) -> str:
    """pydantic's complaint in our words."""
    given = item.get("input")
    match item["type"]:
        case "missing":
            return "is missing"
        case "unknown_key" | "not_a_mapping":
            return str(item["msg"])
        case "literal_error":
            expected = str(item["ctx"]["expected"])
            hint = (
                did_you_mean(given, expected.replace("'", "").replace(" or ", ", ").split(", "))
                if isinstance(given, str)
                else ""
            )
            return f"{given!r} is not one of {expected}" + (f"; {hint}" if hint.startswith("did") else "")
        case "value_error":
            return str(item["ctx"]["error"])
        case "string_pattern_mismatch":
            return f"'{given}' is not a name here: a lower-case letter, then letters, digits and underscores"
        case "string_type":
            return f"{given!r} is not text"
        case "int_type":
            return f"{given!r} is not a whole number"
        case "bool_type":
            return f"{given!r} is neither true nor false"
        case "list_type":
            return f"{given!r} is not a list; write it like [a, b]"
        case "dict_type":
            return f"{given!r} stands where keys and values belong"
        case _:
            return str(item["msg"])
