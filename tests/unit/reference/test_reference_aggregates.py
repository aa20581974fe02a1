"""Aggregates: SQL's nulls, exact sums, Spark's order."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Aggregate
from pipelines.reference.aggregates import compute, exact_sum

NAN, INF = math.nan, math.inf
LARGEST = 1.7976931348623157e308


def over(function, values, parameter=None, distinct=False):
    return compute(Aggregate("result", function, "x", distinct, parameter), values)


def test_count_star_counts_rows_and_count_of_a_column_its_values():
    assert compute(Aggregate("n", "count"), [None, None]) == 2
    assert over("count", [None, 1, 1]) == 2
    assert over("count", [None, 1, 1, 2], distinct=True) == 2
    assert over("count", [NAN, NAN, 0.0, -0.0], distinct=True) == 2


@pytest.mark.parametrize(
    "function", ["sum", "avg", "min", "max", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "first", "last"]
)
def test_nothing_but_nulls_gives_null(function):
    assert over(function, [None, None]) is None


def test_percentiles_of_nothing_are_null_and_its_collection_is_empty():
    assert over("percentile_cont", [None], 0.5) is None
    assert over("percentile_disc", [None], 0.5) is None
    assert over("collect", [None]) == []


def test_nulls_do_not_weigh_in_an_average():
    assert over("avg", [1.0, None, 2.0]) == 1.5


def test_first_and_last_respect_nulls():
    assert over("first", [None, 1]) is None
    assert over("last", [1, None]) is None


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.1] * 10, 1.0),
        ([1e16, 1.0, -1e16], 1.0),
        ([1e100, 1.0, -1e100], 1.0),
        ([INF, 1.0], INF),
        ([-INF, 1.0], -INF),
        ([LARGEST, LARGEST], INF),
        ([-LARGEST, -LARGEST], -INF),
        ([LARGEST, LARGEST, -LARGEST], LARGEST),
        ([LARGEST, 2.0**969], LARGEST),
        ([LARGEST, 2.0**970], INF),
    ],
)
def test_a_sum_of_doubles_is_the_exact_sum_rounded_once(values, expected):
    assert exact_sum(values) == expected
    assert exact_sum(values[::-1]) == expected


@pytest.mark.parametrize("values", [[NAN, 1.0], [INF, -INF], [INF, NAN]])
def test_a_sum_that_has_no_value_is_nan(values):
    assert math.isnan(exact_sum(values))


def test_an_average_of_doubles_is_the_exact_sum_divided_once():
    assert over("avg", [0.1, 0.2, 0.3]) == math.fsum([0.1, 0.2, 0.3]) / 3


def test_a_sum_of_whole_numbers_is_exact_up_to_the_end_of_bigint():
    assert over("sum", [2**63 - 2, 1]) == 2**63 - 1
    assert over("sum", [2**63 - 1, 1, -1]) == 2**63 - 1
    assert over("sum", [-(2**63) + 1, -1]) == -(2**63)


@pytest.mark.parametrize("values", [[2**63 - 1, 1], [-(2**63), -1]])
def test_a_sum_beyond_bigint_is_refused_by_name(values):
    with pytest.raises(DataRefused, match=r"query\.aggregates\.result"):
        over("sum", values)


def test_an_average_of_whole_numbers_is_a_double_and_never_refused():
    assert over("avg", [1, 2]) == 1.5
    assert over("avg", [2**63 - 1, 2**63 - 1]) == float(2**64 - 2) / 2


def test_decimals_keep_their_scale_and_averages_have_four_digits_more():
    assert str(over("sum", [Decimal("1.50"), Decimal("2.25")])) == "3.75"
    assert str(over("avg", [Decimal("1.00"), Decimal("1.00"), Decimal("0.00")])) == "0.666667"
    assert str(over("avg", [Decimal("0.000001"), Decimal("0.000002")])) == "0.0000015000"
    assert str(over("avg", [Decimal("0"), Decimal("0"), Decimal("0.1")])) == "0.03333"


def test_decimal_averages_round_halves_away_from_zero():
    ones = [Decimal("0")] * 31 + [Decimal("1")]  # 1 / 32 = 0.03125
    assert str(over("avg", ones)) == "0.0313"
    assert str(over("avg", [-one for one in ones])) == "-0.0313"


def test_nan_is_the_greatest_number():
    assert over("min", [NAN, INF]) == INF
    assert math.isnan(over("max", [NAN, INF]))


def test_text_is_ordered_by_code_point_and_false_before_true():
    assert over("max", ["Z", "a", "\U0001f600", "\uffff"]) == "\U0001f600"
    assert over("min", [True, False]) is False


def test_spread_is_taken_around_the_mean_in_two_passes():
    assert over("var_pop", [1, 2, 3, 4]) == 1.25
    assert over("var_samp", [1, 2, 3, 4]) == 5 / 3
    assert over("stddev_pop", [1.0, 3.0]) == 1.0
    assert over("var_pop", [1e9 + 4, 1e9 + 7, 1e9 + 13, 1e9 + 16]) == 22.5


def test_one_value_has_no_sample_spread_and_no_population_spread():
    assert over("stddev_samp", [5.0]) is None
    assert over("var_samp", [5.0]) is None
    assert over("stddev_pop", [5.0]) == 0.0


@pytest.mark.parametrize(("share", "expected"), [(0.0, 10.0), (0.25, 17.5), (0.5, 25.0), (0.95, 38.5), (1.0, 40.0)])
def test_a_continuous_percentile_lies_between_its_neighbours(share, expected):
    assert over("percentile_cont", [40, 10, None, 30, 20], share) == expected


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 10.0), (0.25, 10.0), (0.2500001, 20.0), (0.5, 20.0), (0.75, 30.0), (1.0, 40.0)]
)
def test_a_discrete_percentile_is_the_first_value_whose_share_reaches_it(share, expected):
    assert over("percentile_disc", [40, 10, None, 30, 20], share) == expected


def test_a_discrete_percentile_counts_shares_as_they_are_written():
    assert over("percentile_disc", list(range(1, 101)), 0.07) == 7.0


def test_text_is_not_summed_in_silence():
    with pytest.raises(UsageError, match="CAST"):
        over("sum", ["1", "2"])
