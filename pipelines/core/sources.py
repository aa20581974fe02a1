"""Where the arrivals of an input come from: section ``source`` of a job file as frozen data.

A source changes no result, so it is no part of a job's fingerprint.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Body = Literal["json", "json_lines", "csv", "avro"]
"""The format of a message's body; ``json`` is an object, an array of objects, or lines."""
EventsPerMessage = Literal["one", "many"]

CAPTURE_PATTERN = "{PartitionId}/{Year}/{Month}/{Day}/{Hour}/{Minute}/{Second}"
"""The product's path below ``{Namespace}/{EventHub}``."""
MANY = 65_536
"""Where a message may contain several events, an event's sequence is the message's times this, plus its position."""

_CREDENTIAL = re.compile(
    r"^[a-z][a-z0-9+.-]*://[^:@/]*:(?!\d+/)[^@]*@|^s3[an]?://[^/@]*@|[?&](sig|x-amz-\w+|\w*token|\w*secret\w*|password)=",
    re.IGNORECASE,
)
"""A password before the host, or a signature or key among the parameters."""


def require_no_credential(place: str) -> None:
    """:class:`ValueError`, which does not repeat it, if an address contains a credential: plans and logs name places.

    >>> require_no_credential("abfss://container@account.dfs.core.windows.net/lake")
    >>> require_no_credential("s3://AKIA:secret@bucket/lake")
    Traceback (most recent call last):
    ...
    ValueError: the address contains a credential; leave it out, and set it in the environment
    """
    if _CREDENTIAL.search(place):
        raise ValueError("the address contains a credential; leave it out, and set it in the environment")


@dataclass(frozen=True, slots=True)
class EventHubsCapture:
    """Avro files that Event Hubs Capture writes. ``path`` may have globs and ``{date}``; ``pattern`` lies below it."""

    path: str
    pattern: str = CAPTURE_PATTERN
    body: Body = "json"
    events_per_message: EventsPerMessage = "one"
    kind: Literal["eventhubs_capture"] = "eventhubs_capture"


@dataclass(frozen=True, slots=True)
class Kafka:
    """A topic. ``properties`` are settings of the client, whose values may name ``${ENVIRONMENT_VARIABLE}``\\ s."""

    bootstrap_servers: str
    topic: str
    time: Literal["broker", "producer"] = "broker"
    value: Body = "json"
    properties: tuple[tuple[str, str], ...] = ()
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    events_per_message: EventsPerMessage = "one"
    kind: Literal["kafka"] = "kafka"

    @property
    def body(self) -> Body:
        """The format of a message's value."""
        return self.value


@dataclass(frozen=True, slots=True)
class DeltaTable:
    """A Delta table that grows. ``fields``: (our column, the table's); with ``body`` the payload is column ``body``."""

    path: str
    fields: tuple[tuple[str, str], ...] = ()
    body: Body | None = None
    events_per_message: EventsPerMessage = "one"
    kind: Literal["delta"] = "delta"


@dataclass(frozen=True, slots=True)
class Files:
    """Files of one format, in the order of their names; ``fields`` and ``body`` as of :class:`DeltaTable`."""

    path: str
    format: Literal["jsonl", "csv", "parquet", "avro"]
    fields: tuple[tuple[str, str], ...] = ()
    body: Body | None = None
    events_per_message: EventsPerMessage = "one"
    kind: Literal["files"] = "files"


Source = EventHubsCapture | Kafka | DeltaTable | Files
