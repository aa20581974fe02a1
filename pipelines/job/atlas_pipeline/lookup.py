"""``$lookup`` with the ``$unwind`` that follows it: a join with reference data (Q105)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pipelines.core.errors import did_you_mean
from pipelines.core.expressions import quoted
from pipelines.core.model import Reference
from pipelines.core.steps import Computed, Filtered, Projected, Referenced, ReferenceRows, Side
from pipelines.job.atlas_pipeline.documents import Documents, internal_name
from pipelines.job.atlas_pipeline.match import condition
from pipelines.job.atlas_pipeline.scope import Scope
from pipelines.job.atlas_pipeline.text import Doc, Items
from pipelines.job.atlas_pipeline.values import Guess, Value, settled
from pipelines.job.sql.types import Record

_LEFT, _RIGHT = "document", "found"
_UNWIND = "follow it with $unwind of the same field: only rows of reference data can be joined, not their array"


def reference_name(collection: str) -> str:
    """The name of the reference data that a collection stands for."""
    return re.sub(r"\W+", "_", collection.lower()).strip("_")


def lookup(
    documents: Documents,
    body: Any,
    unwind: Any,
    references: Mapping[str, Reference],
    guesses: dict[str, Guess] | None,
    line: int,
) -> None:
    """A document for each match; ``unwind`` is the body of the stage that follows.

    ``guesses`` gathers the fields of collections that nobody declared; None: they must be declared.
    """
    scope = documents.scope(line)
    named = scope.named(
        "$lookup", body, ("from", "localField", "foreignField", "as"), ("pipeline", "parallelism", "partitionBy")
    )
    field = scope.constant("as", named["as"], str)
    path, outer = unwound(scope, unwind) if unwind is not None else ("", False)
    if path != f"${field}" or "." in field:
        raise scope.refused(f"$lookup gives an array of matches; {_UNWIND}")
    name, found, guess = _collection(scope, named["from"], references, guesses)
    local = scope.value(f"${scope.constant('localField', named['localField'], str)}")
    right = Scope(scope.shared, found)
    key = scope.constant("foreignField", named["foreignField"], str)
    if guess is not None:
        guess.field(key.split(".")[0])
    foreign = right.value(f"${key}")
    rows = Projected(ReferenceRows(name), tuple(Computed(one, value.sql) for one, value in found.items()))
    kept = _conditions(right, named.get("pipeline", Items()))
    documents.drop_failed()
    columns = [(internal_name(one), value) for one, value in documents.fields.items()]
    documents.rows = Referenced(
        Side(_LEFT, documents.rows),
        Side(_RIGHT, Filtered(rows, kept) if kept else rows),
        keys=((local.sql, foreign.sql),),
        kind="left" if outer else "inner",
    )
    fields = {
        one: Value(f"{_LEFT}.{quoted(column)}", value.type, True)
        for one, (column, value) in zip(documents.fields, columns, strict=True)
    }
    documents.hidden = {column: f"{_LEFT}.{quoted(column)}" for column in documents.hidden}
    kind = Record(tuple((one, settled(value.type)) for one, value in found.items()))
    fields[field] = Value(_RIGHT, guess or kind, True)
    documents.project(fields.items(), line)


def unwound(scope: Scope, body: Any) -> tuple[str, bool]:
    """The path that an ``$unwind`` names, and whether documents without elements stay."""
    if isinstance(body, str):
        return body, False
    named = scope.named("$unwind", body, ("path",), ("includeArrayIndex", "preserveNullAndEmptyArrays"))
    return scope.constant("path", named["path"], str), named.get("preserveNullAndEmptyArrays", False) is True


def _collection(
    scope: Scope, source: Any, references: Mapping[str, Reference], guesses: dict[str, Guess] | None
) -> tuple[str, dict[str, Value], Guess | None]:
    """Name, fields, and where undeclared fields are gathered."""
    collection = source.get("coll") if isinstance(source, Doc) else source
    if not isinstance(collection, str) or not reference_name(collection):
        raise scope.refused("$lookup needs the name of a collection in 'from', like {db: 'plant', coll: 'machines'}")
    name = reference_name(collection)
    if name in references:
        return name, scope.shared.fields_of(references[name].columns), None
    if guesses is None:
        raise scope.refused(
            f"collection '{collection}' is not declared; give its columns as references.{name},"
            f" which {did_you_mean(name, references)}"
            if references
            else f"collection '{collection}' is not declared; give its columns as references.{name} in the job file"
        )
    guess = guesses.setdefault(name, Guess())
    return name, {one: Value(quoted(one), kind, True) for one, kind in guess.fields.items()}, guess


def _conditions(scope: Scope, pipeline: Any) -> str:
    """The condition of a pipeline of ``$match`` stages over the collection."""
    if not isinstance(pipeline, Items):
        raise scope.refused("'pipeline' of $lookup is an array of stages")
    parts = []
    for stage in pipeline:
        if not isinstance(stage, Doc) or list(stage) != ["$match"]:
            raise scope.refused("'pipeline' of $lookup may contain $match only; put other stages behind the $unwind")
        parts.append(condition(scope, stage["$match"]))
    return " AND ".join(parts)
