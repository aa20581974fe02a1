"""A lakehouse on S3: the numbers of a local one, no lost commit, no credential left behind."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import SparkSession
from s3_server import CANARIES, make_bucket, proxied

from pipelines.core.errors import EnvironmentUnfit
from pipelines.core.model import EVERYTHING
from pipelines.core.time import parse_instant
from pipelines.explain.window import why_window
from pipelines.ingest.batch import ingest
from pipelines.ingest.sources.places import Places
from pipelines.job.load import parse_job
from pipelines.lakehouse.object_stores import storage_options
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.lakehouse.show import rows_of
from pipelines.lakehouse.spark_client import require_client
from pipelines.live.run import stream
from pipelines.reconcile.run import reconcile
from pipelines.replay.builder import make_plan
from pipelines.replay.run import replay
from pipelines.report.write_report import write_report
from pipelines.runtime.logstore.build import JAR, build

pytestmark = [pytest.mark.spark, pytest.mark.slow]
JOB = parse_job("""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 5m}}, aggregates: {cars: "count(*)"}}
keep_verdicts: all
""")
ROUNDS = 30


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty minutes of cars, of which most are late."""
    file = tmp_path_factory.mktemp("log") / "cars.jsonl"
    with file.open("w") as out:
        for sequence in range(300):
            minute, second = divmod(sequence * 10, 60)
            arrived = f"2026-01-01T12:{minute:02d}:{second:02d}Z"
            at = f"2026-01-01T12:{max(minute - sequence % 7, 0):02d}:{second:02d}Z"
            row = {"arrival_time": arrived, "input_partition": 0, "sequence": sequence, "at": at}
            out.write(json.dumps(row | {"booth": "ab"[sequence % 2]}) + "\n")
    return file


def _objects(address: str, bucket: str) -> dict[str, bytes]:
    """All objects of a bucket, with their contents."""
    files = pafs.S3FileSystem(
        endpoint_override=address, access_key=CANARIES[0], secret_key=CANARIES[1], region="us-east-1"
    )
    found = files.get_file_info(pafs.FileSelector(bucket, recursive=True))
    names = [info.path for info in found if info.type == pafs.FileType.File]
    return {name.partition("/")[2]: files.open_input_stream(name).read() for name in names}


def _run_everything(root: str, log: Path, spark: SparkSession) -> dict[str, Any]:
    """Every command once; what each found."""
    lakehouse = Lakehouse.at(root)
    ingested = ingest(JOB, "cars", [log], lakehouse)
    plan = make_plan(JOB, EVERYTHING, lakehouse)
    replayed = replay(JOB, EVERYTHING, lakehouse, spark=spark)
    streamed = [stream(JOB, lakehouse, spark=spark, from_start=again) for again in (False, True)]
    compared = reconcile(JOB, EVERYTHING, lakehouse, spark=spark)
    end_us = parse_instant("2026-01-01T12:10:00Z")
    story = why_window(JOB, end_us, {"booth": "a"}, lakehouse)
    report = write_report(JOB, lakehouse, EVERYTHING)
    windows = rows_of(JOB, "windows", lakehouse, EVERYTHING)
    assert windows is not None
    return {
        "appended": ingested.appended,
        "files": [one.files for one in plan.reads],
        "fingerprint": replayed.output_fingerprint,
        "verdicts": replayed.found.counts_by_verdict,
        "live": [dict(one.rows_written) for one in streamed],
        "differences": compared.by_status,
        "story": story.sentences,  # its data have the live run's clock
        "windows": windows.sort_by([("window_end", "ascending"), ("booth", "ascending")]).to_pylist(),
        "report": (report.state, report.verdict),
        "runs": sorted(row["status"] for row in runs_of(lakehouse, JOB.name)),
    }


