"""What a source's properties take from the environment is in nothing that Dagster stores. No test here starts Spark."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest
from secrets_planted import MARK, files_with, plant
from small_jobs import TOLLS

from assets.definitions import build

SOURCE = (
    "timestamp_by: at, source: {kind: kafka, bootstrap_servers: '127.0.0.1:9', topic: cars, properties: {%s:"
    " '${KAFKA_PASSWORD}'}}"
)


@pytest.mark.parametrize("name", ["security.protocol", "no.such.property", "socket.timeout.ms"])
def test_a_refusal_of_the_kafka_client_names_the_variable_and_not_its_value(
    tmp_path: Path, jobs: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    plant(monkeypatch)
    (jobs / "tolls.yaml").write_text(TOLLS.replace("timestamp_by: at", SOURCE % name), encoding="utf-8")
    (tmp_path / "instance").mkdir()
    with dg.DagsterInstance.local_temp(str(tmp_path / "instance")) as instance:
        defs = build(jobs, str(tmp_path / "lakehouse"))
        context = dg.build_sensor_context(instance=instance, repository_def=defs.get_repository_def())
        skipped = defs.resolve_sensor_def("tolls_new_arrivals").evaluate_tick(context).skip_message
        ingest = defs.resolve_job_def("tolls_ingest")
        result = ingest.execute_in_process(instance=instance, raise_on_error=False)
    failure = str([event.event_specific_data for event in result.all_events if event.is_step_failure])
    for text in (skipped, failure):
        assert "the Kafka client refuses its settings" in str(text)
    assert MARK.decode() not in f"{skipped} {failure} {''.join(capfd.readouterr())}"
    assert files_with(tmp_path, MARK) == []
    assert files_with(tmp_path / "instance", b"refuses its settings"), "the search finds what is there"


@pytest.mark.parametrize("key", ["sasl.jaas.config", "sasl.oauthbearer.config", "sasl.password", "ssl.key.pem"])
def test_a_secret_in_the_job_file_itself_is_refused_and_not_repeated(jobs: Path, key: str) -> None:
    written = (SOURCE % key).replace("${KAFKA_PASSWORD}", MARK.decode())
    (jobs / "tolls.yaml").write_text(TOLLS.replace("timestamp_by: at", written), encoding="utf-8")
    nodes = build(jobs).get_repository_def().asset_graph
    [key_of_file] = nodes.get_all_asset_keys()
    node = nodes.get(key_of_file)
    assert "is a secret: write ${NAME}" in str(node.description)
    assert MARK.decode() not in f"{node.description} {node.metadata}"
