"""Aggregates of the live run, value by value."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from pipelines.core.errors import DataRefused
from pipelines.core.model import Aggregate
from pipelines.live.aggregates import aggregate, total_of_doubles


def over(function: str, values: list[Any], **more: Any) -> Any:
    return aggregate(Aggregate("x", function, "v", **more), values)


def test_a_sum_of_doubles_is_the_double_nearest_to_the_exact_sum() -> None:
    assert over("sum", [0.1] * 10) == 1.0
    assert over("sum", [1e16, 1.0, -1e16]) == 1.0
    assert total_of_doubles([1e308, 1e308, -1e308]) == 1e308
    assert total_of_doubles([1e308, 1e308]) == math.inf


def test_a_sum_with_nan_or_with_both_infinities_is_nan() -> None:
    assert math.isnan(over("sum", [1.0, math.nan]))
    assert math.isnan(over("sum", [math.inf, -math.inf]))
    assert over("sum", [math.inf, 1e308, 1e308]) == math.inf


def test_the_mean_of_decimals_is_rounded_half_up_four_digits_further() -> None:
    assert over("avg", [Decimal("0.01"), Decimal("0.02"), Decimal("0.02")]) == Decimal("0.016667")
    assert over("avg", [Decimal("0.0"), Decimal("0.1")]) == Decimal("0.05000")
    assert over("avg", [Decimal(1), Decimal(0), Decimal(0), Decimal(0)] * 4) == Decimal("0.2500")


def test_a_sum_of_whole_numbers_may_reach_the_ends_of_bigint_and_not_pass_them() -> None:
    assert over("sum", [2**63 - 1]) == 2**63 - 1
    assert over("sum", [-(2**63)]) == -(2**63)
    with pytest.raises(DataRefused, match="BIGINT"):
        over("sum", [2**63 - 1, 1])
    with pytest.raises(DataRefused, match="BIGINT"):
        over("sum", [-(2**63), -1])


def test_variances_take_the_exact_sum_of_squared_distances() -> None:
    values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]
    assert over("var_pop", values) == 4.0
    assert over("stddev_pop", values) == 2.0
    assert over("var_samp", values) == 32 / 7
    assert over("stddev_samp", [9.0]) is None


def test_percentiles_are_interpolated_or_picked() -> None:
    values = [40, 10, None, 30, 20]
    assert over("percentile_cont", values, parameter=0.5) == 25.0
    assert over("percentile_cont", values, parameter=0.25) == 17.5
    assert over("percentile_disc", values, parameter=0.5) == 20.0
    assert over("percentile_disc", values, parameter=0.0) == 10.0


def test_nulls_are_values_to_first_and_last_alone() -> None:
    assert over("first", [None, 1]) is None
    assert over("last", [1, None]) is None
    assert over("collect", [None, 1, None, 2]) == [1, 2]
    assert over("count", [None, 1, 1, math.nan, math.nan]) == 4
    assert over("count", [None, 1.0, math.nan, math.nan, 0.0, -0.0], distinct=True) == 3
    assert over("max", [None, 1.0, math.nan]) != over("max", [None, 1.0])
    assert over("min", [None, None]) is None
