"""File values as typed columns: exact, or refused with a reason; never rounded, cut or turned into null silently.

Each column is tried as a whole first, and value by value only where that does not succeed at once; both ways take and
refuse the same. What is taken, by type:

- whole numbers: JSON numbers and text without a fraction (``5.0`` is 5), inside the type's range;
- DOUBLE, FLOAT: finite numbers; ``NaN`` and infinities come from Parquet only, as text they are refused;
- DECIMAL: exactly, never rounded to the scale;
- BOOLEAN: ``true`` and ``false``; STRING: text, and a JSON number or boolean as it was written;
- TIMESTAMP: ISO 8601 with any offset (none: UTC), at most six fractional digits unless cut off on request;
- DATE: ``2026-01-31``; BINARY: base64; ARRAY, MAP, STRUCT: JSON, in CSV as text. Names of properties may be in
  another case; a property that the STRUCT does not have is left out and counted, like a column that the table lacks.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.columns import under_their_names
from pipelines.core.time import DAY, MAX_INSTANT_US, MIN_INSTANT_US, from_datetime, parse_instant
from pipelines.lakehouse.schema import TIMESTAMP


class JsonNumber(str):
    """A JSON number with a fraction or exponent, kept as it was written until its column gives its type."""

    __slots__ = ()


_INTEGER = r"^[+-]?\d{1,18}$"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$"
_NUMBER_PATTERN = re.compile(_NUMBER[1:-1], re.ASCII)
_USUAL_INSTANT = r"^\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?$"
_ZONE = r"(?:Z|[+-]\d{2}:\d{2})$"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
FINE_FRACTION = r"[.,]\d{6}\d*[1-9]"
"""More than six fractional digits that are not all zeros."""

_DAYS = MIN_INSTANT_US // DAY, MAX_INSTANT_US // DAY
"""The first and the last date that tables can hold."""
_GREATEST_FLOAT = float(np.finfo(np.float32).max)
_EXACT = Context(prec=80, traps=[Inexact, InvalidOperation])


def convert(values: Sequence[Any], kind: pa.DataType, *, truncate: bool = False) -> tuple[pa.Array, dict[int, str]]:
    """``values`` as an array of type ``kind``, null where a value did not fit, and the reason by position.

    ``truncate``: cut instants to six fractional digits instead of refusing them.
    """
    whole = _as_a_whole(values, kind)
    return (whole, {}) if whole is not None else _one_by_one(values, kind, truncate)


def _one_by_one(values: Iterable[Any], kind: pa.DataType, truncate: bool) -> tuple[pa.Array, dict[int, str]]:
    good: list[Any] = []
    refused: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            good.append(None if value is None else one(value, kind, truncate=truncate))
        except ValueError as error:
            good.append(None)
            refused[index] = str(error)
    return pa.array(good, kind), refused


def convert_arrow(column: pa.Array, kind: pa.DataType, *, truncate: bool = False) -> tuple[pa.Array, dict[int, str]]:
    """As :func:`convert`, for a column that is typed already (Parquet, clean JSON lines)."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    sound = _is_sound(column)
    if sound and column.type.equals(kind):
        return column, {}
    if pa.types.is_timestamp(column.type) and kind.equals(TIMESTAMP):
        return _instants(column, truncate)
    if sound and pa.types.is_string(column.type) and kind.equals(TIMESTAMP):
        return _instants_of_text(column, truncate)
    if pa.types.is_float64(column.type) and pa.types.is_float32(kind):
        size = np.abs(column.drop_null().to_numpy(zero_copy_only=False))
        if not (np.isfinite(size) & (size > _GREATEST_FLOAT)).any():
            return column.cast(kind), {}
    widening = (pa.types.is_integer(column.type) and pa.types.is_integer(kind)) or (
        pa.types.is_large_string(column.type) and pa.types.is_string(kind)
    )
    if sound and widening:
        try:
            return column.cast(kind), {}
        except pa.ArrowInvalid:
            pass
    return convert(_python_values(column), kind, truncate=truncate)


