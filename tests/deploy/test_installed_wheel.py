"""The wheel in an empty environment: ``pip install`` brings all that its commands ask for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.runtime import java

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?(==[^\\\n]*)", re.MULTILINE)
"""A package of the lock file: constraints of pip have neither extras nor hashes."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tailrace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that has the wheel, what the wheel itself asks for, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    source = folder / "source"
    # setuptools writes to the folder that it builds
    for name in ("pipelines", "assets", "resources"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet"]
    _run(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    (wheel,) = folder.glob("tailrace-*.whl")
    constraints = folder / "constraints.txt"
    pins = PINNED.findall((ROOT / "requirements.lock").read_text())
    constraints.write_text("".join(f"{name}{rest}\n" for name, rest in pins))
    _run(sys.executable, "-m", "venv", folder / "venv")
    binaries = folder / "venv" / "bin"
    _run(binaries / "python", "-m", "pip", "--quiet", "install", "--constraint", constraints, f"{wheel}[demo]")
    return binaries / "tailrace"


def test_commands_that_need_no_spark_work_at_once(tailrace: Path, tmp_path: Path) -> None:
    _run(tailrace.parent / "python", "-m", "pip", "check", cwd=tmp_path)
    checked = json.loads(_run(tailrace, "check", "departures_per_hour", "--json", cwd=tmp_path))
    assert checked["valid"]
    fit = _fit(tailrace, tmp_path)
    assert fit["Java"]
    assert not fit["Delta jars"]


def _fit(tailrace: Path, folder: Path) -> dict[str, bool]:
    """What ``doctor`` finds, by name: is it fit?"""
    command = [str(tailrace), "doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment(), check=False)
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return {one["name"]: one["fit"] for one in found}


def _run(*command: str | Path, cwd: Path = ROOT) -> str:
    text = list(map(str, command))
    done = subprocess.run(text, capture_output=True, text=True, cwd=cwd, env=_environment(), check=False)
    assert done.returncode == 0, f"{text}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    """Nothing that leads to this checkout or its environment."""
    left_out = ("PYTHONPATH", "VIRTUAL_ENV", "TAILRACE_JARS", "TAILRACE_SPARK_MASTER")
    kept = {name: text for name, text in os.environ.items() if name not in left_out}
    return {**kept, "JAVA_HOME": str(java.require_home())}
