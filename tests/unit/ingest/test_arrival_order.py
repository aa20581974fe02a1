"""The order of arrivals inside an input partition, judged against the last record taken."""

from __future__ import annotations

import random

import numpy as np
import pytest

from pipelines.ingest.order import ArrivalOrder, Tail
from pipelines.lakehouse.arrival_log import FOR_ALL


def _judge(rows: list[tuple[int, int, int]], tails: dict[int, Tail] | None = None) -> dict[int, str]:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return ArrivalOrder((tails or {}).get).judge(columns[:, 0], columns[:, 1], columns[:, 2])


def test_partitions_are_judged_apart() -> None:
    assert _judge([(0, 5, 50), (1, 1, 10), (0, 6, 50), (1, 2, 10)]) == {}


def test_an_equal_arrival_time_does_not_fall_but_an_equal_sequence_does_not_rise() -> None:
    assert list(_judge([(0, 1, 10), (0, 2, 10), (0, 2, 11)])) == [2]


def test_a_refused_record_takes_no_later_one_with_it() -> None:
    refused = _judge([(0, 1, 10), (0, 9, 5), (0, 2, 10), (0, 3, 11)])
    assert list(refused) == [1]
    assert "falls" in refused[1]


def test_the_log_s_last_record_counts_too() -> None:
    tails = {0: Tail(7, 70), FOR_ALL: Tail(3, 30)}
    assert list(_judge([(0, 7, 80), (0, 8, 69), (0, 8, 70), (FOR_ALL, 3, 90), (FOR_ALL, 4, 30)], tails)) == [0, 1, 3]


def test_chunks_continue_where_the_last_one_ended() -> None:
    order = ArrivalOrder(lambda _: None)
    one = np.array([0]), np.array([5]), np.array([50])
    assert order.judge(*one) == {}
    assert list(order.judge(*one)) == [0]


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_to_judge_agree(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    rows = sorted((rng.randrange(3), rng.randrange(40), rng.randrange(40)) for _ in range(12))
    if seed % 2:
        rng.shuffle(rows)
    columns = np.array(rows, dtype=np.int64)
    fast, slow = ArrivalOrder(lambda _: None), ArrivalOrder(lambda _: None)
    monkeypatch.setattr(slow, "_all_rise", lambda *_: False)
    assert fast.judge(*columns.T) == slow.judge(*columns.T)
    assert fast._tails == slow._tails
