"""Spans and metrics of runs for OpenTelemetry, where its environment variables name a collector; otherwise nothing.

Attributes are names, counts and sentences of plans: no rows, no error texts, no settings. The package is imported only
where a collector is named.
"""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from pipelines import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

P = ParamSpec("P")
R = TypeVar("R")

_NAME = "tailrace"
_FLUSH_MS = 5_000
"""The longest that the end of a run waits for the collector."""


def _asked_for(signal: str) -> bool:
    """Whether a collector is named for ``TRACES`` or ``METRICS``, and not switched off."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") != "otlp":
        return False
    return any(os.environ.get(f"OTEL_EXPORTER_OTLP_{one}ENDPOINT") for one in (f"{signal}_", ""))


@contextmanager
def span(name: str, **attributes: object) -> Iterator[None]:
    """A block as a span ``name``; the spans inside it are its children. None of ``attributes`` is left out.

    A block that fails is an error, of which the span has the type.
    """
    provider = _traces()
    if provider is None:
        yield
        return
    from opentelemetry.trace import Status, StatusCode

    known: Any = {f"{_NAME}.{key}": value for key, value in attributes.items() if value is not None}
    tracer = provider.get_tracer(_NAME, __version__)
    with tracer.start_as_current_span(
        name, attributes=known, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            current.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise


def traced(name: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A function whose first argument is a job, with a span for each call; at the end of a call everything is sent."""

    def with_span(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            job: Any = args[0] if args else kwargs["job"]
            try:
                with span(name, job=job.name):
                    return function(*args, **kwargs)
            finally:
                for provider in (_traces(), _metrics()):
                    if provider is not None:
                        provider.force_flush(_FLUSH_MS)

        return call

    return with_span


def count_run(run: Mapping[str, Any]) -> None:
    """Add a run that has ended, a row of the ledger, to the metrics."""
    provider = _metrics()
    if provider is None:
        return
    meter = provider.get_meter(_NAME, __version__)
    of_run = {"tailrace.job": str(run["job"]), "tailrace.kind": str(run["kind"])}
    ended = of_run | {"tailrace.status": str(run["status"])}
    meter.create_counter("tailrace.runs", "{run}").add(1, ended)
    if isinstance(run.get("finished_at"), datetime):
        seconds = (run["finished_at"] - run["started_at"]).total_seconds()
        meter.create_histogram("tailrace.run.duration", "s").record(seconds, ended)
    for name, unit, column, key in _COUNTERS:
        for what, count in dict(run.get(column) or {}).items():
            meter.create_counter(name, unit).add(count, of_run | {f"tailrace.{key}": what})
    cost = dict(run.get("cost") or {})
    if "task_ms" in cost:
        meter.create_counter("tailrace.task.time", "s").add(cost["task_ms"] / 1000, of_run)


_COUNTERS = (
    ("tailrace.events", "{event}", "counts_by_verdict", "verdict"),
    ("tailrace.rows.written", "{row}", "rows_written", "table"),
    ("tailrace.bytes.read", "By", "bytes_read", "table"),
)
"""Metric, its unit, the column of the ledger that it sums, and the attribute that the column's keys become."""


@cache
def _traces() -> TracerProvider | None:
    if not _asked_for("TRACES") or not _is_installed():
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider(resource=_resource())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


@cache
def _metrics() -> MeterProvider | None:
    if not _asked_for("METRICS") or not _is_installed():
        return None
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    return MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource=_resource())


@cache
def _is_installed() -> bool:
    try:
        import opentelemetry.exporter.otlp.proto.http  # noqa: F401
    except ImportError:
        logging.getLogger(__name__).warning(
            "no spans and metrics are sent: OpenTelemetry is configured but not installed;"
            " pip install 'tailrace[telemetry]'"
        )
        return False
    return True


def _resource() -> Resource:
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    ours = Resource.create({"service.name": _NAME, "service.version": __version__})
    return ours.merge(OTELResourceDetector().detect())
