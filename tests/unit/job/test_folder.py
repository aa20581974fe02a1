"""Job files of a folder: the jobs, and the files that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.cli.common import find_job
from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.model import Job
from pipelines.job.folder import job_files, jobs_folder, load_folder

GOOD = """\
tailrace: 1
job: good
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: cars, window: {tumbling: {size: 1h}}, aggregates: {n: "count(*)"}}
"""


def test_the_shipped_examples_are_the_folder_unless_the_environment_names_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TAILRACE_JOBS", raising=False)
    assert (jobs_folder() / "departures_per_hour.yaml").is_file()
    monkeypatch.setenv("TAILRACE_JOBS", str(tmp_path))
    assert jobs_folder() == tmp_path


def test_files_that_are_not_yaml_are_passed_over(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "notes.md", "c.yaml.bak"):
        (tmp_path / name).write_text(GOOD, encoding="utf-8")
    assert [path.name for path in job_files(tmp_path)] == ["a.yaml", "b.yml"]


def test_a_broken_file_is_listed_with_its_error(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(GOOD.replace("from: cars", "from: car"), encoding="utf-8")
    (tmp_path / "good.yaml").write_text(GOOD, encoding="utf-8")
    found = load_folder(tmp_path)
    assert isinstance(found[tmp_path / "bad.yaml"], JobFileError)
    assert isinstance(found[tmp_path / "good.yaml"], Job)


def test_the_second_file_of_a_job_is_an_error_that_names_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(GOOD, encoding="utf-8")
    (tmp_path / "b.yaml").write_text(GOOD, encoding="utf-8")
    assert "job 'good' is already defined in a.yaml" in str(load_folder(tmp_path)[tmp_path / "b.yaml"])


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="TAILRACE_JOBS names no folder"):
        load_folder(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["good", "file_name"])
def test_a_job_is_found_by_its_name_and_by_its_files(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file_name.yaml").write_text(GOOD, encoding="utf-8")
    monkeypatch.setenv("TAILRACE_JOBS", str(tmp_path))
    assert find_job(name).name == "good"
