"""Kafka topics: offsets are sequences, and the bookmark is the next offset of each partition.

Nothing is committed to the broker: no consumer group has to agree with the bookmark in the log. Gaps in offsets are
normal: transactions and compaction leave them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import ConfigResource, ResourceType

from pipelines.core.errors import UsageError
from pipelines.core.model import Input
from pipelines.core.sources import Kafka
from pipelines.core.time import MILLISECOND
from pipelines.ingest.readers import CHUNK
from pipelines.ingest.sources.bodies import Decoder
from pipelines.ingest.sources.kafka_settings import Client
from pipelines.ingest.sources.reader import Bookmark, Messages, Portion, partition_notes

PORTION_BYTES = 16 * 2**20
"""Bytes of messages in a portion, about."""
TIMEOUT_S = 30.0
_POLL_S = 1.0
_AT_ONCE = 1000


@dataclass(slots=True)
class _Progress:
    """How far each partition was read, which are not read to their end yet, and the messages since the last portion."""

    reached: dict[int, int]
    unread: set[int]
    taken: list[KafkaMessage] = field(default_factory=list)
    size: int = 0


class KafkaReader:
    """A topic as it was when it was opened: messages that come later are for the next batch."""

    def __init__(self, part: Input, source: Kafka) -> None:
        self._part = part
        self._source = source
        self._client = Client.of(source)
        self._decoder = Decoder(part, source.body, source.events_per_message)
        with closing(self._client.consumer()) as consumer:
            try:
                about = consumer.list_topics(source.topic, TIMEOUT_S)
                topic = about.topics[source.topic]
                if topic.error is not None:
                    raise UsageError(f"topic {source.topic}: {self._client.text(topic.error)}", key="topic")
                self._cluster = about.cluster_id
                self._ends = {
                    number: consumer.get_watermark_offsets(TopicPartition(source.topic, number), TIMEOUT_S)
                    for number in sorted(topic.partitions)
                }
            except KafkaException as error:
                raise self._client.unreachable(error) from None
        self._settings = self._topic_settings()
        if source.time == "broker" and self._settings.get("message.timestamp.type") == "CreateTime":
            raise self._producer_time(f"topic {source.topic} keeps")

    @property
    def identity(self) -> str:
        """The cluster and the topic: offsets mean nothing elsewhere."""
        return f"kafka {self._cluster}/{self._source.topic}"

    def size(self, bookmark: Bookmark) -> int:
        """Offsets up to the ends that the partitions had when the topic was opened."""
        return sum(self._ends[number][1] - offset for number, offset in self._begin(bookmark).items())

    def portions(self, bookmark: Bookmark, until_us: int | None) -> Iterator[Portion]:
        """Messages of all partitions as the broker gives them, about :data:`PORTION_BYTES` at once."""
        begin = self._begin(bookmark)
        progress = _Progress(
            dict(begin), {number for number, offset in begin.items() if offset < self._ends[number][1]}
        )
        if not progress.unread:
            return
        with closing(self._client.consumer()) as consumer:
            topic, waited_s = self._source.topic, 0.0
            consumer.assign([TopicPartition(topic, number, begin[number]) for number in progress.unread])
            while progress.unread:
                before = set(progress.unread)
                try:
                    found = consumer.consume(_AT_ONCE, _POLL_S)
                except KafkaException as error:
                    raise self._client.unreachable(error) from None
                waited_s = 0.0 if found else waited_s + _POLL_S
                if waited_s >= TIMEOUT_S:
                    raise self._client.unreachable(f"no message within {TIMEOUT_S:.0f} s")
                for message in found:
                    self._take(message, progress, until_us)
                if before != progress.unread:
                    consumer.pause([TopicPartition(topic, number) for number in before - progress.unread])
                if progress.size >= PORTION_BYTES or len(progress.taken) >= CHUNK:
                    yield self._portion(progress, begin)
                    begin = dict(progress.reached)
        if progress.reached != begin:
            yield self._portion(progress, begin)

    def notes(self, bookmark: Bookmark) -> list[str]:
        """Partitions that were not expected, what retention and compaction removed, and times of producers."""
        notes = partition_notes(self._part, self._ends, bookmark)
        for number, (low, _) in self._ends.items():
            expected = bookmark.get(str(number), 0)
            if low > expected:
                notes.append(
                    f"input partition {number} begins at offset {low}: retention has removed the messages from"
                    f" {expected} on before they were read; results that need them are not exact"
                )
        if "compact" in self._settings.get("cleanup.policy", ""):
            notes.append("the topic is compacted: of messages with one key, older ones may be gone")
        if self._source.time == "producer":
            notes.append(
                "arrival times are those of the producers: they may fall, and decide late, early and out of order"
                " otherwise than a live job that reads the broker's time"
            )
        return notes

    def _begin(self, bookmark: Bookmark) -> dict[int, int]:
        """The next offset of each partition."""
        for number, offset in bookmark.items():
            end = self._ends.get(int(number), (0, -1))[1]
            if offset > end:
                raise UsageError(
                    f"input partition {number} of topic {self._source.topic} was read up to offset {offset}, but ends"
                    f" at {max(end, 0)}: the topic was deleted and created again",
                    hint="use another input name for the new topic",
                )
        return {number: max(low, bookmark.get(str(number), 0)) for number, (low, _) in self._ends.items()}

    def _take(self, message: KafkaMessage, progress: _Progress, until_us: int | None) -> None:
        """One message, or the end of a partition: of ``read_committed`` that is before an open transaction."""
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise self._client.unreachable(error)
        number, offset = _place(message)
        if number not in progress.unread:
            return
        if error is not None:
            progress.reached[number] = max(progress.reached[number], offset)
            progress.unread.discard(number)
            return
        arrival_us, end = self._arrival_us(message), self._ends[number][1]
        if offset >= end or (until_us is not None and arrival_us is not None and arrival_us >= until_us):
            progress.unread.discard(number)
            return
        progress.taken.append(message)
        progress.size += len(message)
        progress.reached[number] = offset + 1
        if offset + 1 == end:
            progress.unread.discard(number)

    def _portion(self, progress: _Progress, begin: dict[int, int]) -> Portion:
        """The messages taken since the last portion."""
        messages = self._messages(progress.taken)
        progress.taken, progress.size = [], 0
        size = sum(progress.reached.values()) - sum(begin.values())
        bookmark = {str(number): offset for number, offset in progress.reached.items()}
        return Portion(self._decoder.chunks(messages), bookmark, size)

    def _messages(self, taken: Sequence[KafkaMessage]) -> Messages:
        places = [_place(message) for message in taken]
        return Messages(
            source=self._source.topic,
            input_partition=[number for number, _ in places],
            sequence=[offset for _, offset in places],
            arrival_us=[self._arrival_us(message) for message in taken],
            body=[message.value() for message in taken],
        )

    def _arrival_us(self, message: KafkaMessage) -> int | None:
        kind, at_ms = message.timestamp()
        if kind == TIMESTAMP_CREATE_TIME and self._source.time == "broker":
            raise self._producer_time(f"offset {message.offset()} of input partition {message.partition()} has")
        return None if kind == TIMESTAMP_NOT_AVAILABLE else at_ms * MILLISECOND

    def _producer_time(self, what: str) -> UsageError:
        return UsageError(
            f"{what} the time of its producer (message.timestamp.type is CreateTime), which is no arrival time",
            hint="set the topic's message.timestamp.type to LogAppendTime before it is written, or say 'time: producer'"
            " if the live job read that time too",
        )

    def _topic_settings(self) -> dict[str, str]:
        """The topic's settings; none where the client may not ask for them."""
        resource = ConfigResource(ResourceType.TOPIC, self._source.topic)
        admin = self._client.admin()  # the answer comes while it lives
        try:
            found = admin.describe_configs([resource])[resource].result(TIMEOUT_S)
        except KafkaException:
            return {}
        return {name: entry.value for name, entry in found.items() if entry.value is not None}


def _place(message: KafkaMessage) -> tuple[int, int]:
    number, offset = message.partition(), message.offset()
    assert number is not None, message
    assert offset is not None, message
    return number, offset
