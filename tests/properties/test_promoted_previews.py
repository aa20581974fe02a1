"""A promoted preview is the replay: row for row and fingerprint for fingerprint, for random jobs, logs and ranges."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest
from property_logs import Example, example

from pipelines.core.model import Arrival, OutputRange, Profile
from pipelines.core.time import format_instant
from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.replay.promote import promote
from pipelines.replay.run import replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


def _record(one: Example, arrival: Arrival) -> str:
    """A line of a file to ingest."""
    record: dict[str, Any] = {
        "arrival_time": format_instant(arrival.arrival_time_us),
        "input_partition": arrival.input_partition,
        "sequence": arrival.sequence,
    }
    if arrival.punctuation_us is not None:
        return json.dumps(record | {"punctuation_time": format_instant(arrival.punctuation_us)})
    kinds = {column.name: column.type for column in one.job.input(arrival.input).columns}
    for name, value in arrival.payload.items():
        record[name] = format_instant(value) if kinds[name] == "timestamp" and value is not None else value
    return json.dumps(record)


def _ingested(one: Example, folder: Path) -> Path:
    for part in one.job.inputs:
        file = folder / f"{part.name}.jsonl"
        file.write_text("".join(_record(one, row) + "\n" for row in one.log if row.input == part.name))
        ingest(one.job, part.name, [file], folder / "lakehouse")
    return folder / "lakehouse"


def _rows(one: Example, place: Path) -> dict[str, list[dict[str, Any]]]:
    names = ("windows", "verdicts", *(["dead_letters"] if one.job.profile == "atlas" else []))
    return {name: plain_rows(rows) for name in names if (rows := rows_of(one.job, name, place)) is not None}


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))])
@pytest.mark.parametrize("profile", get_args(Profile))
def test_a_promoted_preview_is_the_replay(profile: str, seed: int, tmp_path: Path, spark: SparkSession) -> None:
    one = example(seed, profile)
    place = _ingested(one, tmp_path)
    middle = one.log[len(one.log) // 2].arrival_time_us
    replay(one.job, OutputRange(None, middle), place, spark=spark)
    shutil.copytree(place, tmp_path / "replayed")
    expected = replay(one.job, one.output, tmp_path / "replayed", spark=spark)
    replay(one.job, one.output, place, spark=spark, preview="random")
    promoted = promote(one.job, "random", place, spark=spark)
    assert promoted["output_fingerprint"] == expected.output_fingerprint, one
    assert _rows(one, place) == _rows(one, tmp_path / "replayed"), one
    ours, theirs = (runs_of(Lakehouse.at(root), one.job.name)[-1] for root in (place, tmp_path / "replayed"))
    for name in ("fingerprints", "counts_by_verdict", "rows_written", "versions_read", "settled", "read_from"):
        assert ours[name] == theirs[name], one
