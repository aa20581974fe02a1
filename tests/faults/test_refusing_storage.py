"""Storage that refuses: one sentence, and a run whose end could not be recorded is abandoned by the next one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from command_line import CommandLine
from deltalake import CommitProperties, write_deltalake
from deltalake.exceptions import DeltaError
from kills import JOB, OPERATIONS, write_records
from storage import Refusals, read_only_table

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import EVERYTHING
from pipelines.ingest.batch import ingest
from pipelines.lakehouse import runs
from pipelines.lakehouse.damage import explained
from pipelines.lakehouse.fence import Fence
from pipelines.lakehouse.root import Lakehouse

FULL = "Failed to parse parquet: External: Generic LocalFileSystem error: No space left on device (os error 28)"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (FULL, "No space left on device"),
        ("Unable to create file: Permission denied (os error 13)", "Permission denied"),
        ("An error occurred\n java.io.IOException: Read-only file system", "Read-only file system"),
        ("Operation not permitted (os error 1)", "Operation not permitted"),
    ],
)
def test_a_refusal_of_the_storage_is_one_sentence_with_what_to_do(text: str, meaning: str) -> None:
    error = DeltaError(text)
    error.add_note("it has written windows/cars (version 3)")
    found = explained(error)
    assert isinstance(found, EnvironmentUnfit)
    assert str(found).startswith(f"the storage refuses: {meaning}; correct that and run the command again")
    assert found.__notes__ == ["it has written windows/cars (version 3)"]


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("[FAILED_READ_FILE.FILE_NOT_EXIST] Error while reading file a/b.parquet. File does not exist.", "missing"),
        ("[FAILED_READ_FILE.NO_HINT] Error while reading file a/b.parquet.", "damaged"),
        ("Parquet magic bytes not found in footer of a/b.parquet", "damaged"),
    ],
)
def test_a_data_file_that_is_gone_is_missing_and_one_that_cannot_be_read_is_damaged(text: str, state: str) -> None:
    assert str(explained(OSError(text))).startswith(f"the data file a/b.parquet of the lakehouse is {state};")


def test_an_error_that_is_a_sentence_already_stays_as_it_is() -> None:
    assert explained(UsageError("Permission denied")) is None
    assert explained(ValueError("something else")) is None


def test_a_run_whose_end_could_not_be_recorded_is_abandoned_by_the_next_of_its_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lakehouse, error = Lakehouse.at(tmp_path), RuntimeError("the first trouble")
    begun: dict[str, Any] = {"run_id": "1", "job": "cars", "kind": "replay", "started_at": datetime.now(UTC)}
    begun |= {"status": runs.RUNNING, "process": runs.this_process()}
    runs.record(lakehouse, begun)
    runs.record(lakehouse, {**begun, "run_id": "2"})

    def full(*_: object) -> None:
        raise OSError(FULL)

    with monkeypatch.context() as storage:
        storage.setattr(runs, "commit", full)
        runs.record_failure(lakehouse, JOB, begun, error)
    assert error.__notes__ == [f"the run ledger could not be written either and still has the run as running: {FULL}"]
    assert runs.abandon_dead(lakehouse, JOB) == ["1"]
    assert [run["status"] for run in runs.runs_of(lakehouse, "cars")] == ["abandoned", "running"]


@pytest.mark.slow
def test_a_lakehouse_that_becomes_immutable_is_named_in_one_sentence(tmp_path: Path) -> None:
    with CommandLine(tmp_path, spark=False) as helper:
        refusals, chance = Refusals(tmp_path, OPERATIONS["ingest"], helper), Random(1)
        for _ in range(2):
            assert refusals.refuse(read_only_table, chance) == []


def test_a_replay_that_is_refused_between_two_tables_records_what_it_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.replay import evaluate, run

    ingest(JOB, "cars", [write_records(tmp_path / "a.jsonl", range(9))], tmp_path)

    def refused(_: Any, __: Any, place: Lakehouse, ___: Any, fence: Fence, *____: Any) -> None:
        about = CommitProperties(custom_metadata={"run_id": fence.row["run_id"]})
        write_deltalake(place.uri("verdicts/cars"), pa.table({"a": [1]}), commit_properties=about)
        error = OSError(FULL)
        error.add_note("the slices before noon are written")
        raise error

    monkeypatch.setattr(evaluate, "evaluate", refused)
    session: Any = object()
    with pytest.raises(EnvironmentUnfit, match="the storage refuses: No space left on device") as caught:
        run.replay(JOB, EVERYTHING, tmp_path, spark=session)
    (row,) = runs.runs_of(Lakehouse.at(tmp_path), "cars")
    assert (row["status"], row["versions_written"]) == ("failed", {"verdicts/cars": 0})
    left = "the slices before noon are written; it has written verdicts/cars (version 0)"
    assert row["error"] == f"{caught.value}; {left}"