def test_every_command_gives_on_s3_what_it_gives_locally_and_leaves_no_credential(
    s3: str, spark: SparkSession, tmp_path: Path, log: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    local = _run_everything(str(tmp_path / "house"), log, spark)
    assert _run_everything("s3://lake/house", log, spark) == local
    printed = capfd.readouterr()
    objects = _objects(s3, "lake")
    assert any(name.startswith("house/reports/") for name in objects)
    assert not any(name.startswith("house/_checkpoints/cars/0/") for name in objects), "of an earlier generation"
    texts = [printed.out, printed.err, str(spark.sparkContext.getConf().getAll()), *(map(str, objects))]
    texts += [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    texts += [content.decode(errors="replace") for content in objects.values()]
    assert not [text[:200] for text in texts for canary in CANARIES if canary in text]


def test_s3a_names_the_same_tables(spark: SparkSession, log: Path) -> None:
    lakehouse = Lakehouse.at("s3a://lake/by_other_name")
    ingest(JOB, "cars", [log], lakehouse)
    replay(JOB, EVERYTHING, lakehouse, spark=spark)
    assert write_report(JOB, lakehouse, EVERYTHING, checks=False).place.startswith("s3a://lake/by_other_name/reports/")
    assert len(runs_of(Lakehouse.at("s3://lake/by_other_name"), JOB.name)) == 1
    assert [file.name for file in Places("s3a://lake/by_other_name/reports", r"cars/[^/]*\.html").found()]


def test_a_profile_stands_in_for_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, log: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    file.write_text(f"[lake]\naws_access_key_id = {CANARIES[0]}\naws_secret_access_key = {CANARIES[1]}\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "lake")
    assert ingest(JOB, "cars", [log], Lakehouse.at("s3://lake/by_profile")).appended == 300


def test_of_three_racing_writers_each_commit_is_there(tmp_path: Path) -> None:
    uri = "s3://lake/raced"
    write_deltalake(uri, _row("first", 0), mode="error", storage_options=storage_options(uri))
    program = [sys.executable, str(Path(__file__).with_name("race.py")), uri]
    racing = [
        subprocess.Popen([*program, writer, str(ROUNDS), str(tmp_path), "3"], stderr=subprocess.DEVNULL)
        for writer in ("spark 1", "spark 2")
    ]
    for number in range(ROUNDS):
        (tmp_path / f"{number}-deltalake").touch()
        while len(list(tmp_path.glob(f"{number}-*"))) < 3:
            assert all(one.poll() is None or one.returncode == 0 for one in racing)
        while not _appended(uri, number):
            pass
    assert [one.wait(300) for one in racing] == [0, 0]
    table = DeltaTable(uri, storage_options=storage_options(uri))
    rows = table.to_pyarrow_table().to_pylist()
    expected = [(writer, number) for writer in ("deltalake", "spark 1", "spark 2") for number in range(ROUNDS)]
    assert sorted((row["writer"], row["round"]) for row in rows) == sorted([("first", 0), *expected])
    assert table.version() == 3 * ROUNDS


def _row(writer: str, number: int) -> Any:
    return pa.table({"writer": [writer], "round": pa.array([number], pa.int32())})


def _appended(uri: str, number: int) -> bool:
    table = DeltaTable(uri, storage_options=storage_options(uri))
    try:
        write_deltalake(
            table, _row("deltalake", number), mode="append", commit_properties=CommitProperties(max_commit_retries=0)
        )
    except CommitFailedError:
        return False
    return True


def test_a_commit_whose_answer_was_lost_is_found_to_be_its_own(s3: str, spark: SparkSession) -> None:
    make_bucket(s3, "unheard")
    lost: list[str] = []

    def loses(path: str) -> bool:
        first = "_delta_log/0" in path and ".json" in path and path not in lost
        lost.extend([path] if first else [])
        return first

    with proxied(s3, loses_answer=loses) as proxy:
        _point(spark, "unheard", proxy)
        for number in range(3):
            rows = spark.range(number, number + 1, numPartitions=1)
            rows.write.format("delta").mode("append").save("s3a://unheard/table")
        found = spark.read.format("delta").load("s3a://unheard/table").collect()
    table = DeltaTable("s3://unheard/table", storage_options=storage_options("s3://unheard"))
    assert (len(lost), table.version(), sorted(row["id"] for row in found)) == (3, 2, [0, 1, 2])


def test_a_store_that_ignores_conditions_is_refused(s3: str, spark: SparkSession) -> None:
    make_bucket(s3, "careless")
    require_client(spark, Lakehouse.at("s3a://lake/careful"))
    with proxied(s3) as proxy:
        _point(spark, "careless", proxy)
        with pytest.raises(EnvironmentUnfit, match="the store of s3a://careless/lake ignores the condition of a write"):
            require_client(spark, Lakehouse.at("s3a://careless/lake"))
    assert not _objects(s3, "careless")


def _point(spark: SparkSession, bucket: str, address: str) -> None:
    context: Any = spark.sparkContext
    context._jsc.hadoopConfiguration().set(f"fs.s3a.bucket.{bucket}.endpoint", address)


def test_the_jar_of_the_log_store_is_built_from_its_source(tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("needs javac, of a JDK 17")
    build(tmp_path / "made.jar")
    assert (tmp_path / "made.jar").read_bytes() == JAR.read_bytes()


def test_the_demo_gives_on_s3_what_it_gives_locally(tmp_path: Path) -> None:
    found = []
    for root in (str(tmp_path / "house"), "s3://lake/demo"):
        call = [sys.executable, "-m", "pipelines.cli", "demo", "--json", "--lakehouse", root]
        done = subprocess.run(call, capture_output=True, text=True, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stderr
        assert not any(canary in done.stdout + done.stderr for canary in CANARIES)
        found.append(json.loads(done.stdout)["run"]["output_fingerprint"])
    assert found[0] == found[1]
