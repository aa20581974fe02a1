"""Spans and metrics of a run reach a collector that OpenTelemetry's own variables name, and nothing else is sent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from reconcile_rows import ingested

from pipelines.core.model import EVERYTHING
from pipelines.job.load import parse_job
from pipelines.replay.run import replay
from pipelines.runtime import telemetry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = parse_job("""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
ordering: {late_arrival: 0s, out_of_order: 0s, action: drop}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 10m}}, aggregates: {cars: "count(*)"}}
""")
CARS = [
    {"arrival_time": "2026-01-01T12:01:00Z", "at": "2026-01-01T12:01:00Z", "booth": "SECRET-BOOTH"},
    {"arrival_time": "2026-01-01T12:15:00Z", "at": "2026-01-01T12:02:00Z", "booth": "SECRET-BOOTH"},
]


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[bytes]]]:
    """What a collector on this machine is sent, by path."""
    bodies: dict[str, list[bytes]] = defaultdict(list)

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies[self.path].append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=SECRET-TOKEN")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=night")
    _forget()
    yield bodies
    for provider in (telemetry._traces(), telemetry._metrics()):
        if provider is not None:
            provider.shutdown()
    _forget()
    server.shutdown()
    server.server_close()
    thread.join()


def _forget() -> None:
    telemetry._traces.cache_clear()
    telemetry._metrics.cache_clear()


def test_a_replay_is_a_span_with_its_stages_and_counts(
    sent: dict[str, list[bytes]], tmp_path: Path, spark: SparkSession
) -> None:
    place = ingested(JOB, tmp_path / "lakehouse", {"cars": CARS})
    run = replay(JOB, EVERYTHING, place, spark=spark)
    of_resources = [
        one for body in sent["/v1/traces"] for one in ExportTraceServiceRequest.FromString(body).resource_spans
    ]
    attributes = {one.key: one.value.string_value for one in of_resources[0].resource.attributes}
    assert (attributes["service.name"], attributes["deployment.environment"]) == ("tailrace", "night")
    spans = [span for one in of_resources for scope in one.scope_spans for span in scope.spans]
    (root,) = (span for span in spans if span.name == "tailrace.replay")
    children = [span for span in spans if span.parent_span_id == root.span_id]
    assert [span.name for span in children] == ["plan", "scan", "decide", "write", "write"]
    stages = [{one.key: one.value.string_value for one in span.attributes} for span in children[1:]]
    assert {one["tailrace.run_id"] for one in stages} == {run.run_id}
    assert stages[-1]["tailrace.stage"].startswith("replace windows/cars")
    found = {
        (metric.name, *(one.value.string_value for one in point.attributes if one.key == "tailrace.verdict")): point
        for body in sent["/v1/metrics"]
        for one in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in one.scope_metrics
        for metric in scope.metrics
        for point in (*metric.sum.data_points, *metric.histogram.data_points)
    }
    assert found["tailrace.runs",].as_int == 1
    assert found["tailrace.events", "accepted"].as_int == 1
    assert found["tailrace.events", "dropped"].as_int == 1
    assert found["tailrace.run.duration",].count == 1
    assert not any(b"SECRET" in body for bodies in sent.values() for body in bodies)


def test_a_failed_block_is_an_error_with_its_type_and_without_its_text(sent: dict[str, list[bytes]]) -> None:
    @telemetry.traced("tailrace.test")
    def fail(job: Any) -> None:
        raise ValueError("SECRET")

    with pytest.raises(ValueError, match="SECRET"):
        fail(JOB)
    (body,) = sent["/v1/traces"]
    (span,) = ExportTraceServiceRequest.FromString(body).resource_spans[0].scope_spans[0].spans
    assert (span.name, span.status.code, span.status.message) == ("tailrace.test", 2, "ValueError")
    assert b"SECRET" not in body


@pytest.mark.parametrize(
    ("variable", "value", "paths"),
    [
        ("OTEL_SDK_DISABLED", "true", set()),
        ("OTEL_TRACES_EXPORTER", "none", {"/v1/metrics"}),
        ("OTEL_METRICS_EXPORTER", "none", {"/v1/traces"}),
    ],
)
def test_each_signal_can_be_switched_off(
    sent: dict[str, list[bytes]], monkeypatch: pytest.MonkeyPatch, variable: str, value: str, paths: set[str]
) -> None:
    monkeypatch.setenv(variable, value)
    with telemetry.span("x"):
        pass
    telemetry.count_run({"job": "cars", "kind": "replay", "status": "succeeded"})
    telemetry.traced("y")(lambda job: None)(JOB)
    assert set(sent) == paths


def test_nothing_is_sent_where_no_collector_is_named() -> None:
    _forget()
    assert telemetry._traces() is None
    assert telemetry._metrics() is None