def _is_sound(column: pa.Array) -> bool:
    """Is all text UTF-8, and are all instants (of microseconds) and dates inside the years 1 to 9999? A file may have
    others."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    for leaf in _leaves(column):
        if pa.types.is_date32(leaf.type) or leaf.type.equals(TIMESTAMP):
            bounds = (MIN_INSTANT_US, MAX_INSTANT_US) if leaf.type.equals(TIMESTAMP) else _DAYS
            ends = pc.min_max(leaf.cast(pa.int64() if leaf.type.equals(TIMESTAMP) else pa.int32())).as_py()
            if ends["min"] is not None and not bounds[0] <= ends["min"] <= ends["max"] <= bounds[1]:
                return False
    return True


def _leaves(column: pa.Array) -> Iterator[pa.Array]:
    """The arrays that a nested one is made of."""
    if pa.types.is_struct(column.type):
        for index in range(column.type.num_fields):
            yield from _leaves(column.field(index))
    elif pa.types.is_map(column.type):
        yield from _leaves(column.keys)
        yield from _leaves(column.items)
    elif pa.types.is_list(column.type):
        yield from _leaves(column.values)
    else:
        yield column


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """A value of a file that is none of its own type."""

    reason: str


def _python_values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = column.cast(pa.timestamp("us", column.type.tz), safe=False)
    try:
        values: list[Any] = column.to_pylist()
    except (OverflowError, ValueError):
        return [_readable(scalar) for scalar in column]
    return values


def _readable(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except UnicodeDecodeError:
        return _Unreadable("is not UTF-8 text")
    except (OverflowError, ValueError):
        return _Unreadable("is outside the years 1 to 9999")


def _instants(column: pa.Array, truncate: bool) -> tuple[pa.Array, dict[int, str]]:
    """Instants of any unit as microseconds; one without a zone is UTC."""
    absent = column.is_null().to_numpy(zero_copy_only=False)
    ticks = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    refused: dict[int, str] = {}
    if column.type.unit == "ns":
        micros = ticks // 1000
        if not truncate:
            refused = {int(i): "has more than six fractional digits" for i in np.flatnonzero(micros * 1000 != ticks)}
    else:
        factor = {"s": 1_000_000, "ms": 1_000, "us": 1}[column.type.unit]
        outside = (ticks < MIN_INSTANT_US // factor) | (ticks > MAX_INSTANT_US // factor)
        refused = {int(i): "is outside the years 1 to 9999" for i in np.flatnonzero(outside)}
        micros = np.where(outside, 0, ticks) * factor
    if refused:
        absent = absent.copy()
        absent[list(refused)] = True
    return pa.array(micros, pa.int64(), mask=absent).cast(TIMESTAMP), refused


# -- a column at once ---------------------------------------------------------------------------------------------


def _as_a_whole(values: Sequence[Any], kind: pa.DataType) -> pa.Array | None:
    """The whole column where every value obviously fits, else None. Arrow alone would cut 1.5 to 1 and true to 1.0."""
    kinds = set(map(type, values)) - {type(None)}
    try:
        if not kinds:
            return pa.nulls(len(values), kind)
        if pa.types.is_string(kind):
            return pa.array(values, kind) if kinds == {str} else None
        if pa.types.is_boolean(kind):
            return pa.array(values, kind) if kinds == {bool} else None
        if pa.types.is_integer(kind):
            return _integers(values, kinds, kind)
        if pa.types.is_float64(kind):
            return _doubles(values, kinds, kind)
        if kind.equals(TIMESTAMP) and kinds == {str}:
            text = pa.array(values, pa.string())
            return _usual_instants(text) if _all_match(text, _USUAL_INSTANT) else None
    except (pa.ArrowException, OverflowError, ValueError):
        return None
    return None


def _integers(values: Sequence[Any], kinds: set[type], kind: pa.DataType) -> pa.Array | None:
    if kinds == {int}:
        return pa.array(values, kind)
    if kinds == {str}:
        text = pa.array(values, pa.string())
        return pc.utf8_ltrim(text, "+").cast(pa.int64()).cast(kind) if _all_match(text, _INTEGER) else None
    return None


def _doubles(values: Sequence[Any], kinds: set[type], kind: pa.DataType) -> pa.Array | None:
    if kinds == {str}:
        text = pa.array(values, pa.string())
        if not _all_match(text, _NUMBER):
            return None
    elif not kinds <= {int, float, JsonNumber}:
        return None
    result = pa.array([None if value is None else float(value) for value in values], kind)
    return result if pc.all(pc.is_finite(result)).as_py() else None


def _instants_of_text(text: pa.Array, truncate: bool) -> tuple[pa.Array, dict[int, str]]:
    """Instants as they are usually written at once, the others one by one."""
    usual = pc.match_substring_regex(text, _USUAL_INSTANT)
    all_usual = pc.all(usual).as_py() is not False
    instants = _usual_instants(text if all_usual else pc.if_else(usual, text, None))
    if instants is None:
        return _one_by_one(text.to_pylist(), TIMESTAMP, truncate)
    if all_usual:
        return instants, {}
    unusual = pc.fill_null(pc.invert(usual), False)
    places = np.flatnonzero(unusual)
    others, refused = _one_by_one(text.filter(unusual).to_pylist(), TIMESTAMP, truncate)
    return pc.replace_with_mask(instants, unusual, others), {int(places[at]): why for at, why in refused.items()}


def _usual_instants(text: pa.Array) -> pa.Array | None:
    """Instants that are all written as :data:`_USUAL_INSTANT`, or null; None if one of them does not exist."""
    try:
        instants = text.cast(TIMESTAMP)
    except pa.ArrowInvalid:
        has_zone = pc.match_substring_regex(text, _ZONE)
        try:
            instants = pc.if_else(has_zone, text, pc.binary_join_element_wise(text, "Z", "")).cast(TIMESTAMP)
        except pa.ArrowInvalid:
            return None
    # Arrow knows a year 0, which tables cannot store
    ends = pc.min_max(instants.cast(pa.int64())).as_py()
    inside = ends["min"] is None or (ends["min"] >= MIN_INSTANT_US and ends["max"] <= MAX_INSTANT_US)
    return instants if inside else None


def _all_match(text: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(text, pattern)).as_py())


# -- one value ----------------------------------------------------------------------------------------------------


def one(value: Any, kind: pa.DataType, *, truncate: bool = False) -> Any:
    """``value`` as the Python value of type ``kind``; ValueError with the reason if it does not fit."""
    if value is None:
        return None
    if isinstance(value, _Unreadable):
        raise ValueError(value.reason)
    if pa.types.is_string(kind):
        return _text(value)
    if pa.types.is_boolean(kind):
        return _boolean(value)
    if pa.types.is_integer(kind):
        return _integer(value, kind)
    if pa.types.is_floating(kind):
        return _double(value, kind)
    if pa.types.is_decimal(kind):
        return _decimal(value, kind)
    if kind.equals(TIMESTAMP):
        return _instant(value, truncate)
    if pa.types.is_date(kind):
        return _date(value)
    if pa.types.is_binary(kind):
        return _binary(value)
    return _nested(value, kind, truncate)


def _misfit(value: Any, kind: pa.DataType) -> ValueError:
    return ValueError(f"{_shown(value)} does not fit {type_name(kind)}")


def _shown(value: Any) -> str:
    if isinstance(value, JsonNumber):
        text = str(value)
    elif isinstance(value, str):
        text = f"'{value}'"
    elif isinstance(value, (dict, list, bool)):
        text = json.dumps(value, default=str)
    else:
        text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def type_name(kind: pa.DataType) -> str:
    """How users write the type."""
    names = {"int8": "TINYINT", "int16": "SMALLINT", "int32": "INT", "int64": "BIGINT", "bool": "BOOLEAN"}
    if kind.equals(TIMESTAMP):
        return "TIMESTAMP"
    if pa.types.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    if pa.types.is_date(kind):
        return "DATE"
    if pa.types.is_nested(kind):
        return "ARRAY" if pa.types.is_list(kind) else "MAP" if pa.types.is_map(kind) else "STRUCT"
    return names.get(str(kind), str(kind).upper())


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("has half of a surrogate pair, which is no text") from None
        return str(value)
    if isinstance(value, int):
        return str(value)
    raise _misfit(value, pa.string())


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise _misfit(value, pa.bool_())


def _number(value: Any, kind: pa.DataType) -> Decimal:
    """Any number exactly."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str, Decimal)):
        raise _misfit(value, kind)
    if isinstance(value, str) and not _NUMBER_PATTERN.fullmatch(value.strip()):
        raise _misfit(value, kind)
    number = Decimal(value.strip() if isinstance(value, str) else value)
    if not number.is_finite():
        raise _misfit(value, kind)
    return number


