"""``tailrace stream``: how its options reach the live run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pipelines.cli.main import run
from pipelines.core.errors import UsageError

JOB = """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: cars, window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)"}}
"""


@pytest.mark.parametrize(
    ("options", "from_start"),
    [([], False), (["--restart"], True), (["--anew"], True)],
    ids=["neither", "restart", "its former name"],
)
def test_a_stream_starts_again_only_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], from_start: bool
) -> None:
    asked = []

    def stream(*_: Any, **given: Any) -> None:
        asked.append(given["from_start"])
        raise UsageError("not run here")

    monkeypatch.setattr("pipelines.live.run.stream", stream)
    (tmp_path / "cars.yaml").write_text(JOB)
    assert run(["stream", str(tmp_path / "cars.yaml"), "--until-caught-up", *options]) == 2
    assert asked == [from_start]


def test_help_lists_restart_and_not_its_former_name(capsys: pytest.CaptureFixture[str]) -> None:
    run(["stream", "--help"])
    printed = capsys.readouterr().out
    assert "--restart" in printed
    assert "--anew" not in printed
