"""The wheel in an empty environment: the same commands as in a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pipelines.runtime import java

ROOT = Path(__file__).parents[3]

pytestmark = [pytest.mark.slow, pytest.mark.spark]


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel, and the lock file's packages, and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    uv, source = str(Path(sys.executable).parent / "uv"), folder / "source"
    # setuptools leaves what it builds where the sources are
    for name in ("pipelines", "assets", "resources"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    python = ["--python", sys.executable]
    _run([uv, "build", "--wheel", "--no-build-isolation", *python, "--out-dir", str(folder), str(source)])
    (wheel,) = folder.glob("tailrace-*.whl")
    _run([uv, "venv", *python, str(folder / "venv")])
    pip = [uv, "pip", "install", "--python", str(folder / "venv")]
    _run([*pip, "--require-hashes", "--requirements", str(ROOT / "requirements.lock")])
    _run([*pip, "--no-deps", str(wheel)])
    return folder / "venv" / "bin"


def test_setup_brings_what_the_demo_needs(commands: Path, tmp_path: Path) -> None:
    before = _checked(commands, tmp_path)
    assert not before["Delta jars"]
    found = json.loads(_run([str(commands / "tailrace"), "setup", "--json"], tmp_path))
    assert Path(found["jars"]).is_relative_to(commands.parent)
    assert Path(found["archive"]).is_file()
    assert all(_checked(commands, tmp_path).values())
    demo = json.loads(_run([str(commands / "tailrace"), "demo", "--json"], tmp_path))
    assert demo["run"]["output_fingerprint"].startswith("0403f0824131")


def _checked(commands: Path, folder: Path) -> dict[str, bool]:
    """What ``doctor`` finds, by name: is it fit?"""
    done = subprocess.run(
        [str(commands / "tailrace"), "doctor", "--json"],
        capture_output=True,
        text=True,
        cwd=folder,
        env=_environment(),
        check=False,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return {one["name"]: one["fit"] for one in found}


def _run(command: list[str], folder: Path = ROOT) -> str:
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=_environment(), check=False)
    assert done.returncode == 0, f"{command}: {done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def _environment() -> dict[str, str]:
    """Nothing that leads to this checkout."""
    kept = {
        name: text for name, text in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "TAILRACE_JARS")
    }
    return {**kept, "JAVA_HOME": str(java.require_home())}
