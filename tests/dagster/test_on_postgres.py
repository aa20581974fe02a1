"""Webserver and daemon as in production, on a PostgreSQL of this test's own, by ``deploy/dagster.yaml`` as it ships."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from running import ROOT, Running, free_port, until
from small_jobs import load

from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]


def binaries() -> Path | None:
    """Where ``initdb`` and ``pg_ctl`` are: on the path, or where Debian keeps them next to it."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    stored = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return stored[-1].parent if stored else None


@pytest.fixture
def postgres() -> Iterator[dict[str, str]]:
    """A PostgreSQL with an empty database, as the environment that ``deploy/dagster.yaml`` asks for."""
    bin_folder = binaries()
    if bin_folder is None:
        pytest.skip("no PostgreSQL server here: neither initdb on the path nor anything in /usr/lib/postgresql")
    # not pytest's folder: PostgreSQL refuses to run as root, and nobody else may enter what is root's
    folder = Path(tempfile.mkdtemp(prefix="tailrace-postgres-"))
    owner: dict[str, Any] = {}
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        owner = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
        os.chown(folder, entry.pw_uid, entry.pw_gid)
    given = {
        "HOST": "127.0.0.1",
        "PORT": str(free_port()),
        "USERNAME": "dagster",
        "PASSWORD": "a b@c",
        "DB": "postgres",
    }
    secret = folder / "secret"
    secret.write_text(given["PASSWORD"], encoding="utf-8")
    secret.chmod(0o644)

    def call(program: str, *arguments: str) -> None:
        subprocess.run(
            [str(bin_folder / program), "-D", str(folder / "data"), *arguments],
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=120,
            **owner,
        )

    try:
        call("initdb", "-U", given["USERNAME"], "--auth=scram-sha-256", f"--pwfile={secret}", "--no-sync")
        options = f"-p {given['PORT']} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield {f"DAGSTER_PG_{name}": value for name, value in given.items()}
        finally:
            call("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@contextmanager
def production(folder: Path, jobs: Path, root: str, postgres: dict[str, str]) -> Iterator[Running]:
    """``dagster-webserver`` and ``dagster-daemon`` as two programs that share nothing but PostgreSQL."""
    home, port = folder / "production_home", free_port()
    home.mkdir()
    shutil.copy(ROOT / "deploy" / "dagster.yaml", home / "dagster.yaml")
    given = {"DAGSTER_HOME": str(home), "TAILRACE_LAKEHOUSE": root, "TAILRACE_JOBS": str(jobs)}
    environment = {**os.environ, **given, **postgres, "TAILRACE_AUTOMATION": "on", "TAILRACE_END": "2026-03-10"}
    commands = [
        ["dagster-webserver", "--workspace", "workspace.yaml", "--host", "127.0.0.1", "--port", str(port)],
        ["dagster-daemon", "run", "--workspace", "workspace.yaml"],
    ]
    started: list[subprocess.Popen[bytes]] = []
    with (folder / "production.log").open("wb") as log:
        try:
            for name, *arguments in commands:
                program = str(Path(sys.executable).with_name(name))
                started.append(
                    subprocess.Popen(
                        [program, *arguments],
                        cwd=ROOT,
                        env=environment,
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        start_new_session=True,
                    )
                )
            found = Running(started[0], port, root, str(home))
            until(found.is_up, 180)
            yield found
        except BaseException:
            sys.stderr.write((folder / "production.log").read_text(errors="replace")[-20_000:])
            raise
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait(60)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)


def query(postgres: dict[str, str], sql: str, *values: str) -> list[tuple[Any, ...]]:
    """The rows that PostgreSQL itself gives."""
    names = {"host": "HOST", "port": "PORT", "user": "USERNAME", "password": "PASSWORD", "dbname": "DB"}
    to = {name: postgres[f"DAGSTER_PG_{variable}"] for name, variable in names.items()}
    with closing(psycopg2.connect(**to)) as connection, connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def test_a_run_is_queued_made_and_kept_in_postgresql_and_the_daemon_ticks_there(
    tmp_path: Path, jobs: Path, postgres: dict[str, str]
) -> None:
    root = load(tmp_path)
    with production(tmp_path, jobs, root, postgres) as running:
        config = {"from": "2026-03-02T00:00:00Z", "to": "2026-03-04T00:00:00Z", "reason": "a trial on PostgreSQL"}
        run = running.launch("tolls_replay", {}, {"ops": {"replay_tolls": {"config": config}}})
        assert running.ended(run) == "SUCCESS"

        assert query(postgres, "SELECT status FROM runs WHERE run_id = %s", run) == [("SUCCESS",)]
        made = "SELECT asset_key, partition FROM event_logs WHERE run_id = %s AND dagster_event_type = %s ORDER BY 1, 2"
        assert query(postgres, made, run, "ASSET_MATERIALIZATION") == [
            (f'["tolls", "{name}"]', day) for name in ("verdicts", "windows") for day in ("2026-03-02", "2026-03-03")
        ]
        # the webserver put it into the queue; that it came out of it, and that sensors tick, is the daemon's doing
        assert len(query(postgres, made, run, "PIPELINE_ENQUEUED")) == 1
        ticks = "SELECT status FROM job_ticks WHERE tick_body LIKE %s"
        until(lambda: ("SKIPPED",) in query(postgres, ticks, "%tolls_stale_days%"), 200)
        assert ("SENSOR",) in query(postgres, "SELECT daemon_type FROM daemon_heartbeats")
        assert list(Path(running.home).rglob("*.db")) == []
    [replay] = runs_of(Lakehouse.at(root), "tolls")
    assert (replay["status"], replay["reason"]) == ("succeeded", "a trial on PostgreSQL")
    until(lambda: running.processes() == [], 20)
