"""A pipeline, stage by stage, to the steps of a query (Q101 to Q112)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.model import Column, Reference
from pipelines.core.query import SortKey
from pipelines.core.steps import EVENT_COLUMNS, SYSTEM_TIMESTAMP, Applied, InputRows, Output, Steps
from pipelines.core.time import format_duration
from pipelines.job.atlas_pipeline.accumulators import END, START
from pipelines.job.atlas_pipeline.documents import Documents, as_columns
from pipelines.job.atlas_pipeline.lookup import lookup, unwound
from pipelines.job.atlas_pipeline.match import condition
from pipelines.job.atlas_pipeline.operators import OPERATORS
from pipelines.job.atlas_pipeline.projection import add_fields, project, replace_root, replace_with, unset
from pipelines.job.atlas_pipeline.scope import Scope, Shared, shown
from pipelines.job.atlas_pipeline.text import Doc, Items, Processor, Refused, names_in
from pipelines.job.atlas_pipeline.values import Guess, Value, element_of, fields_of, kind_of, record, want
from pipelines.job.atlas_pipeline.window import (
    WINDOWS,
    WindowStage,
    add_partition,
    count,
    group,
    keep_documents,
    length_us,
    limit,
    read_window,
    sort,
    window_meta,
)
from pipelines.job.sql.types import BIGINT, DATETIME, NULL, TEXT, Array, Record

_TIME = Value(quoted(SYSTEM_TIMESTAMP), DATETIME)
_OPERATION = "operationType"
_DOCUMENTS = {"fullDocument", "fullDocumentBeforeChange", "documentKey"}
"""Fields of a change event: what was done, and documents."""
OUTPUT = "output"
"""The name of an output that the pipeline does not name."""


@dataclass(frozen=True, slots=True)
class Translated:
    """The meaning of a pipeline: query, its input's time, settings of ``ordering``, its source, choices made."""

    query: Steps
    timestamp_by: str | None
    ordering: Mapping[str, str]
    source: str
    notes: tuple[str, ...]


@dataclass(slots=True)
class Guesses:
    """Fields that nobody declared: of the source's documents, and of each collection looked up."""

    documents: Guess = field(default_factory=Guess)
    references: dict[str, Guess] = field(default_factory=dict)


def translate(
    processor: Processor,
    input_name: str,
    columns: tuple[Column, ...],
    references: Mapping[str, Reference],
    guesses: Guesses | None = None,
) -> Translated:
    """The processor's pipeline over an input of these columns; Refused names stage and line.

    With ``guesses`` undeclared fields are allowed and gathered there, with the types that their use suggests.
    """
    stages = [_Stage.of(one, index) for index, one in enumerate(processor.pipeline)]
    if not stages or stages[0].name != "$source":
        raise Refused("the first stage of a pipeline is $source", processor.pipeline.line)
    mentioned = frozenset(names_in(processor.pipeline))
    reading = _Reading(Shared(OPERATORS, mentioned=mentioned), references, guesses)
    with_label = stages[0]
    try:
        reading.begin(with_label, input_name, columns)
    except Refused as refused:
        raise with_label.refused(refused) from None
    reading.run(stages[1:])
    assert reading.documents is not None
    output = Output(reading.output or OUTPUT, as_columns(reading.documents))
    return Translated(
        Steps((), (output,)),
        reading.timestamp_by,
        reading.ordering,
        reading.source,
        tuple(reading.shared.notes),
    )


@dataclass(frozen=True, slots=True)
class _Stage:
    name: str
    body: Any
    index: int
    line: int

    @staticmethod
    def of(one: Any, index: int) -> _Stage:
        line = getattr(one, "line", None)
        if not isinstance(one, Doc) or len(one) != 1 or not next(iter(one)).startswith("$"):
            raise Refused(f"stage {index + 1}: {shown(one)} is not a stage; write it like {{$match: {{..}}}}", line)
        name, body = next(iter(one.items()))
        return _Stage(name, body, index, getattr(body, "line", one.line))

    def refused(self, inner: Refused) -> Refused:
        """The refusal with the stage's place and name."""
        return Refused(f"stage {self.index + 1} ({self.name}): {inner.what}", inner.line or self.line)


