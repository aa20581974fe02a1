"""The command line in a process that stays: commands run without a start of Python and Spark for each.

The process is asked by a line of JSON, the arguments, and answers with one: exit code, stdout and stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_PROGRAM = """
import contextlib, io, json, os, sys
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from pipelines.cli.main import run
if "spark" in sys.argv:
    from pipelines.runtime.session import session
    session(short=True)
print("null", file=answers, flush=True)
for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as error:
        code = run(json.loads(line))
    print(json.dumps([code, out.getvalue(), error.getvalue()]), file=answers, flush=True)
"""
_LONGEST_SECONDS = 300


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    error: str

    @property
    def data(self) -> dict[str, Any]:
        """What it printed under ``--json``."""
        return dict(json.loads(self.out))

    @property
    def is_reported_well(self) -> bool:
        """Whether it did its work, or failed with one sentence and no stack trace."""
        errors = [line for line in self.error.splitlines() if line.startswith("error: ")]
        return "Traceback" not in self.error and (self.code in (0, 1, 3) or len(errors) == 1)


class CommandLine:
    """One such process. ``folder`` is its working directory; ``spark``: with a session, which takes seconds."""

    def __init__(self, folder: Path, *, spark: bool) -> None:
        arguments = [sys.executable, "-W", "ignore", "-c", _PROGRAM, *(["spark"] if spark else [])]
        with (folder / "stderr.txt").open("ab") as stderr:
            self._process = subprocess.Popen(
                arguments,
                cwd=folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
            )
        self._read = b""
        assert self._line(_LONGEST_SECONDS) == b"null", (folder / "stderr.txt").read_text()[-2000:]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for victim in self.family():
            end(victim)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def begin(self, *arguments: str) -> None:
        """Begin a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
        self._process.stdin.flush()

    def outcome(self, seconds: float = _LONGEST_SECONDS) -> Outcome | None:
        """How the command ended that was begun; None if its process is gone."""
        line = self._line(seconds)
        return None if line is None else Outcome(*json.loads(line))

    def run(self, *arguments: str) -> Outcome:
        """A command from its beginning to its end."""
        self.begin(*arguments)
        found = self.outcome()
        assert found is not None, f"the process of {arguments} is gone"
        return found

    def has_answered(self, seconds: float) -> bool:
        """Whether the command ends within that time."""
        return bool(self._read) or bool(select.select([self._process.stdout], [], [], seconds)[0])

    def family(self) -> dict[int, str]:
        """The processes that it consists of, by what they are: ``driver``, ``jvm``, ``worker`` of Python."""
        return family(self._process.pid)

    def _line(self, seconds: float) -> bytes | None:
        assert self._process.stdout is not None
        ends = time.monotonic() + seconds
        while b"\n" not in self._read:
            if not self.has_answered(max(0.0, ends - time.monotonic())):
                raise TimeoutError(f"no answer in {seconds} s")
            more = os.read(self._process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line


def family(pid: int) -> dict[int, str]:
    """A process and all that descend from it, by what they are."""
    children: dict[int, list[tuple[int, str]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            start, _, rest = entry.read_text().rpartition(")")
        except OSError:
            continue
        number, _, command = start.partition(" (")
        children.setdefault(int(rest.split()[1]), []).append((int(number), command))
    found = {pid: "driver"}
    left = [pid]
    for one in left:
        for child, command in children.get(one, []):
            found[child] = "jvm" if command == "java" else "worker"
            left.append(child)
    return found


def end(pid: int) -> None:
    """SIGKILL, where the process is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
