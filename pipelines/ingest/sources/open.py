"""The reader of an input's source, by its kind."""

from __future__ import annotations

from pipelines.core.errors import UsageError
from pipelines.core.model import Input
from pipelines.core.sources import DeltaTable, EventHubsCapture, Files, Kafka
from pipelines.ingest.sources.capture import CaptureReader
from pipelines.ingest.sources.delta import DeltaReader
from pipelines.ingest.sources.files import FilesReader
from pipelines.ingest.sources.reader import Reader


def open_reader(part: Input) -> Reader:
    """The reader of the input's source; :class:`UsageError` if it cannot be read as the job file describes it."""
    match part.source:
        case EventHubsCapture():
            return CaptureReader(part, part.source)
        case Kafka():
            from pipelines.ingest.sources.kafka import KafkaReader

            return KafkaReader(part, part.source)
        case DeltaTable():
            return DeltaReader(part, part.source)
        case Files():
            return FilesReader(part, part.source)
        case None:
            raise UsageError(f"input {part.name} has no source")
