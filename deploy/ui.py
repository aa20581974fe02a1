"""Webserver, daemon and code location together, and stopped together: ``make ui``.

``dagster dev`` starts them as processes of its own. It stops them on Ctrl-C, but not where SIGINT is ignored, as it is
in a job that a shell put into the background; on SIGTERM, or when it is killed, it may leave some behind, and a replay
under way with its Java. So they get a process group of their own here: any of SIGINT, SIGTERM and SIGHUP stops Dagster
as Ctrl-C would, and what is left of the group after that is ended.

What follows on the command line goes to ``dagster dev``: ``make ui ARGS='--port 3001'``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parent.parent
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_ORDERLY_SECONDS = 30
_GRACE_SECONDS = 10


class Stopped(Exception):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def environment(given: dict[str, str]) -> dict[str, str]:
    """The environment of Dagster: its home and the lakehouse beside this repository, unless said otherwise."""
    home = Path(given.get("DAGSTER_HOME") or ROOT / ".dagster_home").absolute()
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        shutil.copy(ROOT / "deploy" / "dagster-local.yaml", home / "dagster.yaml")
    lakehouse = given.get("TAILRACE_LAKEHOUSE") or str(ROOT / "lakehouse")
    return {**given, "DAGSTER_HOME": str(home), "TAILRACE_LAKEHOUSE": lakehouse}


def main(arguments: list[str]) -> int:
    """Run until Dagster ends or a signal comes; 0 after a signal, else what Dagster ended with."""
    for number in STOPS:
        # set even where it was ignored; and what is handled here is default again in the programs started below
        signal.signal(number, _stop)
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "--workspace", str(ROOT / "workspace.yaml"), *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(dict(os.environ)), start_new_session=True)
    try:
        return process.wait()
    except Stopped:
        for number in STOPS:
            signal.signal(number, signal.SIG_IGN)
        # to the leader alone: it ends the others in order, and what it forgets is seen to below
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_ORDERLY_SECONDS)
        return 0
    finally:
        _end_group(process)


def _stop(number: int, _: FrameType | None) -> None:
    raise Stopped(number)


def _end_group(leader: subprocess.Popen[bytes]) -> None:
    """Nothing of the group goes on: asked first, then killed."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(leader.pid, number)
        except ProcessLookupError:
            return
        until = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < until and _lives(leader):
            time.sleep(0.1)


def _lives(leader: subprocess.Popen[bytes]) -> bool:
    leader.poll()
    try:
        os.killpg(leader.pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
