"""The exact job in DuckDB and in Polars, each in a warm process of its own."""

from __future__ import annotations

import importlib.util
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any

import pyarrow as pa

from bench.questions import Question

ENGINES = ("duckdb", "polars")
_MEMORY_SHARE = 0.8
"""Of the machine's memory, what an engine may take; DuckDB's own default."""


class EngineDied(Exception):
    """The engine's process ended without an answer, as it does when memory runs out."""


def missing(engine: str) -> str | None:
    """Why ``engine`` cannot be measured here, or None if it can."""
    if importlib.util.find_spec(engine) is None:
        return f"{engine} is not installed; 'make bench' installs it"
    return None


class Engine:
    """One engine's process; :meth:`seconds` and :meth:`answer` make it do the whole job once more."""

    def __init__(self, name: str) -> None:
        context = multiprocessing.get_context("spawn")
        self.name = name
        self._spills = tempfile.TemporaryDirectory(prefix="tailrace-bench-")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(name, theirs, self._spills.name), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process.pid is not None, "the process was started"
        return self._process.pid

    def seconds(self, files: Sequence[str], question: Question) -> float:
        """How long the job took from files to a table in memory, by the engine's own clock."""
        return float(self._ask(files, question, False)[0])

    def answer(self, files: Sequence[str], question: Question) -> pa.Table:
        """The job's result."""
        table: pa.Table = self._ask(files, question, True)[1]
        return table

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()
        self._ours.close()
        self._spills.cleanup()

    def _ask(self, *request: object) -> Any:
        try:
            self._ours.send(request)
            reply = self._ours.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.join()
            raise EngineDied(f"{self.name} ended with exit code {self._process.exitcode}") from None
        if isinstance(reply, str):
            raise EngineDied(f"{self.name}: {reply}")
        return reply


def _serve(name: str, requests: Connection, spills: str) -> None:
    """Answer requests until the other side is gone; a failure is told as text."""
    run = _duckdb(spills) if name == "duckdb" else _polars()
    while True:
        try:
            files, question, wanted = requests.recv()
        except EOFError:
            return
        began = time.perf_counter()
        try:
            table = run(files, question)
        except Exception as error:
            requests.send((str(error).strip().splitlines() or [type(error).__name__])[0])
            continue
        requests.send((time.perf_counter() - began, table if wanted else None))


def _duckdb(spills: str) -> Callable[[Sequence[str], Question], pa.Table]:
    import duckdb

    # left to itself, a database in memory would spill into the working directory
    connection = duckdb.connect(config={"temp_directory": spills})
    connection.execute("SET TimeZone = 'UTC'")

    def run(files: Sequence[str], question: Question) -> pa.Table:
        return connection.sql(_sql(question), params={"files": list(files)}).to_arrow_table()

    return run


def _sql(question: Question) -> str:
    """The job in DuckDB's SQL; ``greatest`` passes over nulls, ``//`` divides whole numbers."""
    keys = _names(question.keys)
    measured = "" if question.measured is None else f', "{question.measured}" AS measured'
    aggregates = "" if question.measured is None else ", sum(measured) AS total, avg(measured) AS mean"
    return f"""
WITH events AS (
    SELECT input_partition, sequence, {_names(question.named)}{measured},
        epoch_us("{question.at}") AS at_us, epoch_us(arrival_time) AS arrival_us
    FROM read_parquet($files) WHERE kind = 'event'
), timed AS (
    SELECT *, CASE WHEN at_us <= arrival_us + {question.early_us}
        THEN greatest(at_us, arrival_us - {question.late_us}) END AS time_us
    FROM events
), watermarked AS (
    SELECT *, greatest(max(time_us) OVER before, arrival_us - {question.late_us}) - {question.out_of_order_us}
        AS watermark_us
    FROM timed
    WINDOW before AS (PARTITION BY {_names(question.timeline)} ORDER BY sequence
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
), counting AS (
    SELECT {keys}{", measured" if measured else ""}, greatest(time_us, watermark_us) AS counts_us
    FROM watermarked WHERE time_us IS NOT NULL
)
SELECT make_timestamptz((counts_us + {question.window_us - 1}) // {question.window_us} * {question.window_us})
    AS window_end, {keys}, count(*) AS n{aggregates}
FROM counting GROUP BY ALL
"""  # of constants alone


def _names(columns: Sequence[str]) -> str:
    """Quoted: ``at``, for one, is a word of DuckDB's own."""
    return ", ".join(f'"{column}"' for column in columns)


def _polars() -> Callable[[Sequence[str], Question], pa.Table]:
    import polars as pl

    limit = int(_MEMORY_SHARE * _memory_bytes())
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    def run(files: Sequence[str], question: Question) -> pa.Table:
        at_us = pl.col(question.at).cast(pl.Int64)
        arrival_us = pl.col("arrival_time").cast(pl.Int64)
        floor_us = arrival_us - question.late_us
        time_us = pl.when(at_us <= arrival_us + question.early_us).then(pl.max_horizontal(at_us, floor_us))
        highest_us = pl.col("time_us").cum_max().forward_fill().shift(1)
        measured = [] if question.measured is None else [pl.col(question.measured).alias("measured")]
        window_us = question.window_us
        end_us = (pl.max_horizontal("time_us", "watermark_us") + window_us - 1) // window_us * window_us
        aggregates = [pl.len().cast(pl.Int64).alias("n")]
        if measured:
            aggregates += [pl.col("measured").sum().alias("total"), pl.col("measured").mean().alias("mean")]
        windows = (
            pl.scan_parquet(list(files), hive_partitioning=False)
            .filter(pl.col("kind") == "event")
            .select(
                "input_partition",
                "sequence",
                *question.named,
                *measured,
                time_us.alias("time_us"),
                floor_us.alias("floor_us"),
            )
            .with_columns(highest_us.over(*question.timeline, order_by="sequence").alias("highest_us"))
            .with_columns(
                (pl.max_horizontal("highest_us", "floor_us") - question.out_of_order_us).alias("watermark_us")
            )
            .filter(pl.col("time_us").is_not_null())
            .group_by(end_us.cast(pl.Datetime("us", "UTC")).alias("window_end"), *question.keys)
            .agg(*aggregates)
        )
        return windows.collect().to_arrow()

    return run


def _memory_bytes() -> int:
    import os

    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