def _integer(value: Any, kind: pa.DataType) -> int:
    number = _number(value, kind)
    bound = 2 ** (kind.bit_width - 1)
    # the bound first: 1e999999999 is a number too, but no one wants it written out
    if not -bound <= number < bound or number != number.to_integral_value():
        raise _misfit(value, kind)
    return int(number)


def _double(value: Any, kind: pa.DataType) -> float:
    if isinstance(value, float):
        result = value  # typed in the file: NaN and infinities are values of the file
        overflown = False
    else:
        _number(value, kind)
        try:
            result = float(value)
        except OverflowError:
            raise _misfit(value, kind) from None
        overflown = math.isinf(result)
    if overflown or (kind.bit_width == 32 and math.isfinite(result) and abs(result) > _GREATEST_FLOAT):
        raise _misfit(value, kind)
    return result


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    number = _number(value, kind)
    if number and number.adjusted() >= kind.precision - kind.scale:
        raise _misfit(value, kind)
    try:
        return number.quantize(Decimal(1).scaleb(-kind.scale), context=_EXACT)
    except (Inexact, InvalidOperation):
        raise _misfit(value, kind) from None


def _instant(value: Any, truncate: bool) -> int:
    if isinstance(value, datetime):
        return from_datetime(value)
    if isinstance(value, date):
        return parse_instant(value.isoformat())
    if not isinstance(value, str) or isinstance(value, JsonNumber):
        raise _misfit(value, TIMESTAMP)
    return parse_instant(value, truncate=truncate)


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            pass
    raise _misfit(value, pa.date32())


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            pass
    raise _misfit(value, pa.binary())


