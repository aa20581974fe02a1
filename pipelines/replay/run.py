"""A replay: plan it, run the plan, write it into the ledger.

A failure before the first commit leaves every table as it was. A crash between two commits leaves a run that is not
``succeeded``; running the same range again repairs that, because the same range always gives the same rows.
"""

from __future__ import annotations

import functools
import importlib.metadata
import platform
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines import __version__
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import from_datetime, to_datetime
from pipelines.lakehouse import runs
from pipelines.lakehouse.damage import explained
from pipelines.lakehouse.fence import Fence
from pipelines.lakehouse.layout import result_tables
from pipelines.lakehouse.previews import PREVIEW, drop_expired, remove_table, side_folder
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import Plan, ReadTable
from pipelines.replay.builder import AsOf, make_plan
from pipelines.replay.summary import Findings, RunSummary, added
from pipelines.runtime.run_log import log_event
from pipelines.runtime.telemetry import span, traced

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]


@traced("tailrace.replay")
def replay(
    job: Job,
    output: OutputRange,
    lakehouse: str | Path | Lakehouse,
    *,
    as_of: AsOf = None,
    slices: int | None = None,
    planned: Callable[[Plan], None] = lambda _: None,
    spark: SparkSession | None = None,
    reason: str | None = None,
    kind: str = "replay",
    progress: Progress = lambda _: None,
    only_run: bool = False,
    preview: str | None = None,
) -> RunSummary:
    """Plan and run ``job`` over ``output``: half-open, an open end means all of the log on that side.

    ``preview`` names a preview: the results go to its side tables, and no other table changes. ``as_of`` reads older
    versions of the arrival logs; ``slices`` as of :func:`make_plan`; ``planned`` is called with the plan before it
    runs. See :func:`execute` for the others. Raises :class:`EnvironmentUnfit` before any work if the lakehouse cannot
    be written, and :class:`UsageError` if an input has no log, or a part of a table of other columns would be replaced.
    """
    place = Lakehouse.at(lakehouse)
    with span("plan"):
        plan = make_plan(job, output, place, as_of=as_of, slices=slices)
    if preview is not None:
        folder = side_folder(job.name, preview)
        plan, kind = plan.as_preview(folder), PREVIEW
        drop_expired(place, job.name)
        for table, _ in result_tables(job):
            remove_table(place, f"{folder}/{table}")
    planned(plan)
    place.require_writable()
    return execute(plan, job, place, spark=spark, reason=reason, kind=kind, progress=progress, only_run=only_run)


def execute(
    plan: Plan,
    job: Job,
    lakehouse: Lakehouse,
    *,
    spark: SparkSession | None = None,
    reason: str | None = None,
    kind: str = "replay",
    progress: Progress = lambda _: None,
    only_run: bool = False,
) -> RunSummary:
    """Run a plan that was made for ``job``.

    ``reason`` is kept in the ledger, ``kind`` names the sort of run there; ``progress`` is called with the sentence of
    each stage. ``only_run``: the process runs nothing after this, so that a session for little data will do.
    """
    assert plan.job_fingerprint == job.fingerprint, "the plan was made for another job"
    runs.abandon_dead(lakehouse, job)
    started_us = _now_us()
    row = _ledger_row(plan, job, kind, reason, started_us)
    found = Findings(engine=row["engine"])
    runs.record(lakehouse, row)
    try:
        from pipelines.replay.evaluate import evaluate
        from pipelines.runtime.session import session

        def begun(stage: str) -> None:
            log_event(row["run_id"], plan.job, "stage", stage=stage)
            progress(stage)

        running = spark or session(short=only_run and plan.writer == "driver")
        evaluate(plan, job, lakehouse, running, Fence(lakehouse, row, plan.versions_before), found, begun)
        finished_us = _now_us()
        done = {**row, **found.as_dict(), "status": runs.SUCCEEDED, "finished_at": to_datetime(finished_us)}
        runs.record(lakehouse, done)
    except BaseException as failure:
        error = explained(failure) or failure
        runs.record_failure(lakehouse, job, {**row, **found.as_dict()}, error)
        raise error from failure.__cause__
    return RunSummary(row["run_id"], kind, plan, found, started_us, finished_us)


def _ledger_row(plan: Plan, job: Job, kind: str, reason: str | None, started_us: int) -> dict[str, Any]:
    ends = {
        "output_from": plan.output.from_us,
        "output_to": plan.output.to_us,
        "read_from": plan.read.from_us,
        "read_to": plan.read.to_us,
        "end_of_log": plan.end_of_log_us,
    }
    return {
        "run_id": uuid.uuid4().hex,
        "job": plan.job,
        "kind": kind,
        "reason": reason,
        "status": runs.RUNNING,
        "job_fingerprint": plan.job_fingerprint,
        **{name: None if us is None else to_datetime(us) for name, us in ends.items()},
        "read_rule": plan.read.rule,
        "settled": plan.settled,
        # a preview is compared with the tables that it would replace
        "versions_read": plan.versions | (plan.versions_present if plan.preview else {}),
        "job_parts": job.part_fingerprints,
        "files_planned": _planned(plan, lambda read: read.files),
        "bytes_planned": _planned(plan, lambda read: read.size_bytes),
        "started_at": to_datetime(started_us),
        "process": runs.this_process(),
        "engine": _versions(),
    }


def _planned(plan: Plan, number: Callable[[ReadTable], int]) -> dict[str, int]:
    """By log, a number of what is read of it, over all parts of the plan."""
    return functools.reduce(added, ({read.table: number(read) for read in part.reads} for part in plan.parts))


def _versions() -> dict[str, str]:
    packages = {name: importlib.metadata.version(name) for name in ("pyspark", "delta-spark", "deltalake")}
    return {"tailrace": __version__, "python": platform.python_version(), **packages}


def _now_us() -> int:
    return from_datetime(datetime.now(UTC))