@dataclass(slots=True)
class _Reading:
    shared: Shared
    references: Mapping[str, Reference]
    guesses: Guesses | None
    documents: Documents | None = None
    window: WindowStage | None = None
    inside: bool = False
    output: str | None = None
    timestamp_by: str | None = None
    source: str = ""
    ordering: dict[str, str] = field(default_factory=dict)

    # the source

    def begin(self, stage: _Stage, input_name: str, columns: tuple[Column, ...]) -> None:
        """``$source`` (Q101): what a document is, and its time."""
        body = stage.body
        if not isinstance(body, Doc):
            raise Refused("$source needs a document of settings")
        fields = self.shared.fields_of(columns)
        guess = self.guesses.documents if self.guesses is not None else None
        if guess is not None:
            if "coll" in body or "db" in body:
                for name in _DOCUMENTS & self.shared.mentioned:
                    want(Value(quoted(name), guess.field(name)), Record(()))
            fields |= {name: Value(quoted(name), kind, True) for name, kind in guess.fields.items()}
        order = tuple(SortKey(name) for name in EVENT_COLUMNS)
        self.documents = Documents(self.shared, InputRows(input_name), fields, _source_meta(), order)
        self.shared.opened = guess
        scope = self.documents.scope(body.line)
        self.timestamp_by = _event_time(scope, body.get("timeField"))
        self.shared.guards.clear()
        self.source = source_name(body)
        if "partitionIdleTimeout" in body:
            timeout_us = _timeout(scope, body["partitionIdleTimeout"])
            self.ordering["partition_idle_timeout"] = format_duration(timeout_us)
        if isinstance(body.get("config"), Doc) and body["config"].get("initialSync"):
            self.shared.note("initialSync reads a collection first; those documents must be in the log, too")
        time = body.get("tsFieldName")
        if isinstance(time, str) and time not in fields:
            self.documents.project([*fields.items(), (time, _TIME)], body.line)
        if {"stream", "source", _OPERATION} <= self.shared.mentioned:
            self._keep_operation(scope, body.line)

    def _keep_operation(self, scope: Scope, line: int | None) -> None:
        """What a change event did, which the log has as a field: later stages know it whatever becomes of the field."""
        documents = self._documents
        if _OPERATION not in scope.fields and self.guesses is None:
            return
        value = scope.value(f"${_OPERATION}")
        want(value, TEXT)
        kept = "__operation"
        documents.hidden[kept] = value.sql
        documents.project(list(documents.fields.items()), line)
        documents.meta = {**documents.meta, f"$meta stream.source.{_OPERATION}": Value(quoted(kept), TEXT)}

    # the other stages

    def run(self, stages: list[_Stage]) -> None:
        """Every stage in turn; ``$lookup`` takes the ``$unwind`` behind it with it."""
        at = 0
        while at < len(stages):
            stage, following = stages[at], stages[at + 1] if at + 1 < len(stages) else None
            try:
                if self.output is not None:
                    raise Refused("stands behind the stage that writes; that one is the last", stage.line)
                if stage.name == "$lookup":
                    self._lookup(stage, following)
                    at += 1
                else:
                    self._one(stage)
            except Refused as refused:
                raise stage.refused(refused) from None
            at += 1

    def _one(self, stage: _Stage) -> None:
        documents = self._documents
        if stage.name in _ROW_STAGES:
            _ROW_STAGES[stage.name](documents, stage.body, stage.line)
        elif stage.name in WINDOWS:
            self._window(stage)
        elif stage.name in _WINDOW_STAGES:
            if self.window is None or not self.inside:
                raise Refused("stands in the 'pipeline' of a window stage only", stage.line)
            _WINDOW_STAGES[stage.name](documents, self.window, stage.body, stage.line)
        elif stage.name == "$sort":
            if not self.inside:
                raise Refused("stands in the 'pipeline' of a window stage only", stage.line)
            sort(documents, stage.body, stage.line)
        elif stage.name in _WRITERS:
            if self.inside:
                raise Refused("is the last stage of the whole pipeline", stage.line)
            self.output = _output(self.shared, stage)
        else:
            known = (*_ROW_STAGES, *WINDOWS, *_WINDOW_STAGES, "$sort", "$lookup", *_WRITERS)
            raise Refused(
                f"cannot be replayed; {_NEVER.get(stage.name) or did_you_mean(stage.name, known)}", stage.line
            )

    @property
    def _documents(self) -> Documents:
        assert self.documents is not None, "the source comes first"
        return self.documents

    def _lookup(self, stage: _Stage, following: _Stage | None) -> None:
        unwind = following.body if following is not None and following.name == "$unwind" else None
        guesses = None if self.guesses is None else self.guesses.references
        lookup(self._documents, stage.body, unwind, self.references, guesses, stage.line)
        self.shared.note("$lookup: the product reads the collection as it is at that moment; here its snapshots count")

    def _window(self, stage: _Stage) -> None:
        """A window stage (Q108): its pipeline runs on the documents of each window."""
        documents = self._documents
        if self.window is not None:
            raise Refused("is a second window; the product allows one in a pipeline", stage.line)
        self.window = read_window(documents.scope(stage.line), stage.name, stage.body)
        self.ordering |= self.window.ordering
        add_partition(documents, self.window, stage.line)
        documents.drop_failed()
        inner = stage.body["pipeline"]
        if not isinstance(inner, Items):
            raise Refused("'pipeline' is an array of stages", stage.line)
        stages = [_Stage.of(one, index) for index, one in enumerate(inner)]
        documents.meta = {**documents.meta, **window_meta(Value(START, DATETIME), Value(END, DATETIME))}
        self.inside = True
        if self.window.partition is not None and stages and stages[0].name != "$group":
            # a document that the pipeline removes is part of the session all the same
            keep_documents(documents, self.window, stage.line)
        self.run(stages)
        if not self.window.closed:
            keep_documents(documents, self.window, stage.line)
        self.inside = False