def _nested(value: Any, kind: pa.DataType, truncate: bool) -> Any:
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except ValueError:
            raise _misfit(value, kind) from None
    if pa.types.is_list(kind) and isinstance(value, list):
        return [one(item, kind.value_type, truncate=truncate) for item in value]
    if pa.types.is_map(kind):
        pairs: Iterable[tuple[Any, Any]] | None = None
        if isinstance(value, dict):
            pairs = value.items()
        elif isinstance(value, list) and all(isinstance(item, tuple) for item in value):
            pairs = value
        if pairs is not None:
            return [
                (one(key, kind.key_type, truncate=truncate), one(item, kind.item_type, truncate=truncate))
                for key, item in pairs
            ]
    if pa.types.is_struct(kind) and isinstance(value, dict):
        names = [kind.field(index).name for index in range(kind.num_fields)]
        if not value.keys() <= set(names):
            value = under_their_names(value, names)
        return {name: one(value.get(name), kind.field(name).type, truncate=truncate) for name in names}
    raise _misfit(value, kind)


def undeclared(values: Iterable[Any], kind: pa.DataType, name: str) -> Counter[str]:
    """In how many of ``values`` each property occurs that a STRUCT inside ``kind`` does not have, by its path below
    ``name``."""
    found = Counter[str]()
    if pa.types.is_nested(kind):
        for value in values:
            found.update(set(_undeclared(value, kind, name)))
    return found


def _undeclared(value: Any, kind: pa.DataType, path: str) -> Iterator[str]:
    if not pa.types.is_nested(kind):
        return
    if isinstance(value, str):
        try:
            value = decode_json(value)
        except ValueError:
            return
    if pa.types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: field.type for field in kind.fields}
        for key, item in under_their_names(value, fields).items():
            if key in fields:
                yield from _undeclared(item, fields[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}"
    elif pa.types.is_list(kind) and isinstance(value, list):
        for item in value:
            yield from _undeclared(item, kind.value_type, path)
    elif pa.types.is_map(kind) and isinstance(value, dict):
        for item in value.values():
            yield from _undeclared(item, kind.item_type, path)


# -- JSON ---------------------------------------------------------------------------------------------------------


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key '{twice}' occurs twice")
    return result


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=JsonNumber, parse_constant=_constant)


def decode_json(text: str) -> Any:
    """One JSON value, numbers exact; ValueError also for ``NaN``, keys that occur twice and bottomless nesting."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ValueError("nested too deeply") from None
