"""Every script of ``tests/scripts`` gives the same rows on all engines, over random arrivals."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.core.model import EVERYTHING, Arrival, Job
from pipelines.core.time import SECOND, parse_instant
from pipelines.job.load import load_job
from pipelines.transcripts import Case, Outcome, run_reference, run_spark
from pipelines.transcripts.read import Expectation
from pipelines.transcripts.stream_engine import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SCRIPTS = {path.stem: path for path in sorted((Path(__file__).parents[1] / "scripts").glob("*.yaml"))}
NOON_US = parse_instant("2026-01-05T12:00:00Z")
TEXTS = ("a", "b", "A19", "ok", "start", "end", "12", "x")
NUMBERS = ("7", "12", "3")
"""The texts of a script that converts each of them by CAST, which ends the run on a text that is no number."""


def value(kind: str, chance: Random, at_us: int, texts: tuple[str, ...]) -> Any:
    """A random value of a Spark type, seldom null."""
    if chance.random() < 0.1:
        return None
    if kind.startswith("array<"):
        return [value(kind[6:-1], chance, at_us, texts) for _ in range(chance.randrange(3))]
    if kind.startswith("map<"):
        inner = kind[4:-1].split(",", 1)[1].strip()
        return {key: value(inner, chance, at_us, texts) for key in ("p", "q")[: chance.randrange(3)]}
    if kind.startswith("struct<"):
        fields = (field.split(":", 1) for field in fields_of(kind[7:-1]))
        return {name.strip().strip("`"): value(inner.strip(), chance, at_us, texts) for name, inner in fields}
    simple = {
        "timestamp": at_us - chance.randrange(60) * SECOND,
        "string": chance.choice(texts),
        "bigint": chance.randrange(4),
        "double": chance.choice([0.5, 1.0, 20.0, 81.0, 2100.0, -3.0, 25000.0]),
    }
    return simple[kind]


def fields_of(body: str) -> list[str]:
    """The fields of a struct's type, cut at the commas outside of brackets."""
    depth, found = 0, [""]
    for letter in body:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def case(name: str) -> Case:
    """A script with 40 random arrivals for each log, and four rows of each of its references."""
    job, chance = load_job(SCRIPTS[name]), Random(name)
    texts = NUMBERS if name == "converted_types" else TEXTS
    arrivals: list[Arrival] = []
    for source in job.inputs:
        if source.same_log_as is not None:
            continue
        at_us = NOON_US
        for number in range(40):
            at_us += chance.choice([0, 1, 7, 20, 60, 300]) * SECOND
            payload = {column.name: value(column.type, chance, at_us, texts) for column in source.columns}
            arrivals.append(Arrival(source.name, number % 2, number // 2, at_us, payload))
    references = {
        one.name: tuple(reference_row(job, one.name, chance, texts) for _ in range(4)) for one in job.references
    }
    return Case(name, None, 1, job, tuple(arrivals), EVERYTHING, Expectation(), references=references)


def reference_row(job: Job, name: str, chance: Random, texts: tuple[str, ...]) -> dict[str, object]:
    """A random row, which holds before the first arrival where the reference has snapshots."""
    reference = job.reference(name)
    row = {column.name: value(column.type, chance, NOON_US, texts) for column in reference.columns}
    return row if reference.effective is None else row | {reference.effective: NOON_US - 60 * SECOND}


def plain(found: object) -> object:
    """Hashable, with floats to nine digits: deviations are rounded differently by design."""
    if isinstance(found, dict):
        return tuple((key, plain(item)) for key, item in found.items())
    if isinstance(found, list | tuple):
        return tuple(map(plain, found))
    return round(found, 9) if isinstance(found, float) else found


def rows(outcome: Outcome) -> dict[str, Counter[object]]:
    """The rows of each output, each with the number of its copies."""
    assert outcome.error is None, outcome.error
    return {name: Counter(map(plain, found)) for name, found in outcome.outputs.items()}


@pytest.fixture(scope="module")
def live(spark: SparkSession) -> dict[str, Outcome]:
    return dict(zip(SCRIPTS, run_stream([case(name) for name in SCRIPTS], spark), strict=True))


@pytest.mark.parametrize("name", SCRIPTS)
def test_engines_agree_on_a_script(name: str, spark: SparkSession, live: dict[str, Outcome]) -> None:
    expected = rows(run_reference(case(name)))
    assert rows(run_spark(case(name), spark)) == expected
    assert rows(live[name]) == expected
