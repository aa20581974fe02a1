"""What an input's source means for its arrivals, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.core import model
from pipelines.core.sources import MANY, EventHubsCapture, Kafka


def source_sentences(part: model.Input) -> Iterator[str]:
    """What bounds exactness, and how the log's own columns come about."""
    if part.arrival_regression == "hold_at_last":
        yield (
            f"{part.name}: a record that lies before its predecessor's arrival time is taken at the predecessor's;"
            " its own is in source_time"
        )
    if part.source is None:
        return
    if part.source.events_per_message == "many":
        yield (
            f"{part.name}: the sequence of an event is its message's times {MANY}, plus its position; a message of more"
            " events is quarantined"
        )
    if isinstance(part.source, EventHubsCapture):
        yield (
            f"{part.name}: a message without x-opt-enqueued-time has an arrival time of whole seconds, which can move"
            " decisions near a tolerance; ingest counts them"
        )
    if isinstance(part.source, Kafka) and part.source.time == "producer":
        yield (
            f"{part.name}: producers' clocks go back and forth, so their time is no arrival time by itself; set"
            " arrival_regression, or use 'time: broker'"
        )
    if part.partitions is None:
        yield (
            f"{part.name}: without 'partitions' an input partition that begins later is not waited for before it begins"
        )
