"""What a session on a cluster is started with, found without starting one."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from pipelines.core.errors import EnvironmentUnfit
from pipelines.runtime.cluster import choose_python, is_cluster, master_of_environment, packages_archive
from pipelines.runtime.given import given_settings, submit_with_jars
from pipelines.runtime.session import settings_for

MASTER = "spark://10.0.0.1:7077"


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty file of Spark's defaults; no other setting is given."""
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    for name in ("PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON", "TAILRACE_SPARK_PACKAGES", "TAILRACE_SPARK_MASTER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "spark-defaults.conf"


def test_settings_are_read_from_the_file_of_defaults_and_the_submit_arguments(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.write_text("# ours\nspark.jars /a.jar,/b.jar \nspark.executor.memory=8g\n\nspark.ui.port: 4050\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--executor-memory 9g --conf spark.ui.port=4051 --verbose pyspark-shell")
    assert given_settings() == {
        "spark.jars": "/a.jar,/b.jar",
        "spark.executor.memory": "9g",
        "spark.ui.port": "4051",
    }


def test_the_file_of_defaults_may_be_named_and_need_not_exist(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert given_settings() == {}
    other = conf.with_name("other.conf")
    other.write_text("spark.eventLog.enabled true\n")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--properties-file {other} pyspark-shell")
    assert given_settings() == {"spark.eventLog.enabled": "true"}


def test_jars_of_the_submit_arguments_are_replaced_and_all_else_stays(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shlex.split(submit_with_jars("/d.jar")) == ["--jars", "/d.jar", "pyspark-shell"]
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--packages a:b:1 --jars /a.jar --conf 'spark.x=1 2' pyspark-shell")
    expected = ["--jars", "/a.jar,/d.jar", "--packages", "a:b:1", "--conf", "spark.x=1 2", "pyspark-shell"]
    assert shlex.split(submit_with_jars("/a.jar,/d.jar")) == expected


def test_sizes_that_the_user_gives_hold_and_what_results_depend_on_does_not_change(conf: Path) -> None:
    given = {
        "spark.sql.shuffle.partitions": "64",
        "spark.driver.memory": "12g",
        "spark.executor.memory": "20g",
        "spark.sql.session.timeZone": "Asia/Kolkata",
    }
    settings = settings_for(MASTER, given)
    assert not {"spark.sql.shuffle.partitions", "spark.driver.memory", "spark.executor.memory"} & set(settings)
    assert settings["spark.sql.session.timeZone"] == "UTC"
    assert settings["spark.executorEnv.TZ"] == "UTC"


def test_a_session_on_a_cluster_has_the_sizes_of_a_session_on_one_machine(conf: Path) -> None:
    sizes = ("spark.sql.shuffle.partitions", "spark.databricks.delta.snapshotPartitions", "spark.driver.memory")
    cluster, local = settings_for(MASTER, {}), settings_for("local[*]", {})
    assert [cluster[size] for size in sizes] == [local[size] for size in sizes] == ["4", "2", "3g"]
    assert "spark.driver.bindAddress" in local
    assert "spark.driver.bindAddress" not in cluster


def test_class_paths_and_options_of_the_driver_are_joined_to_those_given(conf: Path) -> None:
    given = {"spark.driver.extraClassPath": "/hadoop/*", "spark.driver.extraJavaOptions": "-Dx=1 -XX:+UseG1GC"}
    settings = settings_for(MASTER, given)
    assert settings["spark.driver.extraClassPath"].startswith("/hadoop/*:")
    options = settings["spark.driver.extraJavaOptions"]
    assert "-Dlog4j2.configurationFile=" in options
    assert "-XX:+UseParallelGC" not in options
    # the archive of classes belongs to another class path
    assert "@" not in options
    assert options.endswith("-Dx=1 -XX:+UseG1GC")


def test_executors_find_the_unpacked_packages_before_those_of_the_user(
    conf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "spark.executorEnv.PYTHONPATH" not in settings_for(MASTER, {})
    archive = tmp_path / "packages.zip"
    monkeypatch.setenv("TAILRACE_SPARK_PACKAGES", str(archive))
    with pytest.raises(EnvironmentUnfit, match=r"packages\.zip, which is not there; write it: 'tailrace pack --out "):
        packages_archive()
    archive.touch()
    settings = settings_for(MASTER, {"spark.executorEnv.PYTHONPATH": "/own"})
    assert settings["spark.executorEnv.PYTHONPATH"] == "tailrace_packages:/own"


def test_executors_look_up_the_driver_s_version_of_python_by_name(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os
    import sys

    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    choose_python({})
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    choose_python({})
    assert os.environ["PYSPARK_PYTHON"] == f"python3.{sys.version_info.minor}"
    assert os.environ["PATH"].split(":") == [str(Path(sys.executable).parent), "/usr/bin"]


def test_a_spark_connect_server_is_refused_with_the_reason(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPARK_MASTER", "sc://server:15002")
    with pytest.raises(EnvironmentUnfit, match="names a Spark Connect server, and the exact sums"):
        master_of_environment()


def test_masters_of_clusters_are_known(conf: Path) -> None:
    assert [is_cluster(master) for master in (MASTER, "k8s://https://h:443", "yarn", "local-cluster[2,1,1024]")] == [
        True,
        True,
        True,
        True,
    ]
    assert not is_cluster("local[*]")
    assert not is_cluster(master_of_environment())
