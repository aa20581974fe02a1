"""Every figure of ``tune`` equals that of an independent model: real departures, and random logs of other profiles."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tune_model import Decided, Event, Model, Windows, atlas, stream_analytics, stream_insight, truth

from pipelines.core.intervals import parse_range
from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import HOUR, MINUTE, format_instant, parse_duration, parse_instant
from pipelines.demo.departures import write_arrival_log
from pipelines.ingest.batch import ingest
from pipelines.job.load import load_job, parse_job
from pipelines.tune.run import tune

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

DEPARTURES = load_job(Path(__file__).parents[2] / "pipelines/job/examples/departures_per_hour.yaml")


def columns_of(table: pa.Table, *names: str) -> list[list[Any]]:
    """Columns of a table, instants as microseconds."""
    found = (table[name] for name in names)
    return [(one.cast(pa.int64()) if pa.types.is_timestamp(one.type) else one).to_pylist() for one in found]


def departures_model(table: pa.Table, output: OutputRange) -> Model:
    names = ("input_partition", "arrival_time", "scheduled", "origin", "carrier", "delay_minutes")
    log = [
        Event(partition, arrival_us, time_us, None, (origin, carrier, delay))
        for partition, arrival_us, time_us, origin, carrier, delay in zip(*columns_of(table, *names), strict=True)
    ]

    def aggregates(payloads: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
        delays = [delay for _, _, delay in payloads]
        # delays are whole minutes, so that their sum is exact
        return {
            "departures": len(delays),
            "mean_delay": sum(delays) / len(delays),
            "longest_delay": max(delays),
        }

    return within(
        Model(log, Windows(HOUR, HOUR, ends_inside=True), lambda row: row[:2], aggregates, frozenset({"departures"})),
        output,
    )


def within(model: Model, output: OutputRange) -> Model:
    from_us = model.from_us if output.from_us is None else output.from_us
    return replace(model, from_us=from_us, to_us=model.to_us if output.to_us is None else output.to_us)


def test_every_figure_of_two_days_of_departures_is_that_of_the_model(tmp_path: Path, spark: SparkSession) -> None:
    output = parse_range("2013-01-03T06:00:00Z", "2013-01-05T06:00:00Z")
    compare_departures(("2013-01-01", "2013-01-07"), output, (["5m", "1h"], ["0s", "2m"], ["5m"]), tmp_path, spark)


@pytest.mark.slow
@pytest.mark.usefixtures("as_a_replay")
@pytest.mark.parametrize("output", [EVERYTHING, parse_range("2013-03-01", "2013-04-01")], ids=["2013", "March"])
def test_every_figure_of_the_departures_of_2013_under_20_settings_is_that_of_the_model(
    output: OutputRange, tmp_path: Path, spark: SparkSession
) -> None:
    lists = (["0s", "5m", "20m", "1h", "3h"], ["0s", "2m"], ["5m", "30m"])
    compare_departures(("2013-01-01", "2014-01-02"), output, lists, tmp_path, spark)


def compare_departures(
    logged: tuple[str, str],
    output: OutputRange,
    lists: tuple[list[str], list[str], list[str]],
    folder: Path,
    spark: SparkSession,
) -> None:
    """Hold ``tune`` over the departures of these days to the model; ``lists``: late, out of order, early."""
    table = pq.read_table(write_arrival_log(folder))
    first, end = (datetime.fromisoformat(day).replace(tzinfo=UTC) for day in logged)
    table = table.filter(pc.and_(pc.greater_equal(table["arrival_time"], first), pc.less(table["arrival_time"], end)))
    pq.write_table(table, folder / "log.parquet")
    ingest(DEPARTURES, "departures", [folder / "log.parquet"], folder / "lakehouse")

    flags = ("--late", "--out-of-order", "--early")
    asked = {flag: ",".join(values) for flag, values in zip(flags, lists, strict=True)}
    found = tune(DEPARTURES, output, folder / "lakehouse", asked, spark=spark).as_dict()["settings"]

    model = departures_model(table, output)
    true = model.results(list(truth(model.log)))
    for one, values in zip(found, product(*lists), strict=True):  # type: ignore[call-overload]
        late_us, out_of_order_us, early_us = map(parse_duration, values)
        waits: list[float] = []
        decided = list(stream_analytics(early_us, late_us, out_of_order_us, waits)(model.log))
        check(one, model.figures(decided, model.results(decided), true))
        assert (one["late_arrival"], one["out_of_order"], one["early_arrival"]) == values
        assert one["wait_us"] == max(waits)
    assert len({one["windows_that_differ"] for one in found}) > len(lists[0]) / 2  # type: ignore[attr-defined]


def check(found: dict[str, Any], expected: dict[str, object]) -> None:
    assert {name: found[name] for name in expected} == expected


def random_log(spans: bool) -> list[Event]:
    """Six hours of events of two partitions in arrival order: some up to ten minutes late, a few up to two hours."""
    chance, log, arrival_us = random.Random(20), [], parse_instant("2026-01-01T00:00:00Z")
    for number in range(400):
        arrival_us += chance.randrange(2 * MINUTE)
        late_us = chance.choices([0, chance.randrange(10 * MINUTE), chance.randrange(2 * HOUR)], [30, 5, 1])[0]
        time_us = arrival_us - late_us
        end_us = time_us + chance.randrange(1, 40 * MINUTE) if spans else None
        log.append(Event(number % 2, arrival_us, time_us, end_us, (chance.choice("abcd"), chance.randrange(9))))
    return log


def tuned(job: Job, log: Sequence[Event], output: OutputRange, lists: dict[str, str], folder: Path, spark: Any) -> Any:
    records = [
        {
            "arrival_time": format_instant(event.arrival_us),
            "input_partition": event.partition,
            "sequence": number,
            "at": format_instant(event.time_us),
            "until": None if event.end_us is None else format_instant(event.end_us),
            "k": event.payload[0],
            "n": event.payload[1],
        }
        for number, event in enumerate(log)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    assert ingest(job, "rides", [folder / "log.jsonl"], folder / "lakehouse").appended == len(log)
    return tune(job, output, folder / "lakehouse", lists, spark=spark).as_dict()["settings"]


def counts_and_sums(payloads: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    return {"rides": len(payloads), "n": sum(n for _, n in payloads)}


TEXT = """
tailrace: 1
job: rides
profile: {profile}
inputs: {{rides: {{columns: "at TIMESTAMP, until TIMESTAMP, k STRING, n INT", partitions: 2, timestamp_by: at{shape}}}}}
ordering: {ordering}
query:
  from: rides
  group_by: [k]
  window: {{hopping: {{size: 1h, hop: 20m}}}}
  aggregates: {{rides: "count(*)", n: "sum(n)"}}
