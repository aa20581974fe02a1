"""What is kept between two batches."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import pyarrow as pa
import pytest

from pipelines.core.model import Decision, Job
from pipelines.core.time import MINUTE, SECOND, parse_instant
from pipelines.job.load import parse_job
from pipelines.live.local_log import announcement
from pipelines.live.spark.operator import run_batch
from pipelines.live.state.arrivals import LogOutOfOrder
from pipelines.live.state.messages import ANNOUNCEMENT, ROWS, Message, pack
from pipelines.live.state.output import Output, WindowResult, decisions_of
from pipelines.live.windows import by_column

JOB = parse_job(
    """
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 20s, out_of_order: 5s, action: adjust}
query:
  from: cars
  group_by: [booth]
  window: {hopping: {size: 5m, hop: 1m}}
  aggregates: {n: "count(*)", total: "sum(toll)"}
"""
)
BEGIN = parse_instant("2026-01-01T00:00:00Z")


def job(profile: str, ordering: str, window: str) -> Job:
    """Cars counted per booth; other windows of other profiles."""
    return parse_job(
        f"""
tailrace: 1
job: tolls
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}}}
ordering: {{{ordering}}}
query: {{from: cars, group_by: [booth], window: {{{window}}}, aggregates: {{n: "count(*)", total: "sum(toll)"}}}}
"""
    )


class Stream:
    """An engine that goes through its saved form before each batch."""

    def __init__(self, job: Job = JOB) -> None:
        self.job = job
        self.saved: list[bytes] = []

    def batch(self, rows: pa.Table) -> Output:
        file = Message(ROWS, "cars", f"file-{len(self.saved)}", len(rows), pack(rows))
        return self.messages(file, announcement(len(self.saved), [file], {"cars": [0]}, end_of_log=False))

    def messages(self, *messages: Message) -> Output:
        return run_batch(self.saved[-1] if self.saved else None, self.job, messages, self.saved.append)


def cars(first: int, count: int, delays: tuple[int, ...] = (0, SECOND)) -> pa.Table:
    """A car a second, from number ``first`` on; it says that it came some time before."""
    chance, numbers = Random(first), range(first, first + count)
    arrivals = [BEGIN + number * SECOND for number in numbers]
    return pa.table(
        {
            "partition": pa.array([0] * count, pa.int32()),
            "sequence": pa.array(numbers, pa.int64()),
            "arrival": arrivals,
            "punctuation": pa.nulls(count, pa.int64()),
            "time": [arrival - chance.choice(delays) for arrival in arrivals],
            "v0": [chance.choice("ab") for _ in numbers],
            "v1": [0.1] * count,
        }
    )


def test_rows_are_forgotten_once_all_their_windows_are_final() -> None:
    stream, sizes = Stream(), []
    given: Counter[int] = Counter()
    for first in range(0, 6000, 300):
        output = stream.batch(cars(first, 300))
        given.update(one.end_us for one in output.windows)
        sizes.append(len(stream.saved[-1]))
    assert max(sizes[4:]) < 1.2 * min(sizes[4:])
    # the very first car came where a window ends, so that window is the one booth's alone
    later = [BEGIN + number * MINUTE for number in range(1, 100)]
    assert given == Counter([BEGIN, *later, *later])


@pytest.mark.parametrize(
    ("profile", "ordering", "window"),
    [
        ("stream_analytics", "", "sliding: {size: 1m}"),
        ("stream_analytics", "", "snapshot: {}"),
        ("stream_analytics", "", "session: {timeout: 2s, max_duration: 1m}"),
        ("atlas", "", "hopping: {size: 2m, hop: 1m}"),
        ("atlas", "", "session: {gap: 1s}"),
        ("stream_insight", "advance: {every: 5}, action: drop", "hopping: {size: 2m, hop: 1m}"),
        ("stream_insight", "advance: {every: 5}, action: drop", "snapshot: {}"),
        ("stream_insight", "advance: {every: 5}, action: drop", "count: {n: 3}"),
    ],
)
def test_the_state_does_not_grow_with_the_log(profile: str, ordering: str, window: str) -> None:
    stream = Stream(job(profile, ordering, window))
    for first in range(0, 6000, 300):
        assert stream.batch(cars(first, 300)).error is None
    sizes = [len(saved) for saved in stream.saved]
    assert sizes[-1] < 1.2 * sizes[4]


def test_a_commit_of_many_files_counts_once_all_have_come_in_any_order_and_any_batches() -> None:
    whole = cars(0, 400, (0, 10 * SECOND, MINUTE))
    parts = [whole.slice(first, 50) for first in range(0, 400, 50)]
    files = [Message(ROWS, "cars", f"part-{number}", 50, pack(part)) for number, part in enumerate(parts)]
    counts = {file.file: file.row_count for file in files}
    commit = {"input": "cars", "files": counts, "punctuation_us": None}
    body = {"number": 0, "end_of_log": False, "commits": [commit], "partitions": {"cars": [0]}}
    messages = [*files, Message(ANNOUNCEMENT, "", "", 0, json.dumps(body).encode())]
    for seed in range(10):
        chance, stream = Random(seed), Stream()
        chance.shuffle(messages)
        cut = chance.randrange(len(messages))
        waiting, complete = stream.messages(*messages[:cut]), stream.messages(*messages[cut:])
        assert not waiting.advanced
        assert complete.advanced
        assert (decisions_of(complete.verdicts), complete.windows) == everything(Stream(), [whole])


def test_a_batch_writes_the_verdicts_that_the_job_keeps_and_counts_all() -> None:
    output = Stream().batch(cars(0, 200, (0, 10 * SECOND, MINUTE)))
    kept = output.to_write(JOB)
    assert {one.verdict for one in decisions_of(kept.verdicts)} == {"adjusted"}
    assert kept.verdict_counts == Counter(one.verdict for one in decisions_of(output.verdicts))
    assert kept.reason_counts == Counter(reason for one in decisions_of(output.verdicts) for reason in one.reasons)
    assert set(kept.reason_counts) == {"late", "out_of_order"}


def everything(stream: Stream, batches: list[pa.Table]) -> tuple[list[Decision], list[WindowResult]]:
    outputs = [stream.batch(rows) for rows in batches]
    assert not any(output.error for output in outputs)
    verdicts = [one for output in outputs for one in decisions_of(output.verdicts)]
    return verdicts, [one for output in outputs for one in output.windows]


def test_the_order_of_rows_inside_a_commit_makes_no_difference() -> None:
    batches = [cars(first, 300, (0, 10 * SECOND, MINUTE)) for first in (0, 300, 600)]
    shuffled = [rows.take(Random(1).sample(range(len(rows)), len(rows))) for rows in batches]
    assert everything(Stream(), shuffled) == everything(Stream(), batches)


def test_however_few_rows_are_put_into_windows_at_once_the_windows_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches = [cars(first, 300) for first in (0, 300, 600)]
    whole = everything(Stream(), batches)
    for limit in (1, 7, 100):
        monkeypatch.setattr(by_column, "_MOST_AT_ONCE", limit)
        assert everything(Stream(), batches) == whole


def test_rows_that_come_before_rows_already_decided_make_the_stream_begin_again() -> None:
    stream = Stream()
    stream.batch(cars(100, 10))
    assert isinstance(stream.batch(cars(109, 5)).error, LogOutOfOrder)


def test_one_place_that_two_rows_claim_makes_the_stream_begin_again() -> None:
    twice = pa.concat_tables([cars(0, 5), cars(4, 1)])
    assert isinstance(Stream().batch(twice).error, LogOutOfOrder)