def _match(documents: Documents, body: Any, line: int) -> None:
    """``$match`` (Q102): acts after the watermark has moved (G2)."""
    documents.keep(condition(documents.scope(line), body))


def _validate(documents: Documents, body: Any, line: int) -> None:
    """``$validate`` (Q109): a document that fails is gone for later stages."""
    scope = documents.scope(line)
    named = scope.named("$validate", body, ("validator",), ("validationAction", "validationLevel"))
    if named.get("validationAction", "discard") not in ("discard", "dlq", "error"):
        raise scope.refused(f"'validationAction' is discard or dlq, not {named['validationAction']!r}")
    documents.keep(condition(scope, named["validator"]))


def _unwind(documents: Documents, body: Any, line: int) -> None:
    """``$unwind`` (Q104): a document for each element; one that is no array is its only element."""
    scope = documents.scope(line)
    path, outer = unwound(scope, body)
    index = body.get("includeArrayIndex") if isinstance(body, Doc) else None
    if not path.startswith("$") or path.startswith("$$"):
        raise scope.refused("$unwind needs the path of a field, like '$readings'")
    value = scope.value(path)
    want(value, Array(NULL))
    several = kind_of(value.type) == "array"
    argument = value.sql if several else f"CASE WHEN {value.sql} IS NOT NULL THEN array({value.sql}) END"
    column, place = documents.shared.fresh(), documents.shared.fresh()
    documents.drop_failed()
    documents.rows = Applied(documents.rows, argument, column, outer=outer)
    element = Value(f"{quoted(column)}.`ArrayValue`", element_of(value) if several else value.type, True)
    documents.hidden[place] = f"{quoted(column)}.`ArrayIndex`"
    documents.order = (*documents.order, SortKey(f"{quoted(column)}.`ArrayIndex`"))
    fields = _with_field(scope, dict(documents.fields), path[1:].split("."), element)
    if index is not None:
        fields[scope.constant("includeArrayIndex", index, str)] = Value(f"{quoted(column)}.`ArrayIndex`", BIGINT, True)
    documents.project(fields.items(), line)


def _with_field(scope: Scope, fields: dict[str, Value], path: list[str], value: Value) -> dict[str, Value]:
    """The fields with another value at a path."""
    head, *rest = path
    if rest:
        inner = fields.get(head) or scope.value(f"${head}")
        value = record(list(_with_field(scope, dict(fields_of(inner)), rest, value).items()))
    return {**fields, head: value}


