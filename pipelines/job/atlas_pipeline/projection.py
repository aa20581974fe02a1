"""The stages that change a document's fields: ``$project``, ``$addFields``, ``$unset``, ``$replaceRoot`` (Q103)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pipelines.job.atlas_pipeline.documents import Documents
from pipelines.job.atlas_pipeline.scope import Scope
from pipelines.job.atlas_pipeline.text import Doc, Items
from pipelines.job.atlas_pipeline.values import (
    Guess,
    Value,
    element_of,
    fields_of,
    kind_of,
    record,
    settled,
    want,
)
from pipelines.job.sql.types import Array, Record

Fields = list[tuple[str, Value]]
_INCLUDED, _EXCLUDED = object(), object()
_Spec = dict[str, Any]
"""Field -> included, excluded, an expression, or the specification of its own fields."""


def project(documents: Documents, body: Any, line: int) -> None:
    """``$project``: the fields named and no others, or all but those named."""
    scope = documents.scope(line)
    spec = _spec(scope, body, "$project")
    if not spec:
        raise scope.refused("$project names no field")
    if _excludes({name: one for name, one in spec.items() if name != "_id"} or spec):
        documents.project(_without(scope, list(documents.fields.items()), spec), line)
    else:
        if "_id" in documents.fields:
            spec.setdefault("_id", _INCLUDED)
        fields = _included(scope, dict(documents.fields), spec)
        documents.project(fields, line)


def unset(documents: Documents, body: Any, line: int) -> None:
    """``$unset``: all fields but these."""
    scope = documents.scope(line)
    names = list(body) if isinstance(body, Items) else [body]
    if not all(isinstance(name, str) for name in names):
        raise scope.refused("$unset needs the names of fields")
    spec = _spec(scope, Doc(dict.fromkeys(names, 0)), "$unset")
    documents.project(_without(scope, list(documents.fields.items()), spec), line)


def add_fields(documents: Documents, body: Any, line: int) -> None:
    """``$addFields``, ``$set``: all fields, with these added or replaced."""
    scope = documents.scope(line)
    documents.project(_added(scope, list(documents.fields.items()), _spec(scope, body, "$addFields")), line)


def replace_root(documents: Documents, body: Any, line: int) -> None:
    """``$replaceRoot``: a document within takes the place of the whole one; where there is none, the whole fails."""
    scope = documents.scope(line)
    node = scope.named("$replaceRoot", body, ("newRoot",))["newRoot"]
    replace_with(documents, node, line)


def replace_with(documents: Documents, body: Any, line: int) -> None:
    """``$replaceWith``, as ``$replaceRoot``."""
    scope = documents.scope(line)
    value = scope.value(body)
    want(value, Record(()))
    if kind_of(value.type) not in ("record", "open"):
        raise scope.mismatch("a new root", "a document", value, body)
    if value.parts is None:
        scope.fails_if(f"({value.sql} IS NULL)")
    rest = value.type if isinstance(value.type, Guess) else value.rest
    if rest is not None:
        documents.shared.opened = rest
    documents.project(fields_of(value), line)


def _spec(scope: Scope, body: Any, stage: str) -> _Spec:
    """The specification with dotted names as nested ones."""
    if not isinstance(body, Doc):
        raise scope.refused(f"{stage} needs a document of fields")
    spec: _Spec = {}
    for path, one in body.items():
        *parents, name = path.split(".")
        if not all([*parents, name]) or path.startswith("$"):
            raise scope.refused(f"'{path}' is not a field's name")
        inner = spec
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if type(inner) is not dict:
                raise scope.refused(f"'{path}' and a part of it are both named")
        if name in inner:
            raise scope.refused(f"'{path}' is named twice")
        inner[name] = _leaf(scope, one, stage)
    return spec


def _leaf(scope: Scope, one: Any, stage: str) -> Any:
    if isinstance(one, Doc) and one and not any(name.startswith("$") for name in one):
        return _spec(scope, one, stage)
    if stage != "$addFields" and isinstance(one, (bool, int, float)):
        return _INCLUDED if one else _EXCLUDED
    return one


def _excludes(spec: _Spec) -> bool:
    return any(one is _EXCLUDED or (type(one) is dict and _excludes(one)) for one in spec.values())


def _nested(scope: Scope, value: Value, change: Any) -> Value:
    """A document, or each document of an array, with other fields; null stays null."""
    if kind_of(value.type) == "array":
        variable = scope.shared.fresh()
        inner = _nested(scope, Value(variable, element_of(value)), change)
        return Value(f"transform({value.sql}, {variable} -> {inner.sql})", Array(settled(inner.type)), True)
    built = record(change(list(fields_of(value))))
    if value.parts is not None:
        return built
    return Value(f"CASE WHEN {value.sql} IS NOT NULL THEN {built.sql} END", built.type, True)


def _without(scope: Scope, fields: Iterable[tuple[str, Value]], spec: _Spec) -> Fields:
    kept: Fields = []
    for name, value in fields:
        match spec.get(name, _INCLUDED):
            case one if one is _EXCLUDED:
                continue
            case dict() as inner if type(inner) is dict:
                kept.append((name, _nested(scope, value, lambda own, inner=inner: _without(scope, own, inner))))
            case one if one is _INCLUDED:
                kept.append((name, value))
            case _:
                raise scope.refused(f"'{name}' is computed in a $project that leaves fields out; use $addFields")
    return kept


def _included(scope: Scope, fields: dict[str, Value], spec: _Spec) -> Fields:
    """The fields that stay, in the document's order, then the computed ones in the order written."""
    kept: Fields = [(name, value) for name, value in fields.items() if spec.get(name) is _INCLUDED]
    for name, one in spec.items():
        if one is _EXCLUDED or one == "$$REMOVE" or (one is _INCLUDED and name in fields):
            continue
        if one is _INCLUDED:
            if name != "_id" or scope.shared.opened is not None:
                kept.append((name, scope.value(f"${name}")))
        elif type(one) is dict:
            own = fields.get(name)
            if own is None and scope.shared.opened is not None and _INCLUDED in one.values():
                own = scope.value(f"${name}")
            if own is not None and kind_of(own.type) in ("record", "array", "open"):
                kept.append((name, _nested(scope, own, lambda of, one=one: _included(scope, dict(of), one))))
            else:
                kept.append((name, record(_included(scope, {}, one))))
        else:
            kept.append((name, scope.value(one)))
    return kept


def _added(scope: Scope, fields: Fields, spec: _Spec) -> Fields:
    """The fields in their order, replaced where named, then the new ones."""
    result = dict(fields)
    for name, one in spec.items():
        own = result.get(name)
        if type(one) is not dict:
            if one == "$$REMOVE":
                result.pop(name, None)
            else:
                result[name] = scope.value(one)
        elif own is not None and kind_of(own.type) == "array":
            result[name] = _nested(scope, own, lambda of, one=one: _added(scope, of, one))
        else:
            # a missing document is made
            result[name] = record(_added(scope, [] if own is None else list(fields_of(own)), one))
    return list(result.items())
