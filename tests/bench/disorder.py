"""The logs that are measured: a stated disorder model, drawn with numpy from a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pipelines.core.time import DAY, MILLISECOND, MINUTE, SECOND, parse_instant
from pipelines.lakehouse.schema import TIMESTAMP

CHUNK = 1_000_000
START_US = parse_instant("2026-01-01T00:00:00Z")
EVENTS_A_DAY = 20_000_000 // 3
FORMAT = 6
"""Part of the cache key: raised when the same model would give another log, or other files."""

Ints = npt.NDArray[np.int64]
REGULAR, FAR, LATE, EARLY, AHEAD = range(5)


@dataclass(frozen=True, slots=True)
class Disorder:
    """What a log looks like. Arrivals are a Poisson process; each event is of one sort, drawn independently:

    - regular: it happened ``max(0, Normal(0.5 s, 0.2 s)) + Exponential(regular_mean)`` before it arrived;
    - far: uniformly between ``far_from`` and ``far_to`` before, so far out of order, yet not late;
    - late: ``late_from + Exponential(10 min)`` before;
    - early: its clock is ``early_from + Exponential(10 min)`` ahead of its arrival;
    - ahead: its clock is ahead by up to ``ahead_to``, uniformly: in tolerance, and it lifts the watermark.

    Devices are Zipf: ``P(k) ~ 1 / (k + 1) ** zipf``, each at the site ``k mod sites``; input partitions are uniform
    and independent of them. With ``skew`` that share of all events goes to partition 0 and device 0 instead.
    """

    events: int
    days: float
    seed: int = 20260101
    partitions: int = 4
    devices: int = 1_000
    sites: int = 100
    zipf: float = 0.5
    far_share: float = 0.02
    late_share: float = 0.01
    early_share: float = 0.005
    ahead_share: float = 0.002
    regular_mean_us: int = 1 * SECOND
    far_from_us: int = 5 * SECOND
    far_to_us: int = 5 * MINUTE
    late_from_us: int = 5 * MINUTE
    early_from_us: int = 5 * MINUTE
    ahead_to_us: int = 2 * SECOND
    skew: float = 0.0

    @property
    def shares(self) -> tuple[str, ...]:
        """The fields that say how many events are not regular."""
        return ("far_share", "late_share", "early_share", "ahead_share")

    @property
    def name(self) -> str:
        """A folder's name: readable, and another one for every other model."""
        text = json.dumps([FORMAT, asdict(self)], sort_keys=True)
        return f"{self.events}-events-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive arrivals, by column; ``sort_of_event`` is REGULAR .. AHEAD."""

    arrival_us: Ints
    partition: Ints
    sequence: Ints
    event_us: Ints
    device: Ints
    site: Ints
    reading: npt.NDArray[np.float64]
    octets: Ints
    sort_of_event: Ints


def chunks(model: Disorder, size: int = CHUNK) -> Iterator[Chunk]:
    """The whole log in arrival order; the same for the same model."""
    rng = np.random.default_rng(model.seed)
    gap_us = model.days * DAY / model.events
    at_us = float(START_US)
    next_sequence = np.zeros(model.partitions, dtype=np.int64)
    weights = 1 / np.arange(1, model.devices + 1) ** model.zipf
    cumulative = np.cumsum(weights / weights.sum())
    for begin in range(0, model.events, size):
        count = min(size, model.events - begin)
        exact_us = at_us + np.cumsum(rng.exponential(gap_us, count))
        at_us = float(exact_us[-1])
        arrival_us = exact_us.astype(np.int64)
        partition = rng.integers(0, model.partitions, count)
        device = np.searchsorted(cumulative, rng.random(count), side="right").clip(max=model.devices - 1)
        skewed = rng.random(count) < model.skew
        partition[skewed], device[skewed] = 0, 0
        sort_of_event, delay_us = _delays(model, rng, count)
        yield Chunk(
            arrival_us=arrival_us,
            partition=partition,
            sequence=_sequences(partition, next_sequence),
            event_us=arrival_us - delay_us,
            device=device.astype(np.int64),
            site=device.astype(np.int64) % model.sites,
            reading=rng.gamma(2.0, 10.0, count),
            octets=rng.integers(0, 1 << 40, count),
            sort_of_event=sort_of_event,
        )


def _delays(model: Disorder, rng: np.random.Generator, count: int) -> tuple[Ints, Ints]:
    """The sort of each event, and by how much its arrival came after it; negative: before."""
    shares = np.cumsum([model.far_share, model.late_share, model.early_share, model.ahead_share])
    # the first share that the draw lies under; beyond all of them the event is regular
    sort = (np.searchsorted(shares, rng.random(count), side="right") + 1) % 5
    by_sort = {
        REGULAR: np.maximum(0, rng.normal(500 * MILLISECOND, 200 * MILLISECOND, count))
        + rng.exponential(model.regular_mean_us, count),
        FAR: rng.uniform(model.far_from_us, model.far_to_us, count),
        LATE: model.late_from_us + 1 + rng.exponential(10 * MINUTE, count),
        EARLY: -(model.early_from_us + 1 + rng.exponential(10 * MINUTE, count)),
        AHEAD: -rng.uniform(0, model.ahead_to_us, count),
    }
    return sort, np.choose(sort, [by_sort[one] for one in range(5)]).astype(np.int64)


def _sequences(partition: Ints, next_sequence: Ints) -> Ints:
    """Sequence numbers of the chunk; ``next_sequence`` moves on."""
    order = np.argsort(partition, kind="stable")
    counts = np.bincount(partition, minlength=len(next_sequence))
    firsts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    sequence = np.empty(len(partition), dtype=np.int64)
    sequence[order] = np.arange(len(partition)) - np.repeat(firsts - next_sequence, counts)
    next_sequence += counts
    return sequence


def as_table(chunk: Chunk, schema: pa.Schema) -> pa.Table:
    """A chunk as rows of table ``arrivals/readings``."""
    count = len(chunk.arrival_us)
    columns = {
        "arrival_time": pa.array(chunk.arrival_us).cast(TIMESTAMP),
        "input_partition": pa.array(chunk.partition.astype(np.int32)),
        "sequence": pa.array(chunk.sequence),
        "kind": pa.repeat("event", count),
        "punctuation_time": pa.nulls(count, TIMESTAMP),
        "cause": pa.nulls(count, pa.string()),
        "batch_id": pa.repeat("bench", count),
        "at": pa.array(chunk.event_us).cast(TIMESTAMP),
        "site": pa.array(chunk.site.astype(np.int32)),
        "device": pa.array(chunk.device.astype(np.int32)),
        "reading": pa.array(chunk.reading),
        "octets": pa.array(chunk.octets),
        "arrival_date": pa.array((chunk.arrival_us // DAY).astype(np.int32)).cast(pa.date32()),
    }
    return pa.table([columns[name] for name in schema.names], schema=schema)
