"""``tailrace doctor``: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from pipelines.cli.cluster_findings import cluster_findings
from pipelines.cli.common import context, emit
from pipelines.cli.findings import Finding
from pipelines.core.errors import EnvironmentUnfit

PINNED = ("pyspark", "delta-spark", "deltalake", "pyarrow", "numpy", "pandas", "pydantic", "sqlglot")
ORCHESTRATION = ("dagster", "dagster-webserver")


def doctor() -> None:
    """Check what Tailrace needs on this machine and its cluster; exit code 4 when something required is missing."""
    lakehouse = context().lakehouse
    findings = findings_of(lakehouse)
    if not any(finding.required and not finding.fit for finding in findings):
        findings += cluster_findings(lakehouse)
    unfit = sum(finding.required and not finding.fit for finding in findings)
    emit({"fit": not unfit, "findings": [asdict(finding) for finding in findings]}, _lines(findings, unfit))
    if unfit:
        raise typer.Exit(4)


def _lines(findings: Sequence[Finding], unfit: int) -> Iterator[str]:
    for finding in findings:
        sign = "ok  " if finding.fit else ("MISS" if finding.required else "note")
        remedy = "" if finding.fit else f" -> {finding.remedy}"
        yield f"{sign} {finding.name}: {finding.seen}{remedy}"
    yield f"{unfit} required thing(s) missing" if unfit else "fit"


def findings_of(lakehouse: str) -> list[Finding]:
    """Everything that can be checked without starting Spark."""
    from pipelines.lakehouse.object_stores import is_s3

    for_s3 = [_s3_jars()] if is_s3(lakehouse) else []
    return [_python(), _java(), _jars(), *for_s3, _archive(), *_packages(), _lakehouse(lakehouse), _memory()]


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", sys.version_info >= (3, 11), version, "install Python 3.11 or newer")


def _java() -> Finding:
    from pipelines.runtime import java

    home = java.find_home()
    if home is None:
        return Finding("Java", False, "none of version 17 or 21", "run 'make install', or set JAVA_HOME")
    return Finding("Java", True, f"{java.version_of(str(home / 'bin' / 'java'))} in {home}")


def _jars() -> Finding:
    from pipelines.runtime import jars

    absent = jars.missing()
    if absent:
        return Finding("Delta jars", False, f"{absent[0]} is missing or altered", "run 'tailrace setup'")
    return Finding("Delta jars", True, f"{len(jars.DELTA)} in {jars.directory()}, hashes as pinned")


def _s3_jars() -> Finding:
    from pipelines.runtime import jars

    absent = jars.missing_for_s3()
    if absent:
        return Finding("S3 jars", False, f"{absent[0]} is missing or altered", "run 'tailrace setup --s3'")
    return Finding("S3 jars", True, f"{len(jars.S3)} and the log store in {jars.directory()}, hashes as pinned")


def _archive() -> Finding:
    from pipelines.runtime import archive, java

    name = "class-data archive"
    remedy = "run 'tailrace setup': sessions then start in half the time"
    if java.find_home() is None:
        return Finding(name, False, "none without Java", remedy, required=False)
    if archive.java_options():
        return Finding(name, True, f"{archive.path().stat().st_size / 2**20:.0f} MiB, {archive.path()}")
    if archive.path().is_file():
        found = "not used: Spark has settings of its own"
        return Finding(name, False, found, "nothing: those settings come first", required=False)
    return Finding(name, False, "none for this Java and these jars", remedy, required=False)


def _packages() -> list[Finding]:
    findings = []
    for name in (*PINNED, *ORCHESTRATION):
        try:
            findings.append(Finding(name, True, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            required = name in PINNED
            findings.append(Finding(name, False, "not installed", "run 'make install'", required))
    return findings


def _lakehouse(root: str) -> Finding:
    if "://" in root:
        return _object_store(root)
    path = Path(root).absolute()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=existing):
            pass
    except OSError as error:
        return Finding("lakehouse", False, f"{path}: {error.strerror}", "choose a folder you may write to: --lakehouse")
    free_gib = shutil.disk_usage(existing).free / 2**30
    return Finding("lakehouse", True, f"{path} can be written, {free_gib:.0f} GiB free")


def _object_store(root: str) -> Finding:
    from pipelines.lakehouse import object_stores

    try:
        object_stores.require_safe_commits(root)
        object_stores.write_object(root, "_doctor/written", b"")
        object_stores.remove_folder(root, "_doctor")
    except (EnvironmentUnfit, OSError, ValueError) as error:
        remedy = "docs/object-stores.md has the settings of each store"
        return Finding("lakehouse", False, f"{root}: {object_stores.reason_of(error)}", remedy)
    return Finding("lakehouse", True, f"{root} can be written")


def _memory() -> Finding:
    total_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = f"{total_gib:.1f} GiB, {os.cpu_count()} cores"
    return Finding("memory", total_gib >= 4, found, "4 GiB are advised", required=False)
