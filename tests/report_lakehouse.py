"""A small lakehouse for tests of the report: a log, results of the reference engine, and those of a live run."""

from __future__ import annotations

import dataclasses
import json
import random
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from pipelines.core.model import Arrival, Decision, WindowRow
from pipelines.core.time import DAY, HOUR, MINUTE, format_instant, parse_instant, to_datetime
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.reference import engine

NASTY = "</script><b onclick=alert(1)>&amp;\"'"
"""A group key that must never become markup."""

JOB_TEXT = """\
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, n INT", timestamp_by: at}}
ordering: {early_arrival: 5m, late_arrival: 20m, out_of_order: 2m, action: adjust}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {cars: "count(*)", mean: "avg(n)"}}
"""
JOB = parse_job(JOB_TEXT)
START_US = parse_instant("2026-01-01T00:00:00Z")
Row = dict[str, Any]


def arrivals(hours: int = 72, seed: int = 5) -> list[Arrival]:
    """Four cars an hour in two partitions: some early, some late, some without a time."""
    rng = random.Random(seed)
    found = []
    for sequence in range(hours * 4):
        arrival_us = START_US + sequence * 15 * MINUTE
        lag_us = rng.choice([0, 0, 0, 30_000_000, 3 * MINUTE, 19 * MINUTE, 45 * MINUTE, 3 * HOUR, -2 * MINUTE, -DAY])
        at_us = None if rng.random() < 0.03 else arrival_us - lag_us
        payload = {"at": at_us, "booth": rng.choice(["a", "b", NASTY]), "n": sequence % 7}
        found.append(Arrival("cars", sequence % 2, sequence, arrival_us, payload))
    return found


def build(root: Path, *, replay: bool = True, live: bool = False, wrong: bool = False, hours: int = 72) -> Lakehouse:
    """The lakehouse at ``root``: its log, and as asked for a replay, a live run, and differences in the live run."""
    log = arrivals(hours)
    _ingest(root, log)
    lakehouse = Lakehouse.at(root)
    if not replay:
        return lakehouse
    outcome = engine.run(JOB, log)
    rows = [_window(row) for row in outcome.windows]
    _write(lakehouse, "windows/cars", rows, _windows_schema())
    _write(lakehouse, "verdicts/cars", [_verdict(one) for one in outcome.decisions if _kept(one)], _verdicts_schema())
    _record(lakehouse, outcome.decisions, len(rows))
    if live:
        emitted = [{**row, "emitted_at": row["window_end"]} for row in rows]
        schema = _windows_schema().append(pa.field("emitted_at", TIMESTAMP))
        _write(lakehouse, "stream_windows/cars", _altered(emitted) if wrong else emitted, schema)
    return lakehouse


def reconciled(lakehouse: Lakehouse, rows: list[Row]) -> None:
    """Write ``reconciliations/cars``: each row has window_end (text), booth, status, cause, evidence (data)."""
    reported = []
    for row in rows:
        end_us = parse_instant(row["window_end"])
        base = {"window_start": to_datetime(end_us - HOUR), "window_end": to_datetime(end_us), "window_id": None}
        day = to_datetime(end_us).date()
        reported.append({**row, **base, "evidence": json.dumps(row["evidence"]), "output_date": day})
    kinds = {"window_start": TIMESTAMP, "window_end": TIMESTAMP, "output_date": pa.date32()}
    names = ("window_start", "window_end", "window_id", "booth", "status", "cause", "evidence", "output_date")
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in names])
    _write(lakehouse, "reconciliations/cars", reported, schema)


def _altered(rows: list[Row]) -> list[Row]:
    """The live run counted one car less in the 30th row, wrote the 40th twice, and not the 50th nor the 51st."""
    rows = [dict(row) for row in rows]
    rows[30]["cars"] -= 1
    return [*rows[:41], *rows[40:50], *rows[52:]]


def _ingest(root: Path, log: list[Arrival]) -> None:
    file = root.parent / f"{root.name}.jsonl"
    with file.open("w") as out:
        for one in log:
            record = {
                "arrival_time": format_instant(one.arrival_time_us),
                "input_partition": one.input_partition,
                "sequence": one.sequence,
                **one.payload,
            }
            at_us = one.payload["at"]
            record["at"] = None if at_us is None else format_instant(int(str(at_us)))
            out.write(json.dumps(record) + "\n")
    assert ingest(JOB, "cars", [file], root).quarantined == 0


def _kept(decision: Decision) -> bool:
    return not (decision.verdict == "accepted" and not decision.reasons)


def _window(row: WindowRow) -> Row:
    day = to_datetime(row.window_end_us).date()
    ends = {"window_start": to_datetime(row.window_start_us), "window_end": to_datetime(row.window_end_us)}
    return {**ends, "window_id": row.window_id, **row.values, "output_date": day}


def _verdict(decision: Decision) -> Row:
    row: Row = {}
    for name, value in dataclasses.asdict(decision).items():
        if name == "missed_windows_us":
            row["missed_windows"] = [to_datetime(one) for one in value]
        elif name.endswith("_us"):
            row[name.removesuffix("_us")] = None if value is None else to_datetime(value)
        else:
            row[name] = list(value) if name == "reasons" else value
    row["arrival_date"] = row["arrival_time"].date()
    return row


def _windows_schema() -> pa.Schema:
    return pa.schema(
        [
            ("window_start", TIMESTAMP),
            ("window_end", TIMESTAMP),
            ("window_id", pa.string()),
            ("booth", pa.string()),
            ("cars", pa.int64()),
            ("mean", pa.float64()),
            ("output_date", pa.date32()),
        ]
    )


def _verdicts_schema() -> pa.Schema:
    return pa.schema(
        [
            ("input", pa.string()),
            ("input_partition", pa.int32()),
            ("sequence", pa.int64()),
            ("arrival_time", TIMESTAMP),
            ("event_time", TIMESTAMP),
            ("verdict", pa.string()),
            ("reasons", pa.list_(pa.string())),
            ("system_timestamp", TIMESTAMP),
            ("lifetime_end", TIMESTAMP),
            ("watermark", TIMESTAMP),
            ("missed_windows", pa.list_(TIMESTAMP)),
            ("arrival_date", pa.date32()),
        ]
    )


def _write(lakehouse: Lakehouse, name: str, rows: list[Row], schema: pa.Schema) -> None:
    day = "arrival_date" if "arrival_date" in schema.names else "output_date"
    write_deltalake(
        lakehouse.uri(name), pa.Table.from_pylist(rows, schema=schema), partition_by=[day], mode="overwrite"
    )


def _record(lakehouse: Lakehouse, decisions: tuple[Decision, ...], windows: int) -> None:
    now = datetime.now(UTC)
    counts = Counter(decision.verdict for decision in decisions)
    row = {
        "run_id": "0" * 32,
        "job": "cars",
        "kind": "replay",
        "status": runs.SUCCEEDED,
        "job_fingerprint": JOB.fingerprint,
        "read_rule": "the whole log",
        "settled": False,
        "versions_read": {"arrivals/cars": 0},
        "versions_written": {"verdicts/cars": 0, "windows/cars": 0},
        "rows_written": {"verdicts/cars": sum(map(_kept, decisions)), "windows/cars": windows},
        "counts_by_verdict": dict(counts),
        "counts_by_reason": dict(Counter(reason for decision in decisions for reason in decision.reasons)),
        "output_fingerprint": "f" * 64,
        "started_at": now,
        "finished_at": now,
        "process": "test/1",
        "engine": {"tailrace": "0"},
    }
    runs.record(lakehouse, row)
