"""``make bench``: measures every contender on the same logs in one run, and says what it found."""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from bench import on_spark
from bench.compare import compare
from bench.disorder import EVENTS_A_DAY, Disorder, write_log
from bench.jobs import Question
from bench.meters import Process, SparkMeter
from pipelines.lakehouse.root import Lakehouse
from pipelines.runtime.session import session


@dataclass
class Entry:
    name: str
    question: Question
    frames: Callable[[DataFrame, Question], tuple[DataFrame, ...]]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    told: str = ""


def _one(
    function: Callable[[DataFrame, Question], DataFrame],
) -> Callable[[DataFrame, Question], tuple[DataFrame, ...]]:
    return lambda log, question: (function(log, question),)


def entries() -> list[Entry]:
    base, over = Question(), Question(over=True)
    return [
        Entry("plain", base, _one(on_spark.plain)),
        Entry("window", base, _one(on_spark.textbook)),
        Entry("window_over", over, _one(on_spark.textbook)),
        Entry("tailrace", base, _one(on_spark.tailrace)),
        Entry("exceptions", base, on_spark.tailrace_with_exceptions),
        Entry("over", over, _one(on_spark.tailrace)),
    ]


def main(
    size: Annotated[str, typer.Option(help="Millions of events, one or several: 1,10")] = "1,10",
    rounds: Annotated[int, typer.Option(help="How often each contender runs.")] = 5,
    only: Annotated[str, typer.Option(help="Some contenders: plain,window,tailrace")] = "",
    cache: Annotated[Path, typer.Option(envvar="TAILRACE_BENCH")] = Path(tempfile.gettempdir()) / "tailrace-bench",
) -> None:
    spark = session("tailrace-bench")
    for millions in size.split(","):
        measure(spark, round(float(millions) * 1_000_000), rounds, [one for one in only.split(",") if one], cache)


def measure(spark: SparkSession, events: int, rounds: int, only: list[str], cache: Path) -> None:
    out = Console(width=150)
    model = Disorder(events, days=events / EVENTS_A_DAY)
    house = write_log(model, Question().job(), cache)
    contenders = [one for one in entries() if not only or one.name in only]
    meter = SparkMeter(spark)
    jvm = Process(meter.pid)
    check(spark, house, contenders, out)
    costs = {}
    for _ in range(rounds):
        for one in contenders:
            meter.begin()
            cpu, began = jvm.cpu_seconds() or 0.0, time.perf_counter()
            for frame in one.frames(on_spark.arrivals(spark, house), one.question):
                frame.write.format("noop").mode("overwrite").save()
            one.seconds.append(time.perf_counter() - began)
            one.cpu.append((jvm.cpu_seconds() or 0.0) - cpu)
            costs[one.name] = meter.end()
    table = Table(title=f"{events:,} events, {rounds} rounds")
    for name in (
        "contender",
        "x plain",
        "spread",
        "x plain cpu",
        "seconds",
        "shuffle MB",
        "read MB",
        "files",
        "max/median task",
        "result",
    ):
        table.add_column(name)
    first = contenders[0]
    for one in contenders:
        ratios = [a / b for a, b in zip(one.seconds, first.seconds, strict=True)]
        cpus = [a / b for a, b in zip(one.cpu, first.cpu, strict=True)]
        cost = costs[one.name]
        table.add_row(
            one.name,
            f"{statistics.median(ratios):.2f}",
            f"{min(ratios):.2f}-{max(ratios):.2f}",
            f"{statistics.median(cpus):.2f}",
            f"{statistics.median(one.seconds):.2f}",
            f"{cost.shuffle_bytes / 1e6:.1f}",
            f"{cost.bytes_read / 1e6:.1f}",
            f"{cost.files_read}",
            f"{cost.largest_over_median:.1f}",
            one.told,
        )
    out.print(table)


def check(spark: SparkSession, house: Lakehouse, contenders: list[Entry], out: Console) -> None:
    expected = {}
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        for one in contenders:
            log = on_spark.arrivals(spark, house)
            if one.question not in expected:
                expected[one.question] = table_of(on_spark.tailrace(log, one.question), Path(folder))
            found = compare(expected[one.question], table_of(one.frames(log, one.question)[-1], Path(folder)))
            one.told = "equal" if found.equal else f"{found.differing:,} of {found.rows:,} windows differ"


def table_of(frame: DataFrame, folder: Path) -> pa.Table:
    place = folder / "result"
    frame.select("window_end", "device", "n", "total", "mean").write.mode("overwrite").parquet(str(place))
    table = pq.read_table(place)
    shutil.rmtree(place)
    return table


if __name__ == "__main__":
    typer.run(main)
