"""Values of a transcript, typed by the column they stand in: what fits exactly is taken, the rest refused."""

from __future__ import annotations

import struct
from datetime import date
from decimal import Decimal, InvalidOperation

from pipelines.core.time import parse_instant
from pipelines.core.types import fields_of, split_types

_WHOLE = {"tinyint": 8, "byte": 8, "smallint": 16, "short": 16, "int": 32, "integer": 32, "bigint": 64, "long": 64}


def typed(value: object, type_name: str, *, truncate: bool = False) -> object:
    """``value`` as a column of Spark type ``type_name`` (lower case) holds it; ValueError if it does not fit.

    TIMESTAMP is text and becomes microseconds as ``int`` (``truncate`` cuts digits beyond the sixth), DATE becomes
    :class:`date`, DECIMAL :class:`Decimal`, BINARY the UTF-8 bytes; null fits everywhere.
    """
    if value is None:
        return None
    if type_name in _WHOLE:
        return _whole(value, type_name)
    if type_name.startswith(("decimal", "numeric")):
        return _decimal(value, type_name)
    if type_name.startswith(("array<", "map<", "struct<")):
        return _nested(value, type_name, truncate)
    match type_name:
        case "timestamp" | "timestamp_ltz":
            return parse_instant(_text(value, type_name), truncate=truncate)
        case "string":
            return _text(value, type_name)
        case "double":
            return _double(value, type_name)
        case "float" | "real":
            return float(struct.unpack("f", struct.pack("f", _double(value, type_name)))[0])
        case "boolean" if isinstance(value, bool):
            return value
        case "date":
            return date.fromisoformat(_text(value, type_name))
        case "binary":
            return _text(value, type_name).encode()
    raise ValueError(f"{value!r} is not a {type_name.upper()}")


def _text(value: object, type_name: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a {type_name.upper()}; write it in quotes")
    return value


def _whole(value: object, type_name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a {type_name.upper()}")
    half = 1 << (_WHOLE[type_name] - 1)
    if not -half <= value < half:
        raise ValueError(f"{value} is too large for {type_name.upper()}")
    return value


def _double(value: object, type_name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a {type_name.upper()}")
    if isinstance(value, int) and int(float(value)) != value:
        raise ValueError(f"{value} has more digits than {type_name.upper()} holds")
    return float(value)


def _decimal(value: object, type_name: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{value!r} is not a {type_name.upper()}")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise ValueError(f"{value!r} is not a {type_name.upper()}") from None
    inner = type_name.partition("(")[2].rstrip(")").split(",") if "(" in type_name else ["10", "0"]
    precision, scale = int(inner[0]), int(inner[1]) if len(inner) > 1 else 0
    if not number.is_finite() or number != (exact := number.quantize(Decimal(1).scaleb(-scale))):
        raise ValueError(f"{value!r} does not fit {type_name.upper()}")
    if len(exact.as_tuple().digits) > precision and exact != 0:
        raise ValueError(f"{value!r} does not fit {type_name.upper()}")
    return exact


def _nested(value: object, type_name: str, truncate: bool) -> object:
    kind, inner = type_name[:-1].split("<", 1)
    if kind == "array" and isinstance(value, list):
        return [typed(item, inner, truncate=truncate) for item in value]
    if kind == "map" and isinstance(value, dict):
        key_type, value_type = split_types(inner)
        return {typed(key, key_type): typed(item, value_type, truncate=truncate) for key, item in value.items()}
    if kind == "struct" and isinstance(value, dict):
        fields = {field.name: field.type for field in fields_of(type_name)}
        for key in value:
            if key not in fields:
                raise ValueError(f"{type_name.upper()} has no field '{key}'")
        return {name: typed(value.get(name), field, truncate=truncate) for name, field in fields.items()}
    raise ValueError(f"{value!r} is not a {type_name.upper()}")
