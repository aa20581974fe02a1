"""What ingest keeps of a day is what Spark's first pass would have found, and it is kept of the days it says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipelines.batch import engine
from pipelines.batch.stream_analytics.watermarks import statistics
from pipelines.core.model import EVERYTHING, Job
from pipelines.core.time import DAY, HOUR, MINUTE, SECOND, format_instant, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse.cache.facts import KeptFacts
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan import watermark_strategy
from pipelines.plan.watermark_stats import NOTHING, Asked, Fact, Recalled, asked_of
from pipelines.replay.builder import make_plan
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    # the gateway to the JVM leaves its sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

MIDNIGHT_US = parse_instant("1970-01-01T00:00:00Z")
FIRST = MIDNIGHT_US // DAY - 1


def job(
    window: str = "tumbling: {size: 1m}",
    ordering: str = "early_arrival: 5m, late_arrival: 2m, out_of_order: 10s",
    over: str = "[]",
    at: str = "at",
) -> Job:
    return parse_job(f"""
tailrace: 1
job: readings
profile: stream_analytics
inputs: {{readings: {{columns: "at TIMESTAMP, k STRING, told STRING", timestamp_by: {at}, over: {over}}}}}
ordering: {{{ordering}, action: adjust}}
query: {{from: readings, group_by: [k], window: {{{window}}}, aggregates: {{n: count(*)}}}}
keep_verdicts: exceptions
""")


JOBS = {
    "adjust": job(),
    "no guard": job(ordering="early_arrival: off, late_arrival: 2m, out_of_order: 0s"),
    "unbounded": job(ordering="early_arrival: 5m, late_arrival: unbounded, out_of_order: 10s"),
    "over": job(over="[k]"),
    "a grid beside the epoch": job("hopping: {size: 20s, hop: 1m, offset: 7s}"),
    "no cells": job("session: {timeout: 1m, max_duration: 5m}"),
}


def records(days: Sequence[int], events: int, seed: int = 3, first: int = 0) -> list[dict[str, Any]]:
    """On both sides of a midnight before which times are negative; times on and around every bound, some null."""
    chance = random.Random(seed)
    rows = []
    for day in days:
        for index in range(events):
            arrival_us = day * DAY + index * DAY // events + chance.choice([0, 1])
            ago_us = chance.choice([0, 1, 10 * SECOND, 119 * SECOND, 2 * MINUTE, HOUR, -SECOND, -5 * MINUTE])
            at_us = arrival_us - ago_us + chance.choice([-1, 0, 0, 1])
            row = {"arrival_time": format_instant(arrival_us), "input_partition": index % 2, "sequence": first}
            first += 1
            if index % 50 == 49:
                rows.append({**row, "kind": "punctuation", "punctuation_time": format_instant(arrival_us)})
                continue
            at = None if chance.random() < 0.05 else format_instant(at_us)
            rows.append({**row, "at": at, "told": at, "k": chance.choice(["x", "y", None])})
    return rows


def put(lakehouse: Path, asked: Job, rows: Sequence[dict[str, Any]]) -> None:
    file = lakehouse.parent / f"{lakehouse.name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert ingest(asked, "readings", [file], lakehouse).quarantined == 0


def recalled(lakehouse: Path, asked: Job) -> Recalled:
    """What a replay of everything is told."""
    kept = KeptFacts(Lakehouse.at(lakehouse), make_plan(asked, EVERYTHING, Lakehouse.at(lakehouse)))
    return kept.recall("readings", asked_of(asked, "readings", in_cells=watermark_strategy.cell_of(asked) is not None))


def days_kept(lakehouse: Path, asked: Job) -> list[int]:
    return [day - FIRST for day in sorted(recalled(lakehouse, asked).days)]


class Listener:
    """A memory that knows nothing, and hears what was found."""

    found: frozenset[Fact] = frozenset()

    def recall(self, input_name: str, asked: Asked) -> Recalled:
        return NOTHING

    def learn(self, input_name: str, asked: Asked, found: Sequence[Fact]) -> None:
        self.found = frozenset(fact._replace(in_range=0) for fact in found)


@pytest.fixture(autouse=True)
def no_log_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watermark_strategy, "FEW_ROWS", 10)


@pytest.mark.parametrize("name", JOBS)
def test_ingest_finds_what_the_first_pass_of_spark_finds(spark: SparkSession, tmp_path: Path, name: str) -> None:
    asked, lakehouse = JOBS[name], tmp_path / "house"
    put(lakehouse, asked, records([FIRST, FIRST + 1], 400))
    kept = recalled(lakehouse, asked)
    arrivals = spark.read.format("delta").load(Lakehouse.at(lakehouse).uri("arrivals/readings"))
    listener = Listener()
    method = watermark_strategy.choose_strategy(asked, 1000)
    engine.run(asked, {"readings": arrivals}, method=method, memory=listener)
    assert kept.complete
    assert len(kept.each) > 100
    assert frozenset(kept.each) == listener.found


def test_a_first_replay_of_what_was_ingested_has_no_first_pass(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, lakehouse = JOBS["adjust"], tmp_path / "house"
    put(lakehouse, asked, records([FIRST, FIRST + 1], 200))
    with monkeypatch.context() as small:
        small.setattr(watermark_strategy, "FEW_ROWS", 1000)
        expected = replay(asked, EVERYTHING, lakehouse, spark=spark)
    monkeypatch.setattr(statistics, "_found", None)
    found = replay(asked, EVERYTHING, lakehouse, spark=spark)
    assert (expected.plan.method.windows, found.plan.method.windows) == ("window", "first_passage")
    assert found.output_fingerprint == expected.output_fingerprint
    assert found.counts_by_reason == expected.counts_by_reason


def test_a_day_is_passed_over_when_it_ends_or_a_batch_brought_half_of_it(tmp_path: Path) -> None:
    asked, lakehouse = JOBS["adjust"], tmp_path / "house"
    put(lakehouse, asked, records([FIRST, FIRST + 1], 100))
    assert days_kept(lakehouse, asked) == [0, 1]
    # a third of the third day, and then the rest little by little
    whole = records([FIRST + 2], 100, first=200)
    put(lakehouse, asked, whole[:30])
    assert days_kept(lakehouse, asked) == [0, 1, 2]
    for few in (whole[30:50], whole[50:70], whole[70:]):
        put(lakehouse, asked, few)
        assert days_kept(lakehouse, asked) == [0, 1]
    # one event ends it
    put(lakehouse, asked, records([FIRST + 3], 1, first=300))
    assert days_kept(lakehouse, asked) == [0, 1, 2, 3]
    # what an earlier day gets after all is little
    put(lakehouse, asked, [{**records([FIRST + 2], 1, first=301)[0], "input_partition": 7, "sequence": 0}])
    assert days_kept(lakehouse, asked) == [0, 1, 3]


@pytest.mark.parametrize(
    ("asked", "few"), [(job(at="told"), 10), (job(at='"at + INTERVAL 1 SECOND"'), 10), (JOBS["adjust"], 200)]
)
def test_nothing_is_kept_that_replays_will_not_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: Job, few: int
) -> None:
    monkeypatch.setattr(watermark_strategy, "FEW_ROWS", few)
    lakehouse = tmp_path / "house"
    put(lakehouse, asked, records([FIRST, FIRST + 1], 100))
    assert Lakehouse.at(lakehouse).open("facts/readings") is None


def test_days_of_which_nothing_can_be_kept_are_told_and_the_batch_is_in(tmp_path: Path) -> None:
    asked, lakehouse = JOBS["adjust"], tmp_path / "house"
    (lakehouse / "facts").mkdir(parents=True)
    (lakehouse / "facts" / "readings").write_text("in the way")
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in records([FIRST], 100)))
    summary = ingest(asked, "readings", [file], lakehouse)
    assert summary.appended == 100
    (warning,) = summary.warnings
    assert "facts/readings" in warning
