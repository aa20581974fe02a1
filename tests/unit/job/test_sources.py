"""Section ``source`` of an input: read as it is written, and refused with file, line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.core.errors import JobFileError
from pipelines.core.model import Input
from pipelines.core.sources import DeltaTable, EventHubsCapture, Files, Kafka
from pipelines.job.load import load_job, parse_job


def text(source: str, more: str = "") -> str:
    return f"""tailrace: 1
job: cars
profile: stream_analytics
inputs:
  cars:
    columns: "at TIMESTAMP, booth STRING"
    source: {source}{more}
query: {{from: cars, group_by: [booth], window: {{tumbling: {{size: 10m}}}}, aggregates: {{n: "count(*)"}}}}
"""


def source(written: str, more: str = "") -> Input:
    return parse_job(text(written, more)).input("cars")


def test_each_kind_of_source_is_read() -> None:
    assert source("{kind: eventhubs_capture, path: /hub}").source == EventHubsCapture("/hub")
    kafka = "{kind: kafka, bootstrap_servers: 'b:9092', topic: t, properties: {sasl.password: '${SECRET}'}}"
    assert source(kafka).source == Kafka("b:9092", "t", properties=(("sasl.password", "${SECRET}"),))
    delta = "{kind: delta, path: 's3://b/t', fields: {arrival_time: EnqueuedTime, body: Body}, body: json}"
    fields = (("arrival_time", "EnqueuedTime"), ("body", "Body"))
    assert source(delta).source == DeltaTable("s3://b/t", fields, "json")
    stored, files = (
        "\n    arrival_regression: hold_at_last",
        "{kind: files, path: /dump, format: csv, fields: {booth: Booth}}",
    )
    assert source(files, stored).source == Files("/dump", "csv", (("booth", "Booth"),))


def test_a_relative_path_is_relative_to_the_job_file(tmp_path: Path) -> None:
    file = tmp_path / "cars.yaml"
    file.write_text(text("{kind: eventhubs_capture, path: captures/hub}"))
    assert load_job(file).input("cars").source == EventHubsCapture(str(tmp_path / "captures/hub"))


@pytest.mark.parametrize(
    ("written", "error"),
    [
        ("{path: /hub}", "x.yaml:7: inputs.cars.source: 'kind' is missing"),
        ("{kind: kafak}", "x.yaml:7: inputs.cars.source.kind: there is no source 'kafak'; did you mean 'kafka'?"),
        ("{kind: [kafka]}", "there is no source"),
        (
            "{kind: kafka, bootstrap_servers: b, topic: t, properties: {ssl.key.password: abc}}",
            "x.yaml:7: inputs.cars.source.properties.ssl.key.password: is a secret: write ${NAME}",
        ),
        ("{kind: kafka, topic: t}", "inputs.cars.source.bootstrap_servers: is missing"),
        ("{kind: delta, path: /t, pattern: x}", "inputs.cars.source.pattern: unknown key 'pattern'"),
        ("{kind: eventhubs_capture, path: /h, pattern: '{Year}'}", "source.pattern: lacks {PartitionId}"),
        ("{kind: eventhubs_capture, path: /h, pattern: '{PartitionID}'}", "did you mean 'PartitionId'?"),
        ("{kind: delta, path: /t, fields: {boot: b}}", "fields.boot: there is no column 'boot'; did you mean 'booth'?"),
        ("{kind: delta, path: /t, body: json, fields: {booth: b}}", "fields.booth: there is no column 'booth'"),
        ("{kind: delta, path: /t, events_per_message: many}", "events_per_message: 'events_per_message: many' needs"),
        ("{kind: files, path: /t, format: xml}", "format: 'xml' is not one of"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(written: str, error: str) -> None:
    with pytest.raises(JobFileError) as raised:
        parse_job(text(written), file="x.yaml")
    assert error in str(raised.value)


def test_source_time_is_the_log_s_own_column_with_hold_at_last() -> None:
    stored = text("{kind: eventhubs_capture, path: /h}", "\n    arrival_regression: hold_at_last")
    with pytest.raises(JobFileError, match="'source_time' is the log's own column"):
        parse_job(stored.replace("booth STRING", "booth STRING, Source_Time TIMESTAMP"))
