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
from pipelines.live.expressions import refuse
from pipelines.live.local_log import messages
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Message
from pipelines.live.state.output import Output, fates_of
from pipelines.transcripts.judge import Outcome
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
    """What the live engine gives for each of ``cases``, in one query; it runs over each log whole, and the result is
    cut to the case's range."""
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
        found = run_messages(session or the_session("tailrace-verify", short=True), jobs, packed)
        for key, output in found.items():
            outcomes[int(key)] = _outcome(cases[int(key)], output)
    return [outcomes[number] for number in range(len(cases))]


def run_messages(
    spark: SparkSession, jobs: Mapping[str, Job], packed: Mapping[str, Sequence[Sequence[Message]]]
) -> dict[str, Output]:
    """Run the live operator over each job's commits of messages; the last commit (an announcement) comes before the
    one before it, so that rows are met announced and not. What was provisional at the end counts as given."""
    from pipelines.live.spark.query import live_session, operated, outputs_of
    from pipelines.live.spark.source import log_stream

    total = {key: Output() for key in jobs}

    def collect(frame: DataFrame, _: int) -> None:
        for key, output in outputs_of(frame).items():
            whole = total[key]
            whole.verdicts = pa.concat_tables([whole.verdicts, output.verdicts])
            whole.windows += output.windows
            if output.advanced:
                whole.provisional_verdicts = output.provisional_verdicts
                whole.provisional_windows = output.provisional_windows
            whole.at_end = output.at_end or (whole.at_end and not output.advanced)
            whole.error = whole.error or output.error

    with tempfile.TemporaryDirectory(prefix="tailrace-verify-") as folder:
        table, checkpoint = str(Path(folder) / "messages"), str(Path(folder) / "checkpoint")
        for commit in _commits(packed):
            write_deltalake(table, commit, mode="append")
        live = live_session(spark, partitions=2)
        stream = operated(log_stream(live, table, files_per_trigger=1), dict(jobs)).writeStream.outputMode("append")
        query = stream.option("checkpointLocation", checkpoint).foreachBatch(collect).trigger(availableNow=True).start()
        query.awaitTermination()
    return total


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


def _outcome(case: Case, output: Output) -> Outcome:
    if isinstance(output.error, TailraceError):
        return Outcome(error=output.error)
    if output.error is not None:
        return Outcome(error=DataRefused(f"the log is not in order: {output.error}"))
    assert output.at_end, "the end of the log was not reached"
    assert case.job is not None
    names = CompiledJob(case.job).output_names
    fates = fates_of(pa.concat_tables([output.verdicts, output.provisional_verdicts]))
    return Outcome.of(
        (one for one in fates if one.arrival_time_us in case.output),
        (
            WindowRow(one.start_us, one.end_us, one.window_id, dict(zip(names, one.values, strict=True)))
            for one in (*output.windows, *output.provisional_windows)
            if one.end_us in case.output
        ),
    )
