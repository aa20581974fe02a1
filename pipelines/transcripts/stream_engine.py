"""Many cases on the live engine: all of them run in one streaming query, an engine for each."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import write_deltalake

from pipelines.core.errors import DataRefused, TailraceError
from pipelines.core.model import Job, WindowRow
from pipelines.lakehouse.arrival_rows import row_values
from pipelines.live.expressions import refuse
from pipelines.live.local_log import messages
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message
from pipelines.live.state.output import Output, Slice, decisions_of
from pipelines.transcripts.judge import Outcome, Row
from pipelines.transcripts.read import Case

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COMMITS = 2
"""Into how many commits a case's arrivals are cut, so that cases test the state between batches as well."""
_TABLE = pa.schema(
    [
        ("key", pa.string()),
        ("kind", pa.string()),
        ("input", pa.string()),
        ("file", pa.string()),
        ("row_count", pa.int32()),
        ("body", pa.binary()),
    ]
)


def run_stream(cases: Sequence[Case], session: SparkSession | None = None) -> list[Outcome]:
    """The results of the live engine for each of ``cases``, in one query. It reads each log as a whole; the results are
    then cut to the case's range."""
    from pipelines.batch.spark.expressions import SparkExpressions
    from pipelines.runtime.session import session as the_session

    outcomes: dict[int, Outcome] = {}
    packed: dict[str, list[list[Message]]] = {}
    evaluate = SparkExpressions(session)
    for number, case in enumerate(cases):
        try:
            if case.refused is not None:
                raise case.refused
            assert case.job is not None
            refuse(case.job)
            cuts = sorted({len(case.arrivals) * part // COMMITS for part in range(1, COMMITS)})
            packed[str(number)] = messages(CompiledJob(case.job), case.arrivals, evaluate, cuts)
        except TailraceError as error:
            outcomes[number] = Outcome(error=error)
    if packed:
        # a case may expect any verdict
        jobs = {key: replace(job, keep_verdicts="all") for key in packed if (job := cases[int(key)].job) is not None}
        spark = session or the_session("tailrace-verify", short=True)
        for key, batches in run_messages(spark, jobs, packed).items():
            outcomes[int(key)] = _outcome(cases[int(key)], batches, spark)
    return [outcomes[number] for number in range(len(cases))]


def run_messages(
    spark: SparkSession, jobs: Mapping[str, Job], packed: Mapping[str, Sequence[Sequence[Message]]]
) -> dict[str, list[Output]]:
    """Run the live operator over each job's commits of messages; gives the output of each batch.

    The last commit, an announcement, is delivered before the one before it, so that some rows come before they are
    announced and some after.
    """
    from pipelines.live.spark.query import live_session, operated, outputs_of
    from pipelines.live.spark.source import log_stream

    given: dict[str, list[Output]] = {key: [] for key in jobs}

    def collect(frame: DataFrame, _: int) -> None:
        for key, output in outputs_of(frame, jobs).items():
            given[key].append(output)

    with tempfile.TemporaryDirectory(prefix="tailrace-verify-") as folder:
        table, checkpoint = str(Path(folder) / "messages"), str(Path(folder) / "checkpoint")
        for commit in _commits(packed):
            write_deltalake(table, commit, mode="append")
        live = live_session(spark, partitions=2)
        stream = operated(log_stream(live, table, files_per_trigger=1), dict(jobs)).writeStream.outputMode("append")
        query = stream.option("checkpointLocation", checkpoint).foreachBatch(collect).trigger(availableNow=True).start()
        query.awaitTermination()
    return given


def _commits(packed: Mapping[str, Sequence[Sequence[Message]]]) -> list[pa.Table]:
    rows: dict[int, list[tuple[object, ...]]] = {}
    for key, commits in packed.items():
        *logged, announced = commits
        ordered = [*logged[:-1], announced, logged[-1]]
        for number, commit in enumerate(ordered):
            rows.setdefault(number, []).extend((key, *message) for message in commit)
    tables = []
    for number in sorted(rows):
        columns = list(zip(*rows[number], strict=True)) or [()] * len(_TABLE)
        arrays = [pa.array(list(values), kind.type) for values, kind in zip(columns, _TABLE, strict=True)]
        tables.append(pa.Table.from_arrays(arrays, schema=_TABLE))
    return tables


def _outcome(case: Case, batches: Sequence[Output], spark: SparkSession) -> Outcome:
    """What all batches gave; what the last one that brought something gave as provisional counts as given."""
    for output in batches:
        if isinstance(output.error, TailraceError):
            return Outcome(error=output.error)
        if output.error is not None:
            return Outcome(error=DataRefused(f"the log is not in order: {output.error}"))
    last = [output for output in batches if output.advanced][-1]
    assert last.at_end, "the end of the log was not reached"
    assert case.job is not None
    decisions = decisions_of(pa.concat_tables([*(output.verdicts for output in batches), last.provisional_verdicts]))
    decisions = [one for one in decisions if one.arrival_time_us in case.output]
    if case.job.steps is not None:
        slices = [*(output.slice for output in batches), last.provisional_slice]
        try:
            return Outcome.of(decisions, (), _output_rows(case, [one for one in slices if one is not None], spark))
        except TailraceError as error:
            return Outcome(error=error)
    names = CompiledJob(case.job).output_names
    windows = (
        WindowRow(one.start_us, one.end_us, one.window_id, dict(zip(names, one.values, strict=True)))
        for one in (*(one for output in batches for one in output.windows), *last.provisional_windows)
        if one.end_us in case.output
    )
    return Outcome.of(decisions, windows)


def _output_rows(case: Case, slices: Sequence[Slice], spark: SparkSession) -> dict[str, tuple[Row, ...]]:
    """The rows of each output in the range of the case."""
    from pipelines.live.steps.expressions import Expressions
    from pipelines.live.steps.outputs import outputs, shown
    from pipelines.live.steps.references import listed

    assert case.job is not None
    assert case.job.steps is not None
    references, evaluate = listed(case.job, case.references), Expressions(spark, ansi=case.job.steps.ansi)
    found: dict[str, list[Row]] = {one.name: [] for one in case.job.steps.outputs}
    for one in slices:
        if case.output.from_us is not None:
            one = one._replace(low=max(one.low, case.output.from_us))
        if one.low >= one.high:
            continue
        for name, relation in outputs(case.job, one, references, evaluate).items():
            inside = [place for place, time_us in enumerate(relation.times) if time_us in case.output]
            found[name] += row_values(shown(relation.take(inside)))
    return {name: tuple(rows) for name, rows in found.items()}
