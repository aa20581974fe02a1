"""The order of arrivals inside an input partition, judged over a whole batch, however it is cut into chunks."""

from __future__ import annotations

import io
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.errors import DataRefused
from pipelines.ingest.order import ArrivalOrder, Tail
from pipelines.lakehouse.arrival_log import FOR_ALL

Row: TypeAlias = tuple[int, int, int]
"""Input partition, sequence and arrival time."""


def _reading(order: ArrivalOrder, rows: list[Row], chunk: int) -> dict[int, str]:
    refused: dict[int, str] = {}
    for begin in range(0, len(rows), chunk):
        columns = np.array(rows[begin : begin + chunk], dtype=np.int64).reshape(-1, 3)
        found = order.judge(columns[:, 0], columns[:, 1], columns[:, 2])
        refused |= {begin + place: reason for place, reason in found.refused.items()}
    return refused


def _judge(rows: list[Row], tails: dict[int, Tail] | None = None, chunk: int = 1000) -> dict[int, str]:
    order = ArrivalOrder((tails or {}).get, io.BytesIO())
    refused = _reading(order, rows, chunk)
    return dict(sorted((_reading(order, rows, chunk) if order.settle() else refused).items()))


def test_partitions_are_judged_apart() -> None:
    assert _judge([(0, 5, 50), (1, 1, 10), (0, 6, 50), (1, 2, 10)]) == {}


def test_an_equal_arrival_time_does_not_fall_but_an_equal_sequence_does_not_rise() -> None:
    assert list(_judge([(0, 1, 10), (0, 2, 10), (0, 2, 11)])) == [2]


def test_a_refused_record_takes_no_later_one_with_it() -> None:
    refused = _judge([(0, 1, 10), (0, 9, 5), (0, 2, 10), (0, 3, 11)])
    assert refused == {
        1: "arrival_time 1970-01-01T00:00:00.000005Z falls: 1970-01-01T00:00:00.000010Z came before it"
        " in input partition 0"
    }


@pytest.mark.parametrize("wild", [(0, 10**12, 20), (0, 3, 10**15), (0, 10**12, 10**15)])
def test_a_record_far_ahead_is_refused_and_none_of_those_after_it(wild: Row) -> None:
    refused = _judge([(0, 1, 10), (0, 2, 20), wild, (0, 3, 30), (0, 4, 40), (0, 5, 50)])
    assert list(refused) == [2]
    assert refused[2].endswith(", is ahead of records that come after it in input partition 0")


def test_the_log_s_last_record_counts_too() -> None:
    tails = {0: Tail(7, 70), FOR_ALL: Tail(3, 30)}
    assert list(_judge([(0, 7, 80), (0, 8, 69), (0, 8, 70), (FOR_ALL, 3, 90), (FOR_ALL, 4, 30)], tails)) == [0, 1, 3]


@pytest.mark.parametrize("then", [[(0, 3, 20), (0, 3, 30)], [(0, 2, 20), (0, 3, 30), (0, 4, 40)]])
def test_records_that_changed_between_two_readings_are_not_taken(then: list[Row]) -> None:
    order = ArrivalOrder({}.get, io.BytesIO())
    begin: list[Row] = [(0, 1, 10), (0, 9, 90)]
    _reading(order, [*begin, (0, 2, 20), (0, 3, 30)], 10)
    assert order.settle()
    with pytest.raises(DataRefused, match="the files changed while they were read"):
        _reading(order, [*begin, *then], 10)


ROWS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 9)), max_size=20)
TAILS = st.dictionaries(st.integers(0, 2), st.builds(Tail, st.integers(0, 4), st.integers(0, 4)))


@given(ROWS, TAILS, st.integers(1, 7))
def test_how_a_batch_is_cut_into_chunks_changes_nothing(rows: list[Row], tails: dict[int, Tail], chunk: int) -> None:
    assert _judge(rows, tails, chunk) == _judge(rows, tails)


@given(ROWS, TAILS)
def test_what_is_kept_is_in_order_and_takes_none_of_what_is_refused(rows: list[Row], tails: dict[int, Tail]) -> None:
    refused = _judge(rows, tails)
    for partition in range(3):
        log = [(tail.sequence, tail.arrival_time_us) for tail in [tails.get(partition)] if tail is not None]
        mine = [place for place, row in enumerate(rows) if row[0] == partition]
        kept = [place for place in mine if place not in refused]
        assert _in_order([*log, *(rows[place][1:] for place in kept)])
        for place in set(mine) & set(refused):
            assert not _in_order([*log, *(rows[other][1:] for other in sorted([*kept, place]))])


def _in_order(keys: list[tuple[int, ...]]) -> bool:
    return all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(keys))
