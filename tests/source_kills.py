"""Ingests from a source that are killed at a bad moment, in a process of their own."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import os, signal, sys
from pathlib import Path
from pipelines.ingest import batch
from pipelines.lakehouse import append
from source_rows import source_job, ingest

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def then_die(plain):
    return lambda *given, **more: (plain(*given, **more), die(None))

moment = sys.argv[1]
if moment == "before the rows":
    batch.Batch._write_arrivals = die
elif moment == "while reading":
    batch.SortedRuns.add = then_die(batch.SortedRuns.add)
elif moment == "after a data file":
    append.create_table_with_add_actions = append.DeltaTable.create_write_transaction = die
else:
    batch.Batch._write_arrivals = then_die(batch.Batch._write_arrivals)
ingest(source_job(sys.argv[2], sys.argv[4]), Path(sys.argv[3]))
"""
MOMENTS = ["while reading", "before the rows", "after a data file", "after the rows"]


def killed(moment: str, source: str, lakehouse: Path, regression: str = "quarantine") -> None:
    """Ingest what is new, and die at the moment."""
    command = [sys.executable, "-c", _PROGRAM, moment, source, str(lakehouse), regression]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(sys.path)}, check=False)
    assert done.returncode == -signal.SIGKILL
