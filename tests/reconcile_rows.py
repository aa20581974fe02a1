"""Logs, replays and live runs for the tests of reconcile: as the reference engine gives them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from pipelines.core.model import EVERYTHING, Job, OutputRange
from pipelines.core.time import to_datetime
from pipelines.core.values import grouping_key
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import ReadRange
from pipelines.recompute.logs import Logs
from pipelines.recompute.naming import ArrivalId, id_of, key_names
from pipelines.recompute.windows import CachedEvaluator, recompute, same_values
from pipelines.reconcile.causes.another_policy.search import Found, Sample, Search
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.late_arrivals_after_output import AppendedBatches
from pipelines.reconcile.causes.rebuilt_window import Difference, Rebuilder
from pipelines.reconcile.causes.row_by_row import RowByRow
from pipelines.reconcile.causes.stream_stopped_or_restarted import Interruptions, OutputGap

Row = dict[str, Any]
INSTANTS = ("window_start", "window_end", "emitted_at")


def ingested(job: Job, lakehouse: Path, records: Mapping[str, Sequence[Row]], batch: str = "all") -> Path:
    """The lakehouse with records appended to the logs; partition 0 and rising sequences unless they say otherwise."""
    for name, rows in records.items():
        file = lakehouse.parent / f"{lakehouse.name}-{name}-{batch}.jsonl"
        numbered = [{"input_partition": 0, "sequence": number, **row} for number, row in enumerate(rows)]
        file.write_text("".join(json.dumps(row) + "\n" for row in numbered))
        assert ingest(job, name, [file], lakehouse, batch=batch).quarantined == 0
    return lakehouse


def results(job: Job, lakehouse: Path, lost: Sequence[ArrivalId] = (), output: OutputRange = EVERYTHING) -> list[Row]:
    """What ``job`` over the log, or a live run that never saw some events, would have written; in output order."""
    arrivals = Logs(Lakehouse.at(lakehouse)).arrivals(job, ReadRange(None, None, "the whole log"))
    seen = [one for one in arrivals if id_of(one) not in lost]
    assert len(seen) == len(arrivals) - len(lost)
    return [dict(row) for row in recompute(job, seen, output, CachedEvaluator()).rows]


def written(lakehouse: Path, name: str, rows: Sequence[Row], rename: Mapping[str, str] | None = None) -> None:
    """Such rows as a table of windows; ``rename``: columns that are called otherwise there."""
    data = [row | {"output_date": to_datetime(row["window_end"]).date()} for row in rows]
    table = pa.Table.from_pylist(data)
    kinds = {"window_id": pa.string(), **dict.fromkeys(INSTANTS, pa.timestamp("us", "UTC"))}
    columns = {one: table[one].cast(kinds.get(one, table[one].type)) for one in table.column_names}
    table = pa.table({(rename or {}).get(one, one): values for one, values in columns.items()})
    write_deltalake(str(lakehouse / name), table, mode="overwrite", partition_by=["output_date"])


def differences(job: Job, replay: Sequence[Row], live: Sequence[Row]) -> dict[str, Difference]:
    """The rows that differ, by window end and keys."""
    keys, names = key_names(job), [one.name for one in job.window_query.aggregates]
    found: dict[str, Difference] = {}
    for key in {tuple(grouping_key(row[name]) for name in keys): row for row in [*replay, *live]}.values():
        ours = next((row for row in replay if same_values(row, key, keys)), None)
        theirs = [row for row in live if same_values(row, key, keys)]
        if ours is None or len(theirs) != 1 or not same_values(ours, theirs[0], names):
            emitted_us = theirs[0].get("emitted_at") if theirs else None
            name = str([key[column] for column in ("window_end", *keys)])
            found[name] = Difference({column: key[column] for column in keys}, ours, tuple(theirs), emitted_us)
    return dict(sorted(found.items()))


def causes(
    job: Job, lakehouse: Path, live: Sequence[Row], gaps: Sequence[OutputGap] = (), replay: Sequence[Row] | None = None
) -> list[tuple[Difference, Cause]]:
    """The cause of each row that differs from the job's results, found row by row, in output order."""
    logs = Logs(Lakehouse.at(lakehouse))
    rows = differences(job, results(job, lakehouse) if replay is None else replay, live)
    ends = [row["window_end"] for row in live]
    finder = RowByRow(
        Rebuilder(job, logs, CachedEvaluator(), key_names(job), [one.name for one in job.window_query.aggregates]),
        Interruptions(gaps, min(ends), max(ends)),
        AppendedBatches(logs, max(row.get("emitted_at") or 0 for row in live) or None),
    )
    found = finder.causes(rows)
    return [(one, found[name]) for name, one in rows.items()]


def policy(job: Job, lakehouse: Path, live: Sequence[Row]) -> Found | None:
    """The changed settings that give the live rows, searched at every window end."""
    replay = results(job, lakehouse)
    names = [*key_names(job), *(one.name for one in job.window_query.aggregates)]
    samples = []
    for end_us in sorted({row["window_end"] for row in [*replay, *live]}):
        ours, theirs = ([row for row in rows if row["window_end"] == end_us] for rows in (replay, live))
        samples.append(Sample(end_us, theirs, equal=not differences(job, ours, theirs)))
    return Search(job, Logs(Lakehouse.at(lakehouse)), CachedEvaluator(), names, samples).find(())
