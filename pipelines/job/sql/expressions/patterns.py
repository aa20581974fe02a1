"""Patterns of LIKE, PATINDEX and REGEXMATCH as regular expressions of Java (Q40)."""

from __future__ import annotations

import re
import warnings

from sqlglot import exp

from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.context import Context, name_of
from pipelines.job.sql.expressions.operators import Operator
from pipelines.job.sql.expressions.utf16 import filled
from pipelines.job.sql.expressions.values import Value, strict, text
from pipelines.job.sql.types import BIGINT, BIT, NULL, TEXT


def _like(context: Context, node: exp.Expr) -> Value:
    value, pattern = context.translate(node.this), context.translate(node.expression)
    for one in (value, pattern):
        if one.type not in (TEXT, NULL):
            raise context.refused(node, f"LIKE compares text, not {name_of(one.type)}; CAST it to nvarchar(max)")
    found = _matches(context, node, value, pattern)
    return strict("(NOT {0})", BIT, found) if node.args.get("negate") else found


def _matches(context: Context, node: exp.Expr, value: Value, pattern: Value) -> Value:
    if isinstance(pattern.constant, str) and "[" in pattern.constant:
        regex = f"{_flags(context)}\\A{_regex(context, node, pattern.constant)}\\z"
        return strict("({0} RLIKE {1})", BIT, value, Value(text(regex), TEXT))
    ignoring = context.settings.string_comparison == "ignore_case"
    template = "(lower({0}) LIKE lower({1}))" if ignoring else "({0} LIKE {1})"
    if isinstance(pattern.constant, str):
        return strict(template, BIT, value, Value(text(pattern.constant.replace("\\", "\\\\")), TEXT))
    # a class in brackets has no meaning to Spark
    plain = strict("if(contains({0}, '['), NULL, replace({0}, '\\\\', '\\\\\\\\'))", TEXT, pattern)
    what = "LIKE: a pattern that is no literal must have no ["
    return context.failing(node, strict(template, BIT, value, plain), what, f"contains({pattern.sql}, '[')", pattern)


def _patindex(call: Call) -> Value:
    """Without a % in front the pattern must match at the beginning, without one behind it at the end."""
    pattern = call.constant(0, "the pattern")
    body = pattern.strip("%")
    start = "" if pattern.startswith("%") else "\\A"
    end = "" if pattern.endswith("%") else "\\z"
    regex = f"{_flags(call.context)}{start}{_regex(call.context, call.node, body)}{end}"
    return strict("CAST(regexp_instr({0}, {1}) AS BIGINT)", BIGINT, filled(call.text(1)), Value(text(regex), TEXT))


def _regexmatch(call: Call) -> Value:
    pattern = call.constant(1, "the pattern")
    try:
        with warnings.catch_warnings(action="ignore"):  # of signs that later versions of Python may give a meaning
            re.compile(pattern)
    except re.error as error:
        raise call.refused(f"'{pattern}' is no regular expression: {error}", 1) from None
    # case is ignored; a dot takes line ends, and $ stands before a last line feed alone
    regex = f"(?isd){_classes(pattern)}"
    return strict("CAST(regexp_instr({0}, {1}) AS BIGINT)", BIGINT, filled(call.text(0)), Value(text(regex), TEXT))


def _flags(context: Context) -> str:
    return "(?isu)" if context.settings.string_comparison == "ignore_case" else "(?s)"


def _regex(context: Context, node: exp.Expr, pattern: str) -> str:
    """``%``, ``_``, ``[a-c]`` and ``[^a-c]``; everything else stands for itself."""
    parts = []
    for part in re.findall(r"\[\^?[^\]]+\]|.", pattern, re.DOTALL):
        if len(part) > 1:
            negated, content = ("^", part[2:-1]) if part[1] == "^" and len(part) > 3 else ("", part[1:-1])
            parts.append(f"[{negated}{re.sub(r'[^-A-Za-z0-9]', _escaped, content)}]")
        elif part == "[":
            raise context.refused(node, f"'{pattern}' has a [ without its ]; write [[] for the character")
        else:
            parts.append({"%": ".*", "_": "."}.get(part) or re.sub(r"[^A-Za-z0-9]", _escaped, part))
    return "".join(parts)


def _escaped(found: re.Match[str]) -> str:
    return f"\\x{{{ord(found[0]):X}}}"


def _classes(pattern: str) -> str:
    """The pattern with ``[`` and ``&`` escaped in its classes, where they have a meaning in Java alone."""
    inside, result = False, ""
    for part in re.findall(r"\\.|.", pattern, re.DOTALL):
        if inside and part in "[&":
            part = f"\\{part}"
        elif part in "[]":
            inside = part == "["
        result += part
    return result


OPERATORS: dict[type[exp.Expr], Operator] = {exp.Like: _like}
FUNCTIONS = {"PATINDEX": Function(_patindex, 2, 2), "REGEXMATCH": Function(_regexmatch, 2, 2)}
