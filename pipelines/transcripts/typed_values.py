"""Values of a transcript as values of their column's type: what fits exactly is taken, the rest refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.columns import under_their_names
from pipelines.ingest.values import one as ingested
from pipelines.ingest.values import type_name as name_of
from pipelines.lakehouse.schema import arrow_type


def typed(value: object, type_name: str, *, truncate: bool = False) -> object:
    """``value`` as a value of the Spark type ``type_name`` (lower case); ValueError if it does not fit.

    TIMESTAMP is text and becomes microseconds as ``int`` (``truncate`` cuts digits beyond the sixth), DATE becomes
    :class:`date`, DECIMAL :class:`Decimal`, BINARY the UTF-8 bytes; null fits everywhere. Unlike in ingest, text is no
    number and a number is no text.
    """
    return _typed(value, arrow_type(type_name), truncate)


def _typed(value: Any, kind: pa.DataType, truncate: bool) -> object:
    if value is None:
        return None
    classes: Any = _classes(kind)
    if not isinstance(value, classes) or (isinstance(value, bool) and classes != (bool,)):
        hint = "; write it in quotes" if classes == (str,) else ""
        raise ValueError(f"{value!r} is not a {name_of(kind)}{hint}")
    if pa.types.is_binary(kind):
        return value.encode()
    if pa.types.is_list(kind):
        return [_typed(item, kind.value_type, truncate) for item in value]
    if pa.types.is_map(kind):
        pairs = ((_typed(key, kind.key_type, False), item) for key, item in value.items())
        return {key: _typed(item, kind.item_type, truncate) for key, item in pairs}
    if pa.types.is_struct(kind):
        fields = {field.name: field.type for field in kind}
        value = under_their_names(value, fields)
        for key in value:
            if key not in fields:
                raise ValueError(f"the STRUCT has no field '{key}'")
        return {name: _typed(value.get(name), field, truncate) for name, field in fields.items()}
    found = ingested(str(value) if pa.types.is_decimal(kind) else value, kind, truncate=truncate)
    if pa.types.is_floating(kind):
        if isinstance(value, int) and int(found) != value:
            raise ValueError(f"{value} has more digits than {name_of(kind)} can contain")
        return float(np.float32(found)) if kind.bit_width == 32 else found
    return found


def _classes(kind: pa.DataType) -> tuple[type, ...]:
    """What a transcript may write for a value of that type."""
    if pa.types.is_boolean(kind):
        return (bool,)
    if pa.types.is_integer(kind):
        return (int,)
    if pa.types.is_floating(kind):
        return (int, float)
    if pa.types.is_decimal(kind):
        return (int, float, str)
    if pa.types.is_list(kind):
        return (list,)
    return (dict,) if pa.types.is_nested(kind) else (str,)
