"""Spark SQL types as text: what arrays, maps and structs are made of.

A struct's fields are written ``name: type`` or ``name type``; a name may be quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pipelines.core.query import Column

_FIELD = re.compile(r"\s*(?:`((?:[^`]|``)+)`|([^`\s:]+))\s*:?\s*(.+?)\s*", re.DOTALL)


def struct_of(columns: Iterable[Column]) -> str:
    """The type of a struct with these fields."""
    fields = (f"`{column.name.replace('`', '``')}`: {column.type}" for column in columns)
    return f"struct<{', '.join(fields)}>"


def fields_of(type_name: str) -> tuple[Column, ...]:
    """The fields of a struct; none of another type."""
    return tuple(map(_field, split_types(type_name[7:-1]))) if type_name.lower().startswith("struct<") else ()


def element_of(type_name: str) -> str:
    """What an array holds, or the values of a map; ``void`` of another type."""
    kind, _, inner = type_name.strip().removesuffix(">").partition("<")
    parts = split_types(inner) if kind.lower() in ("array", "map") else ["void"]
    return parts[-1]


def split_types(inner: str) -> list[str]:
    """``"string,array<map<string,int>>"`` at its outer commas."""
    parts, depth, start, is_quoted = [], 0, 0, False
    for index, character in enumerate(inner):
        is_quoted ^= character == "`"
        if is_quoted:
            continue
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(inner[start:index].strip())
            start = index + 1
    return [*parts, inner[start:].strip()]


def _field(text: str) -> Column:
    match = _FIELD.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a field and its type")
    quoted, plain, type_name = match.groups()
    return Column(plain if quoted is None else quoted.replace("``", "`"), type_name)
