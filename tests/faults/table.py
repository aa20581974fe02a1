"""``make faults``: kills, fuzzed bytes, fuzzed records, layouts and canaries, as one table."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from fuzz import crashes, damaged, parsers
from kills import JOB, OPERATIONS, Bench

from pipelines.ingest.batch import ingest

_BATCH = 20_000


def kills(folder: Path, seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Kills by operation, and how many left something wrong."""
    for name, operation in OPERATIONS.items():
        place = folder / name
        place.mkdir()
        bench, chance = Bench(place, operation), Random(f"{name} {seed}")
        found = [wrong for _ in range(count // len(OPERATIONS)) if (wrong := bench.kill(chance))]
        for wrong in found:
            print(f"{name}: {'; '.join(wrong)}")
        yield f"kills of {name}", count // len(OPERATIONS), len(found)


def fuzzed_bytes(folder: Path, seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Damaged inputs by parser, and how many made it crash."""
    for parser in parsers(folder):
        found = list(crashes(parser, seed, count))
        for body, crash in found[:3]:
            print(f"{parser.name}: {type(crash).__name__}: {crash}\n    {body[:200]!r}")
        yield f"damaged inputs: {parser.name}", count, len(found)


def fuzzed_records(folder: Path, seed: int, count: int) -> tuple[str, int, int]:
    """Damaged records, and how many are not in exactly one of the log and the quarantine."""
    chance, lost = Random(f"records {seed}"), 0
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
    return "fuzzed records not accounted for", count, lost


def main() -> None:
    """Print the table; exit 1 if anything is wrong."""
    arguments = argparse.ArgumentParser()
    for name, default in (("seed", 1), ("kills", 40), ("fuzz", 5_000), ("records", 100_000)):
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
    if given.kills:
        yield from kills(root, given.seed, given.kills)


if __name__ == "__main__":
    main()
