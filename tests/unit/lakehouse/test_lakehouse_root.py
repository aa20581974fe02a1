"""Names of tables and where they lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import OutputRange
from pipelines.core.time import parse_instant
from pipelines.lakehouse.layout import WINDOWS
from pipelines.lakehouse.root import Lakehouse


def test_a_relative_folder_is_made_absolute_and_a_uri_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Lakehouse.at("house").uri("runs") == f"{tmp_path}/house/runs"
    assert Lakehouse.at("s3://bucket/house/").uri("windows/cars") == "s3://bucket/house/windows/cars"


@pytest.mark.parametrize("name", ["../elsewhere", "windows/", "Windows/cars", "windows/a b", "windows//a", ""])
def test_a_name_that_leaves_the_lakehouse_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="not a table's name"):
        Lakehouse.at("/house").uri(name)


@pytest.mark.parametrize("setting", ["AWS_S3_ALLOW_UNSAFE_RENAME=true", "AWS_CONDITIONAL_PUT=disabled"])
def test_a_setting_that_lets_a_commit_overwrite_another_is_refused_on_s3(
    setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    variable, _, value = setting.partition("=")
    Lakehouse.at("s3://bucket/lake").require_writable()
    monkeypatch.setenv(variable, value)
    Lakehouse.at(tmp_path).require_writable()
    with pytest.raises(EnvironmentUnfit) as caught:
        Lakehouse.at("s3://bucket/lake").require_writable()
    assert str(caught.value) == (
        f"with {setting} a commit to s3://bucket/lake may overwrite another writer's;"
        f" unset {variable}: commits are then conditional writes"
    )


def test_a_range_s_condition_does_not_touch_the_day_that_its_end_begins() -> None:
    output = OutputRange(parse_instant("2026-01-01T00:00:00Z"), parse_instant("2026-01-02T00:00:00Z"))
    assert WINDOWS.condition(output) == (
        "window_end >= TIMESTAMP '2026-01-01T00:00:00Z' AND output_date >= DATE '2026-01-01'"
        " AND window_end < TIMESTAMP '2026-01-02T00:00:00Z' AND output_date <= DATE '2026-01-01'"
    )
    assert WINDOWS.condition(OutputRange()) is None
