"""The files of deploy/: checked by their own tools, and the image's build steps run in a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

from pipelines.runtime import jars, java

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
COMPOSE_GO = "github.com/compose-spec/compose-go/v2@v2.16.2"
pytestmark = pytest.mark.slow


def _tool(name: str) -> str:
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    assert found is not None, f"{name} is missing: run these tests with 'make test-deploy'"
    return found


def _run(*command: str | Path, **how: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def test_the_dockerfile_passes_hadolint() -> None:
    _run(_tool("hadolint"), DEPLOY / "Dockerfile")


def test_the_compose_file_follows_the_schema_of_its_specification() -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go, whose module of the specification has the schema")
    module = json.loads(_run("go", "mod", "download", "-json", COMPOSE_GO).stdout)
    schema = json.loads((Path(module["Dir"]) / "schema" / "compose-spec.json").read_text())
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    validator = validator_for(schema)(schema)
    assert [error.message for error in validator.iter_errors(compose)] == []
    compose["services"]["code"]["restarts"] = "always"
    assert list(validator.iter_errors(compose)), "the schema refuses what it does not know"


def test_the_objects_of_kubernetes_follow_their_schemas() -> None:
    _run(_tool("kubernetes-validate"), "--strict", DEPLOY / "spark-on-kubernetes.yaml")


def test_an_executor_is_started_as_spark_on_kubernetes_describes_it(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\nfor one in "$@"; do echo "$one"; done\n')
    fake.chmod(0o755)
    described = {
        "JAVA_HOME": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "SPARK_JAVA_OPT_0": "-Da=1 2",
        "SPARK_JAVA_OPT_10": "-Dc=3",
        "SPARK_JAVA_OPT_2": "-Db=2",
        **{f"SPARK_EXECUTOR_{name}": name.lower() for name in ("MEMORY", "ID", "CORES", "POD_IP", "POD_NAME")},
        "SPARK_DRIVER_URL": "spark://driver",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_RESOURCE_PROFILE_ID": "0",
    }
    words = _run(DEPLOY / "entrypoint.sh", "executor", env=described).stdout.splitlines()
    assert words[:5] == ["-Da=1 2", "-Db=2", "-Dc=3", "-Xmsmemory", "-Xmxmemory"]
    assert words[-14:] == [
        "--driver-url",
        "spark://driver",
        "--executor-id",
        "id",
        "--cores",
        "cores",
        "--app-id",
        "app",
        "--hostname",
        "pod_ip",
        "--resourceProfileId",
        "0",
        "--podName",
        "pod_name",
    ]
    assert _run(DEPLOY / "entrypoint.sh", "echo", "a b", env=described).stdout == "a b\n"


def test_the_build_steps_of_the_image_leave_nothing_to_fetch(tmp_path: Path) -> None:
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source, target = ROOT / line[1:], tmp_path / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, target)
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "JAVA_HOME": str(java.require_home())}
    _run("sh", "deploy/build.sh", cwd=tmp_path, env=clean | {"PYTHON": sys.executable})
    made = tmp_path / ".venv"
    assert len(list((made / "share" / "tailrace" / "jars").glob("*.jar"))) == len(jars.DELTA) + len(jars.S3) + 1
    # a layer of an image keeps whole seconds, and the archive's name contains the times of the jars
    assert all(jar.stat().st_mtime_ns % 1_000_000_000 == 0 for jar in made.rglob("*.jar"))
    done = _run(made / "bin" / "tailrace", "doctor", "--json", cwd=tmp_path / "deploy", env=clean)
    found = {one["name"]: one["fit"] for one in json.loads(done.stdout)["findings"]}
    assert found["Delta jars"]
    assert found["class-data archive"]
    _run(made / "bin" / "python", "-c", "import assets.definitions, dagster_k8s, dagster_postgres", cwd=made, env=clean)
