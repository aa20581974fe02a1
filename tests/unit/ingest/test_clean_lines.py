"""JSON lines taken at once are what they are one by one: the same rows, the same refusals, the same counts."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ingest import readers
from pipelines.ingest.clean_lines import clean_lines, divided
from pipelines.ingest.readers import read_file
from pipelines.ingest.values import convert, convert_arrow
from pipelines.lakehouse.schema import arrow_type

TYPES = pa.schema(
    [
        ("b", arrow_type("boolean")),
        ("t", arrow_type("tinyint")),
        ("n", arrow_type("bigint")),
        ("x", arrow_type("double")),
        ("f", arrow_type("float")),
        ("s", arrow_type("string")),
        ("at", arrow_type("timestamp")),
        ("d", arrow_type("date")),
        ("bin", arrow_type("binary")),
        ("a", arrow_type("array<double>")),
        ("o", arrow_type("struct<x: double, at: timestamp, deep: array<string>>")),
    ]
)
NUMBERS = [
    "0",
    "-0",
    "-0.0",
    "1",
    "-1",
    "1.0",
    "1.5",
    "1e3",
    "127",
    "128",
    "9223372036854775807",
    "9223372036854775808",
]
NUMBERS += ["1" + "0" * 400, "0." + "0" * 400 + "1", "1e999", "1.7976931348623159e308", "0.1", "3.4028236e38", "1e-400"]
NO_NUMBERS = ["NaN", "-NaN", "Infinity", "-Infinity", "Inf", "01", "+1", ".5", "1.", "0x1", "1_0", "--1", "-", "nan"]
INSTANTS = ["2026-01-01T12:00:00Z", "2026-01-01 12:00:00", "2026-01-01T12:00:00.123456+00:00", "2026-02-30T00:00:00Z"]
INSTANTS += ["2026-01-01T14:00:00.5-02:30", "2026-01-01", "2026-01-01T12:00Z", "2026-01-01T12:00:00.1234567Z", "noon"]
INSTANTS += ["0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "2026-01-01T24:00:00Z"]
INSTANTS += ["2026-01-01T12:00:00+24:00", "2026-01-01T12:00:60Z", " 2026-01-01T12:00:00Z", "2026-01-01T12:00:00,5Z"]
TEXTS = [r'"\ud83d\ude00"', r'"\ud800"', r'"\udc00"', r'"\u0000"', '"é"', r'"\q"', '"a\tb"', '"\x7f"', '"}"', '"{"']
TEXTS += ['"AAE="', '"?"', '"1.5"', '"true"', '"NaN"', '"x":"', '"[1]"', '""', r'"\""', '"2026-01-31"', '"2026-02-30"']
VALUES = [*NUMBERS, *NO_NUMBERS, *map(json.dumps, INSTANTS), *TEXTS, "null", "true", "false", "tru"]
VALUES += ["[]", "[1.5]", "[null]", "[1, -0]", "[NaN]", '["a"]', "{}", '{"x": 1}', '{"x": "1"}', '{"y": 1}', "[1,]"]
VALUES += [
    '{"x": -0, "at": "2026-01-01", "deep": ["a", null]}',
    '{"x": 1, "x": 1}',
    '{"deep": [1]}',
    "[" * 300 + "]" * 300,
]
KEYS = [*(json.dumps(name) for name in TYPES.names), r'"\u006e"', '"N"', '"other"', '"more"', '""']
PLAIN = {"b": "true", "t": "5", "n": "12", "x": "0.5", "s": '"text"', "at": '"2026-01-01T12:00:00Z"', "other": "1"}

values = st.sampled_from(VALUES)
pairs = st.tuples(st.sampled_from(KEYS), values).map(lambda pair: f"{pair[0]}: {pair[1]}")
hostile = st.lists(pairs, max_size=4).map(lambda found: "{" + ", ".join(found) + "}")
clean = st.dictionaries(st.sampled_from(list(PLAIN)), st.just(None), max_size=6).map(
    lambda keys: "{" + ",".join(f'"{key}":{PLAIN[key]}' for key in keys) + "}"
)
broken = st.sampled_from(
    ['{"n": 1', '{"n": 1} {"n": 2}', '"n": 2}', "[1]", "", " ", "{}x", "x", '{"s": "', '"}', "\ufeff{}"]
)
line = st.one_of(clean, clean, clean, hostile, broken).map(str.encode)
line |= st.sampled_from([b'{"s": "\xff"}', b'{"s": "\xed\xa0\x80"}', b"{}\x00", b"{}\x0b", b'{"n":\r1}'])
files = st.lists(st.tuples(line, st.sampled_from([b"\n", b"\n", b"\r\n", b"\n\n"])), max_size=12).map(
    lambda found: b"".join(part for pair in found for part in pair).removesuffix(b"\n")
)


def _bits(value: Any) -> Any:
    """Doubles by their bits, so that -0 is not 0."""
    if isinstance(value, float):
        return struct.pack(">d", value)
    if isinstance(value, list):
        return [_bits(item) for item in value]
    return {name: _bits(item) for name, item in value.items()} if isinstance(value, dict) else value


def _read(path: Path) -> tuple[list[Any], list[Any], dict[str, int]]:
    """What ingest makes of a file: per record its line, text, values and reasons; refused lines; unknown keys."""
    rows: list[Any] = []
    refused: list[Any] = []
    ignored: dict[str, int] = {}
    for chunk in read_file(path, TYPES.names, types=TYPES):
        columns, reasons = [], []
        for field in TYPES:
            column = chunk.columns[field.name]
            turn = convert_arrow if isinstance(column, pa.Array) else convert
            typed, misfits = turn(column, field.type)
            assert typed.type.equals(field.type)
            columns.append(typed.to_pylist())
            reasons.append(misfits)
        for index, position in enumerate(chunk.positions):
            why = [misfits.get(index) for misfits in reasons]
            rows.append((position, chunk.raw(index), [_bits(column[index]) for column in columns], why))
        refused += [(one.position, one.raw, one.reason) for one in chunk.refused]
        for key, count in chunk.ignored.items():
            ignored[key] = ignored.get(key, 0) + count
    return sorted(rows, key=lambda row: int(row[0])), sorted(refused), ignored


@settings(max_examples=400, deadline=None)
@given(content=files, block=st.sampled_from([1, 60, 1 << 22]))
def test_lines_at_once_are_what_they_are_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, block: int
) -> None:
    path = tmp_path_factory.mktemp("lines") / "file.jsonl"
    path.write_bytes(content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "BLOCK", block)
        found = _read(path)
        patch.setattr(readers, "divided", lambda lines, types: [(lines, None)])
        assert found == _read(path)


@pytest.mark.parametrize("name", TYPES.names)
@pytest.mark.parametrize("value", VALUES)
def test_each_value_in_each_column_is_the_same_at_once(name: str, value: str, tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    path.write_text(f'{{"{name}": {value}, "more": {value}}}\n', encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        found = _read(path)
        patch.setattr(readers, "divided", lambda lines, types: [(lines, None)])
        assert found == _read(path)


def test_missing_keys_nulls_unknown_keys_and_nested_values_are_clean() -> None:
    flat = b'{"n":1,"s":"a","more":null,"at":"2026-01-01"}\n{"n":null,"more" : 2}\r\n{"s":"NaN","x":1}\n'
    found = clean_lines(flat, TYPES)
    assert found is not None
    assert found[0]["n"].to_pylist() == [1, None, None]
    assert found[1] == {"more": 2}
    nested = b'{"o":{"x":1.5},"a":[1],"more":{"y":1}}\n{"a":[],"more":{"y":null}}\n'
    found = clean_lines(nested, TYPES)
    assert found is not None
    assert found[0]["a"].to_pylist() == [[1.0], []]
    assert found[1] == {"more": 2}


def test_one_line_that_is_not_clean_leaves_the_others_clean() -> None:
    lines = b'{"n":1}\n' * 40_000 + b'{"n":"1"}\n' + b'{"n":2}\n' * 40_000
    pieces = list(divided(lines, TYPES))
    assert b"".join(piece for piece, _ in pieces) == lines
    (dirty,) = (piece for piece, found in pieces if found is None)
    assert b'{"n":"1"}' in dirty
    assert len(dirty) < 1 << 16
