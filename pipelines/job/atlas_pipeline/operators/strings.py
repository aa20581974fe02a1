"""Texts. Positions count from 0; code points and bytes are the same for ASCII, else bytes are refused."""

from __future__ import annotations

import re
from typing import Any

from pipelines.job.atlas_pipeline.scope import Operator, Scope
from pipelines.job.atlas_pipeline.text import Doc, Pattern
from pipelines.job.atlas_pipeline.values import Value, text_sql
from pipelines.job.sql.types import BIGINT, BIT, TEXT, Array

_BYTES = "positions in bytes are taken as characters: they differ in texts that are not ASCII"


def _concat(scope: Scope, raw: Any) -> Value:
    texts = [scope.text(one, "$concat") for one in scope.arguments("$concat", raw, 1)]
    return Value(f"concat({', '.join(one.sql for one in texts)})", TEXT)


def _cased(name: str, function: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        (node,) = scope.arguments(name, raw, 1, 1)
        return Value(f"{function}(coalesce({scope.text(node, name).sql}, ''))", TEXT)

    return build


def _length(name: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        (node,) = scope.arguments(name, raw, 1, 1)
        text = scope.text(node, name)
        scope.fails_if(f"({text.sql} IS NULL)")
        function = "octet_length" if name == "$strLenBytes" else "char_length"
        return Value(f"CAST({function}({text.sql}) AS BIGINT)", BIGINT)

    return build


def _part(name: str) -> Operator:
    """``[text, start, length]``; a negative length reaches to the end."""

    def build(scope: Scope, raw: Any) -> Value:
        node, first, count = scope.arguments(name, raw, 3, 3)
        text, start, length = scope.text(node, name), scope.number(first, name), scope.number(count, name)
        if name != "$substrCP":
            scope.shared.note(f"{name}: {_BYTES}")
        begin = f"CAST({start.sql} AS INT)"
        size = f"CAST({length.sql} AS INT)"
        inside = f"CASE WHEN {size} < 0 THEN substring({text.sql}, {begin} + 1) ELSE"
        inside += f" substring({text.sql}, {begin} + 1, {size}) END"
        return Value(f"coalesce(CASE WHEN {begin} >= 0 THEN {inside} END, '')", TEXT)

    return build


def _index(name: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        node, sought, *start = scope.arguments(name, raw, 2, 3)
        text, piece = scope.text(node, name), scope.text(sought, name)
        if name == "$indexOfBytes":
            scope.shared.note(f"{name}: {_BYTES}")
        begin = f"CAST({scope.number(start[0], name).sql} AS INT) + 1" if start else "1"
        return Value(f"CAST(locate({piece.sql}, {text.sql}, {begin}) - 1 AS BIGINT)", BIGINT)

    return build


def _split(scope: Scope, raw: Any) -> Value:
    node, delimiter = scope.arguments("$split", raw, 2, 2)
    text, mark = scope.text(node, "$split"), scope.constant("$split", delimiter, str)
    return Value(f"split({text.sql}, {text_sql(re.escape(mark))}, -1)", Array(TEXT))


def _trim(name: str, ends: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        named = scope.named(name, raw, ("input",), ("chars",))
        text = scope.text(named["input"], name).sql
        chars = scope.constant(name, named["chars"], str) if "chars" in named else None
        some = r"[\s\x{0}\x{a0}\x{1680}\x{2000}-\x{200a}]" if chars is None else f"[{re.escape(chars)}]"
        pattern = "|".join({"^": f"^{some}+", "$": f"{some}+$"}[end] for end in ends)
        return Value(f"regexp_replace({text}, {text_sql(pattern)}, '')", TEXT)

    return build


def _replace(name: str) -> Operator:
    def build(scope: Scope, raw: Any) -> Value:
        named = scope.named(name, raw, ("input", "find", "replacement"))
        text, find, by = (scope.text(named[key], name).sql for key in ("input", "find", "replacement"))
        if name == "$replaceAll":
            return Value(f"replace({text}, {find}, {by})", TEXT)
        place = f"locate({find}, {text})"
        one = f"overlay({text} PLACING {by} FROM {place} FOR length({find}))"
        return Value(f"CASE WHEN {place} > 0 THEN {one} ELSE {text} END", TEXT)

    return build


def regex_sql(scope: Scope, pattern: str, options: str) -> str:
    """A Java pattern of a literal PCRE pattern; Refused if it does not compile or has an option that Java lacks."""
    flags = "".join(flag for flag in "imsx" if flag in options)
    if set(options) - set("imsxu"):
        raise scope.refused(f"regular expression option '{options}' is not one of i, m, s, x")
    try:
        re.compile(re.sub(r"\(\?<([A-Za-z])", r"(?P<\1", pattern))
    except (re.error, OverflowError, RecursionError) as error:
        raise scope.refused(f"'{pattern}' is not a regular expression that can be replayed: {error}") from None
    return text_sql(f"(?{flags}){pattern}" if flags else pattern)


def _regex_match(scope: Scope, raw: Any) -> Value:
    named = scope.named("$regexMatch", raw, ("input", "regex"), ("options",))
    text = scope.text(named["input"], "$regexMatch")
    given: object = named["regex"]
    options = scope.constant("$regexMatch", named.get("options", ""), str)
    if isinstance(given, Pattern):
        options += given.options
        given = given.pattern
    pattern = scope.constant("$regexMatch", given, str)
    return Value(f"coalesce({text.sql} RLIKE {regex_sql(scope, pattern, options)}, false)", BIT)


def _compare_caseless(scope: Scope, raw: Any) -> Value:
    a, b = (
        f"lower(coalesce({scope.text(one, '$strcasecmp').sql}, ''))"
        for one in scope.arguments("$strcasecmp", raw, 2, 2)
    )
    return Value(f"CASE WHEN {a} < {b} THEN -1L WHEN {a} > {b} THEN 1L ELSE 0L END", BIGINT)


def _literal(scope: Scope, raw: Any) -> Value:
    """The argument as it stands: ``$`` in it means nothing."""
    if isinstance(raw, str):
        return Value(text_sql(raw), TEXT)
    if isinstance(raw, Doc) and any(name.startswith("$") for name in raw):
        raise scope.refused("$literal of a document with operators cannot be replayed; write a plain value")
    return scope.value(raw)


STRINGS: dict[str, Operator] = {
    "$concat": _concat,
    "$toLower": _cased("$toLower", "lower"),
    "$toUpper": _cased("$toUpper", "upper"),
    "$strLenCP": _length("$strLenCP"),
    "$strLenBytes": _length("$strLenBytes"),
    "$substr": _part("$substr"),
    "$substrBytes": _part("$substrBytes"),
    "$substrCP": _part("$substrCP"),
    "$indexOfCP": _index("$indexOfCP"),
    "$indexOfBytes": _index("$indexOfBytes"),
    "$split": _split,
    "$trim": _trim("$trim", "^$"),
    "$ltrim": _trim("$ltrim", "^"),
    "$rtrim": _trim("$rtrim", "$"),
    "$replaceOne": _replace("$replaceOne"),
    "$replaceAll": _replace("$replaceAll"),
    "$regexMatch": _regex_match,
    "$strcasecmp": _compare_caseless,
    "$literal": _literal,
}
