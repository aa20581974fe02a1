"""Webserver, daemon and code location together, and stopped together: ``make ui``.

``dagster dev`` starts them as processes of its own. It stops them on Ctrl-C, but not where SIGINT is ignored, as it is
in a job that a shell put into the background; on SIGTERM, or when it is killed, it may leave some behind, and a replay
under way with its Java. So they get a process group of their own here: any of SIGINT, SIGTERM and SIGHUP stops Dagster
as Ctrl-C would, and what is left of the group after that is ended.

Reports are served too, to this machine alone, so that the links to them open: browsers follow no link from a page of
the web to a file. ``TAILRACE_REPORTS_PORT`` is the port (left out: 3010). With ``TAILRACE_REPORTS_URL`` others serve
them.

What follows on the command line goes to ``dagster dev``: ``make ui ARGS='--port 3001'``.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import BinaryIO

ROOT = Path(__file__).resolve().parent.parent
STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
REPORTS_PORT = 3010
_ORDERLY_SECONDS = 30
_GRACE_SECONDS = 10


class Stopped(Exception):
    """A signal asked for the end."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def environment(given: dict[str, str]) -> dict[str, str]:
    """The environment of Dagster: where no others are given, its home and the lakehouse are in this repository."""
    home = Path(given.get("DAGSTER_HOME") or ROOT / ".dagster_home").absolute()
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "dagster.yaml").exists():
        shutil.copy(ROOT / "deploy" / "dagster-local.yaml", home / "dagster.yaml")
    lakehouse = given.get("TAILRACE_LAKEHOUSE") or str(ROOT / "lakehouse")
    return {**given, "DAGSTER_HOME": str(home), "TAILRACE_LAKEHOUSE": lakehouse}


class _Quiet(SimpleHTTPRequestHandler):
    """Files of one folder for browsers of this machine, without a line on the terminal for each."""

    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Nothing that a link leads to outside the folder, and nothing under another name of this machine: a page of
        another site may give its own name this address."""
        host = self.headers.get("Host", "").partition(":")[0]
        inside = Path(self.translate_path(self.path)).resolve().is_relative_to(Path(self.directory).resolve())
        if host not in ("127.0.0.1", "localhost") or not inside:
            self.send_error(404)
            return None
        return super().send_head()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


def serve_reports(environment: dict[str, str]) -> dict[str, str]:
    """The environment with the address of the reports, served from here on as long as this process lives.

    Unchanged where it names an address already, where the lakehouse is no folder, and where the port is taken: then
    links to reports are paths, and that is said.
    """
    lakehouse = environment["TAILRACE_LAKEHOUSE"].removeprefix("file://")
    if environment.get("TAILRACE_REPORTS_URL") or "://" in lakehouse:
        return environment
    port = int(environment.get("TAILRACE_REPORTS_PORT") or REPORTS_PORT)
    handler = partial(_Quiet, directory=str(Path(lakehouse).absolute() / "reports"))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        print(f"reports are not served at port {port}: {error.strerror}; TAILRACE_REPORTS_PORT names another")
        return environment
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return {**environment, "TAILRACE_REPORTS_URL": f"http://127.0.0.1:{server.server_port}"}


def main(arguments: list[str]) -> int:
    """Run until Dagster ends or a signal comes; 0 after a signal, else what Dagster ended with."""
    for number in STOPS:
        # set even where it was ignored; and what is handled here is default again in the programs started below
        signal.signal(number, _stop)
    dagster = str(Path(sys.executable).with_name("dagster"))
    command = [dagster, "dev", "--workspace", str(ROOT / "workspace.yaml"), *arguments]
    served = serve_reports(environment(dict(os.environ)))
    process = subprocess.Popen(command, cwd=ROOT, env=served, start_new_session=True)
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
