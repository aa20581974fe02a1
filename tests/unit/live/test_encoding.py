"""The encoding of the saved state: what it gives back, and what it refuses. Nothing in it can run."""

from __future__ import annotations

import ast
import math
import pickle
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from test_state import JOB, Stream, cars, job

from pipelines.core.errors import DataRefused, JobFileError
from pipelines.core.time import SECOND
from pipelines.live.engine import LiveEngine
from pipelines.live.saved import ENCODING
from pipelines.live.spark.operator import run_batch
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.encoding import Encoding, NotOurEncoding
from pipelines.live.state.rows import Row

ROOT = Path(__file__).parents[3]
UNSAFE = {"pickle", "cPickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}


def again(value: Any) -> Any:
    return ENCODING.decode(ENCODING.encode(value), CompiledJob(JOB))


def test_nothing_of_the_product_imports_a_module_that_runs_what_it_reads() -> None:
    for file in [path for folder in ("pipelines", "assets", "resources") for path in (ROOT / folder).rglob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text())):
            names = [one.name for one in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            found = {part for name in names for part in name.split(".")} & UNSAFE
            assert not found, f"{file} imports {found}"


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        "\ud800 \x00 ä",
        (1, (2.5, None), ["a", {"b": (3,)}]),
        {(1, "a"): frozenset({1, 2}), None: {"x"}},
        Decimal("1.500"),
        date(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        timedelta(days=-1, microseconds=3),
        b"\x00\xff",
        [math.inf, -math.inf, 5e-324],
        Row(1, (1, 2), (None,), ("g",), missed=(3,)),
    ],
)
def test_values_come_back_as_they_were(value: object) -> None:
    assert again(value) == value
    assert type(again(value)) is type(value)


def test_nan_and_the_sign_of_zero_come_back() -> None:
    nan, zero = again([math.nan, -0.0])
    assert math.isnan(nan)
    assert math.copysign(1, zero) == -1


def test_tables_and_errors_come_back() -> None:
    table = pa.table({"a": pa.array([1, None], pa.int32()), "b": [[{"c": 1.5}], None]})
    assert again(table).equals(table)
    error = again(JobFileError("wrong", hint="write it right", file="a.yml", line=3, key="query"))
    assert str(error) == "a.yml:3: query: wrong; write it right"


def test_one_object_in_two_places_is_one_object_again() -> None:
    row, shared = Row(1, (), (), ()), {"a": 1}
    first, second, third, fourth = again([row, row, shared, shared])
    assert first is second
    assert third is fourth


def test_a_class_that_is_not_listed_is_not_written() -> None:
    with pytest.raises(TypeError, match="PosixPath"):
        ENCODING.encode([Path("a")])


class Evil:
    ran = False

    def __reduce__(self) -> Any:
        return setattr, (Evil, "ran", True)


@pytest.mark.parametrize(
    "planted", [pickle.dumps(Evil()), pickle.dumps(LiveEngine.new(JOB)), b"", b"{}", ENCODING.encode({"a": 1})]
)
def test_a_planted_state_is_refused_and_nothing_of_it_runs(planted: bytes) -> None:
    saved: list[bytes] = []
    output = run_batch(planted, JOB, [], saved.append)
    assert isinstance(output.error, DataRefused)
    assert "saved state of the stream of tolls" in str(output.error)
    assert "--restart" in str(output.error)
    assert not saved
    assert not Evil.ran


def test_state_of_other_classes_is_refused() -> None:
    older = Encoding([Row])
    with pytest.raises(NotOurEncoding, match="schema"):
        ENCODING.decode(older.encode(Row(1, (), (), ())), CompiledJob(JOB))


def test_a_damaged_state_is_refused_or_a_state_and_never_another_error() -> None:
    chance = Random(7)
    stream = Stream(job("stream_insight", "advance: {every: 5}, action: drop", "count: {n: 3}"))
    stream.batch(cars(0, 50, (0, SECOND)))
    for _ in range(2000):
        damaged = bytearray(stream.saved[-1])
        for _ in range(chance.randint(1, 3)):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        if chance.random() < 0.2:
            del damaged[chance.randrange(len(damaged)) :]
        with suppress(NotOurEncoding):
            ENCODING.decode(bytes(damaged), CompiledJob(stream.job))
