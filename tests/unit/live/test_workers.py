"""Python workers of Spark."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

_PROGRAM = """
import importlib, sys, zipfile
from pipelines.live.spark.workers import trust_archives
archive = sys.argv[1]
sys.path.insert(0, archive)
import first
if sys.argv[2] == "trusted":
    trust_archives()
with zipfile.ZipFile(archive, "a") as file:
    file.writestr("second.py", "")
importlib.invalidate_caches()
print(sys.path_importer_cache[archive].find_spec("second") is not None)
"""


@pytest.mark.parametrize(("how", "found"), [("trusted", "False"), ("looked at again", "True")])
def test_an_archive_that_is_trusted_is_not_read_again(how: str, found: str, tmp_path: Path) -> None:
    archive = tmp_path / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("first.py", "")
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(archive), how], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == found
