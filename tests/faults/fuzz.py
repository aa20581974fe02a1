"""A byte-level fuzzer: seeds of every format that a user hands in, damaged at random, and the parsers that take them.

A parser gives a value or one of its own errors (a sentence). Anything else is a crash.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from ruamel.yaml import YAML, YAMLError

from pipelines.core.errors import TailraceError
from pipelines.core.time import format_duration, format_instant, parse_duration, parse_instant
from pipelines.ingest.readers import OPTIONAL, ORDER, read_file
from pipelines.ingest.sources.bodies import _FORMATS
from pipelines.ingest.values import convert, convert_arrow
from pipelines.job.expressions import parse_columns
from pipelines.job.load import load_job
from pipelines.lakehouse.schema import arrow_type

ROOT = Path(__file__).parents[2]
COLUMNS = parse_columns(
    "at TIMESTAMP, booth STRING, toll DOUBLE, lane DECIMAL(9,2), tags ARRAY<STRUCT<n: INT>>, d DATE"
)
_TOKENS = [
    *(b"\x00", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\\ud800", b"'", b'"', b"`", b"{", b"}", b"[", b"]", b"(", b")"),
    *(
        b"null",
        b"NaN",
        b"-Infinity",
        b"1e999999999",
        b"-0.0",
        b"9" * 400,
        b"0001-01-01",
        b"9999-12-31T23:59:59.9999999Z",
    ),
    *(
        b"-9223372036854775809",
        b"\r",
        b"\n",
        b",",
        b":",
        b"- ",
        b"*a",
        b"&a ",
        b"!!python/object:os.system ",
        b"--",
        b"/*",
    ),
    *(b"[" * 1000, b"(" * 1000, b"\t", b" CASE WHEN ", b" OVER ", b"${HOME}", b"../", b"<script>", "ß\u202e".encode()),
]


@dataclass(frozen=True)
class Parser:
    """``parse`` may raise ``refusals`` and nothing else."""

    name: str
    seeds: tuple[bytes, ...]
    parse: Callable[[bytes], object]
    refusals: tuple[type[Exception], ...] = (TailraceError,)


def damaged(body: bytes, others: tuple[bytes, ...], chance: Random) -> bytes:
    """``body`` with one to eight bytes, tokens or pieces changed, cut out, put in or repeated."""
    out = bytearray(body)
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(out) + 1)
        match chance.randrange(7):
            case 0 if out:
                out[place % len(out)] = chance.randrange(256)
            case 1:
                del out[place : place + chance.randint(1, 20)]
            case 2:
                out[place:place] = chance.choice(_TOKENS)
            case 3:
                out[place:place] = out[place : place + chance.randint(1, 200)]
            case 4:
                other = chance.choice(others)
                begin = chance.randrange(len(other) + 1)
                out[place:place] = other[begin : begin + chance.randint(1, 100)]
            case 5 if chance.random() < 0.2:
                del out[place:]
            case 6 if out:
                out[place % len(out)] ^= 1 << chance.randrange(8)
    return bytes(out)


def crashes(parser: Parser, seed: int, count: int) -> Iterator[tuple[bytes, Exception]]:
    """What ``count`` damaged inputs make of the parser that it must not."""
    chance = Random(f"{parser.name} {seed}")
    for _ in range(count):
        body = damaged(chance.choice(parser.seeds), parser.seeds, chance)
        try:
            parser.parse(body)
        except parser.refusals as refusal:
            if not str(refusal).strip():
                yield body, refusal
        except Exception as crash:  # whatever else comes is what is looked for
            yield body, crash


def parsers(folder: Path) -> list[Parser]:
    """All of them; files are written to ``folder``."""
    return [
        Parser("job file", _job_files(), _in_file(folder / "job.yaml", load_job)),
        Parser("SQL", _scripts(), _query(folder / "sql.yaml", "sql")),
        Parser("pipeline", _texts("tests/transcripts/atlas", "pipeline"), _query(folder / "pipeline.yaml", "pipeline")),
        Parser("duration", _DURATIONS, lambda body: format_duration(parse_duration(_text(body))), (ValueError,)),
        Parser("instant", _INSTANTS, lambda body: format_instant(parse_instant(_text(body))), (ValueError,)),
        *(
            Parser(f"{kind} file", (body,), _in_file(folder / f"records.{end}", _read))
            for kind, end, body in (
                ("JSON lines", "jsonl", _json_lines()),
                ("CSV", "csv", _csv()),
                ("Parquet", "parquet", _parquet()),
            )
        ),
        *(
            Parser(f"{kind} body", (body,), _FORMATS[kind], (ValueError,))
            for kind, body in (("json", _json_lines().split(b"\n")[0]), ("csv", _csv()), ("avro", _avro()))
        ),
    ]


_DURATIONS = (b"1h30m", b"PT5M", b"-1us", b"P1DT2H3M4.5S", b"250ms", b"0", b"12w", "5µs".encode())
_INSTANTS = (b"2026-01-01T12:07:00Z", b"0001-01-01", b"9999-12-31T23:59:59.999999Z", b"1969-12-31 23:59:59,5+01:00")


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _in_file(path: Path, read: Callable[[Path], object]) -> Callable[[bytes], object]:
    def parse(body: bytes) -> object:
        path.write_bytes(body)
        return read(path)

    return parse


@cache
def _job_files() -> tuple[bytes, ...]:
    found = [path.read_bytes() for path in (ROOT / "pipelines/job/examples").glob("*.yaml")]
    for path in sorted((ROOT / "tests/scripts").glob("*.yaml")):
        job = YAML(typ="safe").load(path)
        job["query"]["sql"] = (path.parent / job["query"]["sql"]).read_text()
        found.append(json.dumps(job).encode())
    for path in sorted((ROOT / "tests/transcripts").rglob("*.yaml"))[::9]:
        for document in path.read_text().split("\n---"):
            try:
                job = YAML(typ="safe").load(document)
            except YAMLError:
                continue
            if isinstance(job, dict) and isinstance(job.get("job"), dict):
                found.append(json.dumps({"tailrace": 1, **job["job"]}, default=str).encode())
    return tuple(found)


def _scripts() -> tuple[bytes, ...]:
    return tuple(path.read_bytes() for path in sorted((ROOT / "tests/scripts").glob("*.asaql")))


@cache
def _texts(folder: str, key: str) -> tuple[bytes, ...]:
    """The queries of the jobs of a folder."""
    return tuple(
        text.encode()
        for path in sorted((ROOT / folder).rglob("*.yaml"))
        for text in _found(list(YAML(typ="safe").load_all(path.read_text())), key)
    )[:60]


def _found(value: object, key: str) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get(key), str):
            yield value[key]
        for one in value.values():
            yield from _found(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from _found(one, key)


def _query(path: Path, key: str) -> Callable[[bytes], object]:
    profile = "atlas" if key == "pipeline" else "stream_analytics"
    columns = "at TIMESTAMP, booth STRING, toll DOUBLE, car STRUCT<make: STRING>, tags ARRAY<INT>"
    job = {
        "tailrace": 1,
        "job": "fuzzed",
        "profile": profile,
        "inputs": {"cars": {"columns": columns, "timestamp_by": "at"}},
    }

    def parse(body: bytes) -> object:
        path.write_text(json.dumps({**job, "query": {key: _text(body)}}))
        return load_job(path)

    return parse


# -- files of records -------------------------------------------------------------------------------------------------

_RECORDS = [
    {
        "arrival_time": f"2026-01-01T12:0{number}:00Z",
        "input_partition": 0,
        "sequence": number,
        "at": "2026-01-01T12:00:00.5+01:00",
        "booth": "süd \u2028",
        "toll": 1.5,
        "lane": "12.25",
        "tags": [{"n": 1}, None],
        "d": "2026-01-01",
    }
    for number in range(9)
]
_PAYLOAD = [column.name for column in COLUMNS]


def _json_lines() -> bytes:
    return "\n".join(json.dumps(one, ensure_ascii=False) for one in _RECORDS).encode()


def _csv() -> bytes:
    lines = [",".join(_RECORDS[0])]
    lines += [",".join('"' + str(one[name]).replace('"', '""') + '"' for name in one) for one in _RECORDS]
    return "\r\n".join(lines).encode()


def _parquet() -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(_RECORDS), sink)
    return sink.getvalue()


def _avro() -> bytes:
    fields = [{"name": name, "type": ["null", "string", "double", "long"]} for name in ("at", "booth", "toll")]
    sink = io.BytesIO()
    schema = {"type": "record", "name": "car", "fields": fields}
    fastavro.writer(sink, schema, [{name: one[name] for name in ("at", "booth", "toll")} for one in _RECORDS])
    return sink.getvalue()


def _read(path: Path) -> None:
    """The records of a file as typed columns: each value is taken, or has a reason."""
    types = pa.schema([(one.name, arrow_type(one.type)) for one in COLUMNS])
    for chunk in read_file(path, (*ORDER, *_PAYLOAD), OPTIONAL):
        for name in _PAYLOAD:
            column, kind = chunk.columns[name], types.field(name).type
            taken, refused = (convert_arrow if isinstance(column, pa.Array) else convert)(column, kind)
            assert len(taken) == len(column)
            taken.validate(full=True)
            assert all(refused.values())
        for index in range(len(chunk.positions)):
            chunk.raw(index)


def main(seed: int, count: int) -> dict[str, int]:
    """Crashes by parser; each is printed."""
    found: dict[str, int] = {}
    with TemporaryDirectory() as folder:
        for parser in parsers(Path(folder)):
            found[parser.name] = 0
            for body, crash in crashes(parser, seed, count):
                found[parser.name] += 1
                if found[parser.name] <= 3:
                    print(f"{parser.name}: {type(crash).__name__}: {str(crash)[:200]}\n    {body[:300]!r}")
    return found