"""
RANGE = parse_range("2026-01-01T02:00:00Z", "2026-01-01T05:00:00Z")
HOPS = Windows(HOUR, 20 * MINUTE, ends_inside=False)


def test_every_figure_of_allowed_lateness_is_that_of_the_model(tmp_path: Path, spark: SparkSession) -> None:
    job = parse_job(TEXT.format(profile="atlas", shape="", ordering="{allowed_lateness: 3s}"))
    log, values = random_log(spans=False), ["0s", "5m", "1h"]
    model = within(Model(log, HOPS, lambda row: row[:1], counts_and_sums, frozenset({"rides", "n"})), RANGE)
    true = model.results(list(truth(log)))
    found = tuned(job, log, RANGE, {"--allowed-lateness": ",".join(values)}, tmp_path, spark)
    for one, value in zip(found, values, strict=True):
        decided: list[Decided] = list(atlas(parse_duration(value), 2, HOPS)(log))
        check(one, model.figures(decided, model.results(decided), true))
        assert (one["allowed_lateness"], one["wait_us"]) == (value, parse_duration(value))
    assert all(one["counts_by_verdict"].keys() == {"accepted", "partial", "dropped"} for one in found[:2])
    assert len({one["windows_that_differ"] for one in found}) == 3


def test_every_figure_of_a_delay_of_ctis_is_that_of_the_model(tmp_path: Path, spark: SparkSession) -> None:
    ordering = "{advance: {every: 3}, delay: 10s, action: adjust}\nend_of_log: flush"
    job = parse_job(TEXT.format(profile="stream_insight", shape=", shape: interval, end_by: until", ordering=ordering))
    log, values = random_log(spans=True), ["0s", "5m", "1h"]
    model = within(Model(log, HOPS, lambda row: row[:1], counts_and_sums, frozenset({"rides", "n"})), RANGE)
    true = model.results(list(truth(log)))
    found = tuned(job, log, RANGE, {"--delay": ",".join(values)}, tmp_path, spark)
    for one, value in zip(found, values, strict=True):
        decided: list[Decided] = list(stream_insight(3, parse_duration(value))(log))
        check(one, model.figures(decided, model.results(decided), true))
        assert (one["delay"], one["wait_us"]) == (value, parse_duration(value))
    assert all(one["counts_by_verdict"].keys() == {"accepted", "adjusted", "dropped"} for one in found[:2])
    assert len({one["windows_that_differ"] for one in found}) == 3
