"""The figures of every setting, from one scan of the arrivals: plan, read once, decide, compare with the truth."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.batch.spark.failures import named_failures
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.bounded_reads import BoundedReads
from pipelines.plan.definition import Plan, ReadTable
from pipelines.plan.read_range import ReadRange
from pipelines.replay.builder import LogReads, make_plan, read_table
from pipelines.replay.read import read_arrivals, read_references
from pipelines.tune.at_once import at_once
from pipelines.tune.one_by_one import Scan, one_by_one
from pipelines.tune.result import Figures, Method, Tuning, with_frontier
from pipelines.tune.settings import Setting, settings_of
from pipelines.tune.truth import truth_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]
_METHOD_LIMIT = "spark.sql.codegen.hugeMethodLimit"
_WHOLE = BoundedReads(ReadRange(None, None, "the whole log"), None)


def tune(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    lists: Mapping[str, str],
    *,
    spark: SparkSession | None = None,
    progress: Progress = lambda _: None,
    expect: Callable[[int], None] = lambda _: None,
) -> Tuning:
    """The figures of ``job`` over ``output`` under each setting of ``lists`` (see
    :func:`~pipelines.tune.settings.settings_of`): those of a replay of the range under that setting. No table is
    written. Raises :class:`UsageError` as that function and a plan do, and :class:`EnvironmentUnfit` if no report can
    be written to the lakehouse.
    """
    settings = settings_of(job, lists)
    expect(len(settings) + 2)
    place, truth = Lakehouse.at(lakehouse), truth_of(job)
    place.require_writable()
    progress("planning")
    plan = make_plan(job, output, place)
    as_of = plan.versions_by_name
    reads = [LogReads(one.job, place, as_of=as_of).of(output) for one in settings]
    # only of stream_analytics does the formula of the truth not look at punctuations
    bounded = job.profile == "stream_analytics"
    of_truth = LogReads(truth, place, as_of=as_of).of(output) if bounded else _WHOLE
    plan = replace(plan, reads=_read_once(job, place, plan, [*reads, of_truth]))

    from pipelines.runtime.session import session

    running = spark or session()
    arrivals = read_arrivals(running, job, plan, place)
    references = read_references(running, job, plan, place)
    with named_failures(), _compiled_in_parts(running):
        figures, method = measured(settings, reads, of_truth, Scan(arrivals, references, output), progress)
    return Tuning(job, output, with_frontier(figures), method)


@contextmanager
def _compiled_in_parts(spark: SparkSession) -> Iterator[None]:
    """Java interprets a method of more than 8,000 bytes for ever, and tests for many settings are one such method:
    Spark cuts it up if its limit is the same."""
    before = str(spark.conf.get(_METHOD_LIMIT))
    spark.conf.set(_METHOD_LIMIT, "8000")
    try:
        yield
    finally:
        spark.conf.set(_METHOD_LIMIT, before)


def measured(
    settings: Sequence[Setting],
    reads: Sequence[BoundedReads],
    of_truth: BoundedReads,
    scan: Scan,
    progress: Progress = lambda _: None,
) -> tuple[list[Figures], Method]:
    """The figures of each setting; ``reads``: what a replay under it reads, ``of_truth``: what the truth is made of."""
    begins_empty = all(one.initial_states is None for one in reads)
    found = at_once(settings, scan.arrivals, scan.output, progress) if begins_empty else None
    if found is not None:
        return found, "at_once"
    return one_by_one(settings, reads, of_truth, scan, progress), "one_after_another"


def _read_once(job: Job, place: Lakehouse, plan: Plan, reads: Sequence[BoundedReads]) -> tuple[ReadTable, ...]:
    """What one scan reads of each log: the earliest and the latest that any setting needs."""
    tables = LogReads(job, place, as_of=plan.versions_by_name).tables
    return tuple(
        read_table(tables[part.name], part, _cover([one.of(part.name) for one in reads])) for part in job.inputs
    )


def _cover(reads: Sequence[ReadRange]) -> ReadRange:
    begins = [one.from_us for one in reads]
    ends = [one.to_us for one in reads]
    from_us = None if None in begins else min(us for us in begins if us is not None)
    to_us = None if None in ends else max(us for us in ends if us is not None)
    return ReadRange(from_us, to_us, "what any of the settings reads")
