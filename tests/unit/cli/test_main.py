"""The command line as a whole: exit codes, one sentence an error, and its stack trace under --debug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pipelines.cli.main import run


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
        "error: ZeroDivisionError: division by zero; nothing was half-written; --debug shows where it happened\n"
    )