_ROW_STAGES: dict[str, Callable[[Documents, Any, int], None]] = {
    "$match": _match,
    "$validate": _validate,
    "$addFields": add_fields,
    "$set": add_fields,
    "$project": project,
    "$unset": unset,
    "$replaceRoot": replace_root,
    "$replaceWith": replace_with,
    "$unwind": _unwind,
}
_WINDOW_STAGES: dict[str, Callable[[Documents, WindowStage, Any, int], None]] = {
    "$group": group,
    "$limit": limit,
    "$count": count,
}
_WRITERS = ("$merge", "$emit", "$iceberg")
_OUTSIDE = "it asks the outside world; write its answers into the log and read them from there"
_NEVER = {
    "$https": _OUTSIDE,
    "$externalFunction": _OUTSIDE,
    "$function": "it runs code; write its results into the log and read them from there",
    "$cachedLookup": "its cache depends on the clock; use $lookup and $unwind, with snapshots as reference data",
    "$redact": "write it with $match and $project",
    "$skip": "the product does not have it in stream processing",
    "$out": "write with $merge",
}


# the source and the output


def _source_meta() -> dict[str, Value]:
    """What is known of a document besides its fields."""
    known = {
        "source.ts": Value("`arrival_time`", DATETIME),
        "source.partition": Value("CAST(`input_partition` AS BIGINT)", BIGINT),
        "source.offset": Value("`sequence`", BIGINT),
    }
    meta = {f"$meta stream.{name}": value for name, value in known.items()}
    meta |= {f"$_stream_meta.{name}": value for name, value in known.items()}
    return {**meta, "$_ts": _TIME}


def _event_time(scope: Scope, node: Any) -> str | None:
    """The expression of the event time (A1); a field that is a date, or a text of one, by its name alone."""
    if node is None:
        return None
    if not isinstance(node, Doc) or list(node) not in (["$toDate"], ["$dateFromString"]):
        raise scope.refused("timeField is {$toDate: ..} or {$dateFromString: {dateString: ..}}")
    name, argument = next(iter(node.items()))
    if name == "$dateFromString" and isinstance(argument, Doc) and list(argument) == ["dateString"]:
        argument = argument["dateString"]
    if isinstance(argument, str) and re.fullmatch(r"\$[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", argument):
        value = scope.value(argument)
        want(value, DATETIME)
        if kind_of(value.type) in ("text", "date"):
            return argument[1:]
    return scope.value(node).sql


def _timeout(scope: Scope, node: Any) -> int:
    return length_us(scope, Doc(partitionIdleTimeout=node), "partitionIdleTimeout")


def source_name(body: Doc) -> str:
    """What the source is called: its topic, collection, stream or connection."""
    for key in ("topic", "coll", "stream", "connectionName"):
        one = body[key][0] if isinstance(body.get(key), Items) and body[key] else body.get(key)
        if isinstance(one, str) and plain_name(one):
            return plain_name(one)
    return "documents"


def plain_name(text: str) -> str:
    """The text as a name of tables: lower case, digits and underscores, a letter first; empty if nothing is left."""
    return re.sub(r"^[^a-z]+", "", re.sub(r"[^a-z0-9]+", "_", text.lower())).strip("_")[:63]


def _output(shared: Shared, stage: _Stage) -> str:
    """The output that the stage names (Q110): its collection, topic, stream or table."""
    body = stage.body if isinstance(stage.body, Doc) else Doc()
    if isinstance(body.get("whenMatched"), Items):
        shared.note("$merge with a pipeline adds to what is stored: its documents cannot be compared row for row")
    into = body.get("into", body) if stage.name == "$merge" else body
    kinds = ("coll", "topic", "stream", "tableName")
    name = next((into[kind] for kind in kinds if kind in into), None) if isinstance(into, Doc) else into
    if isinstance(name, Doc):
        shared.note(f"{stage.name} chooses where each document goes; here all are in one output")
    return (plain_name(name) if isinstance(name, str) else "") or OUTPUT
