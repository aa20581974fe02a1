"""A real S3-compatible server on loopback, and a proxy before it that loses answers or conditions."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

CANARIES = ("CANARYACCESSKEYID000", "canarysecretaccesskey0000000000000000000")
"""Credentials that must not be found anywhere."""
_DEADLINE_S = 60
_HOP = ("connection", "transfer-encoding", "content-length")


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A server that keeps its objects in memory; its address."""
    program = shutil.which("moto_server", path=str(Path(sys.executable).parent)) or shutil.which("moto_server")
    assert program is not None, "moto is missing: run these tests with 'make test-object-store'"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen([program, "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log)
        try:
            _wait(process, port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def make_bucket(address: str, name: str) -> None:
    """A bucket; the server asks nobody who he is."""
    urllib.request.urlopen(urllib.request.Request(f"{address}/{name}", method="PUT"), timeout=30).close()


@contextmanager
def proxied(address: str, *, loses_answer: Callable[[str], bool] | None = None) -> Iterator[str]:
    """A proxy before ``address``; its own address. It cuts the connection after a PUT of a path for which
    ``loses_answer`` is true, once the server has done it. Without ``loses_answer`` it drops the conditions of PUTs.
    """
    host = address.removeprefix("http://")

    class Proxy(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _pass_on(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            if self.headers.get("Expect", "").lower() == "100-continue":
                self.send_response_only(100)
                self.end_headers()
            body = self.rfile.read(length)
            headers = {name: text for name, text in self.headers.items() if name.lower() != "expect"}
            if loses_answer is None:
                headers = {name: text for name, text in headers.items() if name.lower() != "if-none-match"}
            server = http.client.HTTPConnection(host, timeout=60)
            server.request(self.command, self.path, body, headers)
            answer = server.getresponse()
            content = answer.read()
            if self.command == "PUT" and loses_answer is not None and loses_answer(self.path):
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(answer.status)
            for name, text in answer.getheaders():
                if name.lower() not in _HOP:
                    self.send_header(name, text)
            self.send_header("Content-Length", answer.headers["Content-Length"] or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on  # noqa: N815

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + _DEADLINE_S
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as attempt:
            if attempt.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise RuntimeError(f"the server did not start within {_DEADLINE_S} s")
