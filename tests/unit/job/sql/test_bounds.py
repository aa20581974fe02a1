"""Bounds of chains of joins, against random times."""

import random

from pipelines.job.sql.bounds import Bound, Chain, Time

UNIT = 10


def difference(one: int, other: int, unit: int = UNIT) -> int:
    return other // unit - one // unit


def first() -> Chain:
    return Chain((Time("a", frozenset("a")),))


def test_the_only_pair_keeps_its_bounds() -> None:
    on = [Bound("a", "b", UNIT, low=-1), Bound("b", "a", UNIT, low=-5)]
    assert first().range_to("b", UNIT, on) == (-1, 5)


def test_a_missing_end_is_no_bound() -> None:
    assert first().range_to("b", UNIT, [Bound("a", "b", UNIT, low=0)]) is None
    assert first().range_to("b", UNIT, []) is None


def test_bounds_that_exclude_each_other_leave_nothing() -> None:
    found = first().range_to("b", UNIT, [Bound("a", "b", UNIT, low=3), Bound("a", "b", UNIT, high=2)])
    assert found is not None
    assert found[0] > found[1]


def test_a_bound_of_another_unit_is_never_too_narrow() -> None:
    chance = random.Random(4)
    for _ in range(2000):
        one, other = chance.randrange(-500, 500), chance.randrange(-500, 500)
        coarse, fine = difference(one, other, 60), difference(one, other, 10)
        within = Bound("a", "b", 60, coarse, coarse).in_units(10)
        assert within.low is not None
        assert within.high is not None
        assert within.low <= fine <= within.high
        within = Bound("a", "b", 10, fine, fine).in_units(60)
        assert within.low is not None
        assert within.high is not None
        assert within.low <= coarse <= within.high


def test_every_pair_of_a_chain_lies_in_the_range_of_its_join() -> None:
    chance = random.Random(5)
    met = 0
    for _ in range(20_000):
        times = {name: chance.randrange(-100, 100) for name in "abc"}
        p, q = sorted(chance.choices(range(-3, 6), k=2))
        x, y = sorted(chance.choices(range(-3, 6), k=2))
        through = chance.choice("ab")
        left = chance.random() < 0.5
        second = [Bound(through, "c", UNIT, x, y)]
        chain = first().joined("b", [Bound("a", "b", UNIT, p, q)], max(q, 0) * UNIT if left else None)
        found = chain.range_to("c", UNIT, second)
        assert found is not None
        if p <= difference(times["a"], times["b"]) <= q:
            row = max(times["a"], times["b"])
        elif left and through == "a":
            row = times["a"] + max(q, 0) * UNIT
        else:
            continue
        if x <= difference(times[through], times["c"]) <= y:
            met += 1
            assert found[0] <= difference(row, times["c"]) <= found[1]
    assert met > 500


def test_the_range_of_a_chain_is_as_narrow_as_its_last_bound() -> None:
    chain = first().joined("b", [Bound("a", "b", UNIT, 0, 5)], None)
    assert chain.range_to("c", UNIT, [Bound("b", "c", UNIT, 0, 7)]) == (0, 7)


def test_a_join_may_be_bounded_through_the_source_before() -> None:
    chain = first().joined("b", [Bound("a", "b", UNIT, 0, 5)], None)
    assert chain.range_to("c", UNIT, [Bound("a", "c", UNIT, 0, 7)]) == (-5, 7)
