"""The archive of packages for executors."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from pipelines.runtime import pack


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive with the smallest of the packages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pack, "WORKERS_IMPORT", ("sqlglot",))
        target = tmp_path_factory.mktemp("archive") / "packages.zip"
        pack.pack(target)
    return target


def test_a_python_without_packages_runs_from_the_archive(archive: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(tmp_path / "unpacked")
    code = "import sqlglot, pipelines.core.model as model; print(sqlglot.__file__, model.__file__)"
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, 'unpacked'); {code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == [
        str(tmp_path / "unpacked/sqlglot/__init__.py"),
        str(tmp_path / "unpacked/pipelines/core/model.py"),
    ]


def test_the_same_packages_give_the_same_bytes(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack, "WORKERS_IMPORT", ("sqlglot",))
    pack.pack(tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_the_archive_has_no_path_of_this_machine_and_no_compiled_files(archive: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        names = opened.namelist()
    assert all(not name.startswith("/") and ".." not in name for name in names)
    assert not [name for name in names if name.endswith((".pyc", "/RECORD", "/direct_url.json"))]
    assert "pipelines/live/spark/operator.py" in names


def test_what_the_packages_require_is_packed_and_what_only_an_extra_requires_is_not() -> None:
    names = {one.name for one in pack.closure(["pandas"])}
    assert {"pandas", "numpy", "python-dateutil", "six"} <= names
    assert not {"pytest", "matplotlib", "hypothesis"} & names
