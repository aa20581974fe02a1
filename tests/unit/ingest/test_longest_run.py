"""What is kept of records out of order: as many as can be, found by trying every choice."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.ingest import longest_run as module

Record: TypeAlias = tuple[int, int]
"""Sequence and arrival time."""


def _kept(records: list[Record]) -> tuple[int, ...]:
    sequence, arrival_us = np.array(records, np.int64).reshape(-1, 2).T.copy()
    breaks = np.flatnonzero((np.diff(sequence) <= 0) | (np.diff(arrival_us) < 0)) + 1
    return tuple(np.flatnonzero(module.longest_run(sequence, arrival_us, breaks)).tolist())


def _by_trying(records: list[Record]) -> tuple[int, ...]:
    """A longest choice in order: of the last records that no other one is below, the nearest; before it the earlier
    lines."""

    def in_order(choice: tuple[int, ...]) -> bool:
        kept = [records[place] for place in choice]
        return all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(kept))

    def distance(end: int) -> int:
        begin = tuple(map(min, zip(*records, strict=True)))
        return (records[end][0] - begin[0] + 1) * (records[end][1] - begin[1] + 1)

    def is_lower(one: int, other: int) -> bool:
        (sequence, arrival_us), (other_sequence, other_arrival_us) = records[one], records[other]
        equal = records[one] == records[other]
        return one < other if equal else sequence <= other_sequence and arrival_us <= other_arrival_us

    for size in range(len(records), 0, -1):
        fit = [choice for choice in combinations(range(len(records)), size) if in_order(choice)]
        if fit:
            ends = {choice[-1] for choice in fit}
            lowest = [end for end in ends if not any(is_lower(other, end) for other in ends)]
            nearest = min(lowest, key=lambda end: (distance(end), records[end]))
            return min((choice for choice in fit if choice[-1] == nearest), key=lambda choice: choice[::-1])
    return ()


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=9), st.integers(1, 4))
def test_as_many_as_can_be_are_kept_and_of_several_choices_always_the_same(records: list[Record], block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BLOCK", block)
        assert _kept(records) == _by_trying(records)


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 7, 10**6, 10**7])), min_size=2, max_size=60),
    st.tuples(st.sampled_from([None, 0, 10**12]), st.sampled_from([None, 0, 10**15])).filter(
        lambda wild: wild != (None, None)
    ),
    st.data(),
)
def test_one_wild_record_among_good_ones_is_the_only_one_that_goes(
    steps: list[Record], wild: tuple[int | None, int | None], data: st.DataObject
) -> None:
    good = [(int(one), int(other)) for one, other in np.cumsum(np.array(steps), axis=0) + 1000]
    place = data.draw(st.integers(1, len(good) - 1))
    # a key that is not wild is that of the record before or after it
    near = good[place - data.draw(st.integers(0, 1))]
    record = tuple(normal if key is None else key for key, normal in zip(wild, near, strict=True))
    assert _kept([*good[:place], record, *good[place:]]) == tuple(n for n in range(len(good) + 1) if n != place)


def test_records_in_any_disorder_are_judged_in_bounded_time() -> None:
    chance = np.random.default_rng(7)
    records = np.stack([chance.permutation(20_000), chance.integers(0, 20_000, 20_000)], axis=1)
    kept = [tuple(records[place]) for place in _kept(records.tolist())]
    assert len(kept) > 30
    assert all(one[0] < other[0] and one[1] <= other[1] for one, other in pairwise(kept))
