"""``make faults``: kills, races, layouts, fuzzed bytes and fuzzed records, as one table."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random

from command_line import CommandLine
from deltalake import DeltaTable
from fuzz import crashes, damaged, parsers
from kills import JOB, OPERATIONS, kill_all
from layouts import layouts
from races import race_all
from storage import Refusals, refuse_all

from pipelines.ingest.batch import ingest

DEFAULTS = {"seed": 1, "kills": 21, "refusals": 15, "races": 20, "layouts": 30, "fuzz": 5_000, "records": 100_000}
_BATCH = 20_000


def troubled_commands(root: Path, seed: int, kills: int, refusals: int) -> Iterator[tuple[str, int, int]]:
    """Commands that are killed, and commands whose storage refuses."""
    with CommandLine(root, spark=True) as helper:

        @cache
        def trials(name: str) -> Refusals:
            folder = root / name.replace(", ", "-").replace(" ", "-")
            folder.mkdir()
            return Refusals(folder, OPERATIONS[name], helper)

        yield from kill_all(trials, seed, kills)
        yield from refuse_all(trials, seed, refusals)


def fuzzed_bytes(folder: Path, seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Damaged inputs by parser, and how many made it crash."""
    for parser in parsers(folder):
        found = list(crashes(parser, seed, count))
        for body, crash in found[:3]:
            print(f"{parser.name}: {type(crash).__name__}: {crash}\n    {body[:200]!r}")
        yield f"damaged inputs: {parser.name}", count, len(found)


def fuzzed_records(folder: Path, seed: int, count: int) -> tuple[str, int, int]:
    """Damaged records, and how many are not in exactly one of the log and the quarantine."""
    chance, lost, taken, refused = Random(f"records {seed}"), 0, 0, 0
    for first in range(0, count, _BATCH):
        lines = []
        for number in range(first, min(first + _BATCH, count)):
            at = "2026-01-01T12:00:00Z"
            row = {"arrival_time": at, "input_partition": 0, "sequence": number, "at": at, "booth": "a", "toll": 1.5}
            body = json.dumps(row).encode()
            lines.append(damaged(body, (body,), chance).replace(b"\n", b" ") if chance.random() < 0.5 else body)
        file = folder / "records.jsonl"
        file.write_bytes(b"\n".join(lines))
        records = sum(bool(line.decode("utf-8", "replace").strip()) for line in lines)
        done = ingest(JOB, "cars", [file], folder / "lakehouse")
        lost += abs(records - done.appended - done.quarantined - done.duplicates)
        taken, refused = taken + done.appended, refused + done.quarantined
    for table, reported in (("arrivals", taken), ("quarantine", refused)):
        lost += abs(DeltaTable(folder / "lakehouse" / table / "cars").to_pyarrow_dataset().count_rows() - reported)
    return "fuzzed records not accounted for", count, lost


def main() -> None:
    """Print the table; exit 1 if anything is wrong."""
    arguments = argparse.ArgumentParser()
    for name, default in DEFAULTS.items():
        arguments.add_argument(f"--{name}", type=int, default=default)
    given = arguments.parse_args()
    print(f"seed {given.seed}\n{'what':<42}{'tried':>10}{'wrong':>8}{'seconds':>10}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="tailrace-faults-") as folder:
        began = time.monotonic()
        for what, tried, wrong in _all(Path(folder), given):
            print(f"{what:<42}{tried:>10,}{wrong:>8}{time.monotonic() - began:>10.1f}", flush=True)
            began, failed = time.monotonic(), failed or wrong > 0
    raise SystemExit(failed)


def _all(root: Path, given: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    if given.fuzz:
        yield from fuzzed_bytes(root, given.seed, given.fuzz)
    if given.records:
        yield fuzzed_records(root, given.seed, given.records)
    if given.kills or given.refusals:
        yield from troubled_commands(root, given.seed, given.kills, given.refusals)
    if given.races:
        (root / "races").mkdir()
        yield from race_all(root / "races", given.seed, given.races)
    if given.layouts:
        yield layouts(root, given.seed, given.layouts)


if __name__ == "__main__":
    main()
