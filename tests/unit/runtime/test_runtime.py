"""What sessions run on, found and set up without starting one."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.runtime import archive, java
from pipelines.runtime.session import driver_options


def _home(folder: Path, reported: str) -> Path:
    """A runtime that says of itself what its release file says, and fails if it is run."""
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(reported)
    launcher = folder / "bin" / "java"
    launcher.write_text("#!/bin/sh\nexit 1\n")
    launcher.chmod(0o755)
    return folder


@pytest.fixture
def jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars with one jar in it, a runtime, and a Spark without jars or settings."""
    for name in ("jars", "spark/jars"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "jars" / "one.jar").write_text("one")
    monkeypatch.setenv("TAILRACE_JARS", str(tmp_path / "jars"))
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("JAVA_HOME", str(_home(tmp_path / "java", 'JAVA_VERSION="21.0.8"\n')))
    for name in ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "jars"


def _keep_archive() -> None:
    archive.path().parent.mkdir()
    archive.path().write_text("classes")
    archive.path().with_suffix(".args").write_text("-Xshare:auto")


def test_a_runtime_s_version_is_read_without_starting_it(tmp_path: Path) -> None:
    assert java.version_of(str(_home(tmp_path / "a", 'JAVA_VERSION="17.0.15"\n') / "bin" / "java")) == 17
    assert java.version_of(str(_home(tmp_path / "b", 'JAVA_VERSION="1.8.0_402"\n') / "bin" / "java")) == 8
    assert java.version_of(str(tmp_path / "none" / "bin" / "java")) is None


def test_an_archive_belongs_to_one_runtime_and_one_set_of_jars(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = archive.path()
    assert archive.path() == first
    monkeypatch.setenv("JAVA_HOME", str(_home(tmp_path / "newer", 'JAVA_VERSION="21.0.9"\n')))
    second = archive.path()
    (jars / "two.jar").write_text("two")
    assert len({first, second, archive.path()}) == 3


def test_an_archive_is_used_where_there_is_one_that_fits(jars: Path) -> None:
    assert archive.java_options() == ""
    _keep_archive()
    assert archive.java_options() == f'"@{archive.path().with_suffix(".args")}"'
    (jars / "one.jar").write_text("another")
    assert archive.java_options() == ""


def test_settings_of_spark_s_own_come_before_an_archive(
    jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _keep_archive()
    (tmp_path / "spark" / "conf").mkdir()
    assert archive.java_options() != ""
    (tmp_path / "spark" / "conf" / "core-site.xml").write_text("<configuration/>")
    assert archive.java_options() == ""
    (tmp_path / "spark" / "conf" / "core-site.xml").unlink()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert archive.java_options() == ""


def test_the_light_compiler_is_kept_away_from_long_jobs(jars: Path) -> None:
    assert "-XX:TieredStopAtLevel=1" in driver_options(short=True).split()
    assert "-XX:TieredStopAtLevel=1" not in driver_options(short=False)


def test_an_archive_that_cannot_be_made_is_reported_and_stops_nothing(jars: Path, tmp_path: Path) -> None:
    from pipelines.core.errors import EnvironmentUnfit

    with pytest.raises(EnvironmentUnfit, match="no class-data archive was written: "):
        archive.make()
    assert list((tmp_path / "classes").iterdir()) == []
    assert archive.java_options() == ""
