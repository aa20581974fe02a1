"""Half-open ranges: what two have in common, what is left of some, and the days of one."""

from __future__ import annotations

from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.intervals import common, days_of, inside, outside
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import DAY, HOUR

ends = st.none() | st.integers(-5, 5)
ranges = st.builds(OutputRange, ends, ends).filter(
    lambda one: one.from_us is None or one.to_us is None or one.from_us < one.to_us
)


@given(ranges, ranges)
def test_an_instant_is_in_what_is_common_iff_it_is_in_both(one: OutputRange, other: OutputRange) -> None:
    both = common(one, other)
    for instant in range(-7, 8):
        assert (both is not None and instant in both) == (instant in one and instant in other)


@given(st.lists(ranges, max_size=3), ranges)
def test_inside_and_outside_part_ranges_without_loss(some: list[OutputRange], other: OutputRange) -> None:
    for instant in range(-7, 8):
        number = sum(instant in one for one in some)
        within = sum(instant in one for one in inside(some, other))
        beyond = sum(instant in one for one in outside(some, other))
        assert (within, beyond) == ((number, 0) if instant in other else (0, number))


def test_everything_holds_all_of_a_range() -> None:
    assert common(EVERYTHING, OutputRange(3, 4)) == OutputRange(3, 4)
    assert outside([EVERYTHING], OutputRange(3, 4)) == [OutputRange(None, 3), OutputRange(4, None)]


def test_the_days_of_a_range_are_cut_at_its_ends() -> None:
    found = list(days_of(OutputRange(23 * HOUR, DAY + 1)))
    assert found == [
        (date(1970, 1, 1), OutputRange(23 * HOUR, DAY)),
        (date(1970, 1, 2), OutputRange(DAY, DAY + 1)),
    ]
