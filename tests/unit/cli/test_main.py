"""The command line as a whole: exit codes, one sentence an error, and its stack trace under --debug."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.cli.main import run

# Arrow opens the second file in a thread of its own, which is in Python when the process ends
_ENDS_WHILE_ARROW_READS = """
import atexit, sys, tempfile, time
from pathlib import Path
import pyarrow as pa, pyarrow.dataset as ds, pyarrow.fs as fs, pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pipelines.cli import main as module

class Slow(DeltaStorageHandler):
    def open_input_file(self, path):
        time.sleep(0 if path.startswith("0") else 1)
        return super().open_input_file(path)

def run(arguments):
    folder = tempfile.TemporaryDirectory()
    files = [f"{number}.parquet" for number in range(2)]
    for file in files:
        pq.write_table(pa.table({"a": [1]}), Path(folder.name) / file)
    data = ds.dataset(files, filesystem=fs.PyFileSystem(Slow(folder.name)), schema=pa.schema([("a", pa.int64())]))
    sys.stdout.write(f"{len(data.head(1))} row, ")
    atexit.register(lambda: (folder.cleanup(), sys.stdout.write(f"{Path(folder.name).exists()}")))
    return 3

module.run = run
module.main()
"""


def test_debug_shows_the_stack_trace_of_an_error_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", str(tmp_path / "absent.yaml"), "--debug"]) == 2
    *trace, sentence = capsys.readouterr().err.splitlines()
    assert trace[0] == "Traceback (most recent call last):"
    assert any(line.strip().startswith("raise UsageError") for line in trace)
    assert sentence.startswith("error: ")


def test_without_debug_an_error_is_one_sentence_and_under_json_an_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check", str(tmp_path / "absent.yaml"), "--json"]) == 2
    out, err = capsys.readouterr()
    assert err == f"error: {tmp_path}/absent.yaml: cannot read the job file: No such file or directory\n"
    found = json.loads(out)
    assert (found["error"], found["exit_code"], f"error: {found['message']}\n") == ("UsageError", 2, err)


def test_a_failure_that_tailrace_does_not_know_names_its_type_and_exits_4(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise ZeroDivisionError("division by zero\nmore")

    monkeypatch.setattr("pipelines.cli.main.application", broken)
    assert run(["doctor"]) == 4
    assert capsys.readouterr().err == (
        "error: ZeroDivisionError: division by zero; no table was half-written; --debug shows where it happened\n"
    )


def test_a_command_ends_with_its_code_and_all_its_output_though_a_thread_still_reads() -> None:
    ended = subprocess.run([sys.executable, "-c", _ENDS_WHILE_ARROW_READS], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (3, "1 row, False"), ended.stderr
