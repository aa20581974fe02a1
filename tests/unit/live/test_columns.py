"""Values by the column, against the same rules value by value."""

from __future__ import annotations

import math
from decimal import Decimal
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.model import Aggregate
from pipelines.core.values import grouping_key
from pipelines.live.aggregates import aggregate
from pipelines.live.aggregates_by_column import aggregated
from pipelines.live.state.columns import numbered, starts_of_runs

BIG = 2**63 - 1
POOLS: dict[str, list[Any]] = {
    "doubles": [0.1, 0.2, 1e16, -1e16, 1e308, -1e308, 0.0, -0.0, math.inf, -math.inf, math.nan, None],
    "only finite doubles": [0.1, 0.2, 1e16, -1e16, 1.0, -0.0, 0.0],
    "whole numbers": [-3, -1, 0, 1, 2, 7, None],
    "whole numbers that nearly leave BIGINT": [BIG, -BIG - 1, 1, -1, 0, None],
    "decimals": [Decimal("0.10"), Decimal("-0.10"), Decimal("123456789.99"), Decimal("0.00"), None],
    "text": ["", "a", "b", "ä", "€", None],
    "booleans": [True, False, None],
    "arrays": [[1.0], [], [math.nan], [-0.0], [0.0], None],
    "nothing": [None],
}
FUNCTIONS = ("count", "sum", "avg", "min", "max", "stddev_samp", "percentile_disc", "first", "last", "collect")


def shown(found: Any) -> str:
    return f"{type(found).__name__} {found!r}"


def outcome(call: Any) -> list[str] | type[Exception]:
    try:
        return list(map(shown, call()))
    except (DataRefused, UsageError) as error:
        return type(error)


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_windows_aggregated_at_once_have_the_bits_and_types_of_each_window_alone(function: str, pool: str) -> None:
    for seed in range(60):
        chance = Random(seed)
        values = chance.choices(POOLS[pool], k=chance.randint(1, 40))
        starts = sorted({0, *chance.choices(range(len(values)), k=chance.randint(0, 8))})
        runs = [values[begin:end] for begin, end in zip(starts, [*starts[1:], len(values)], strict=True)]
        one = Aggregate("x", function, "v", distinct=function == "count" and chance.random() < 0.5, parameter=0.5)
        column = pa.chunked_array([pa.array(values)])
        at_once = outcome(lambda: aggregated(one, column, np.array(starts), len(values)))  # noqa: B023
        assert at_once == outcome(lambda: [aggregate(one, run) for run in runs])  # noqa: B023


def test_a_count_of_rows_needs_no_argument() -> None:
    assert aggregated(Aggregate("n", "count"), None, np.array([0, 2, 3]), 7) == [2, 1, 4]


def test_tuples_of_values_have_one_number_exactly_where_sql_groups_them() -> None:
    for seed in range(200):
        chance = Random(seed)
        count = chance.randint(0, 30)
        columns = [chance.choices(POOLS[chance.choice(sorted(POOLS))], k=count) for _ in range(chance.randint(0, 3))]
        numbers, tuples = numbered([pa.chunked_array([pa.array(values)]) for values in columns], count)
        rows = list(zip(*columns, strict=True)) if columns else [()] * count
        groups = list(map(grouping_key, rows))
        assert [grouping_key(tuples[number]) for number in numbers] == groups
        assert len(tuples) == len(set(groups))
        assert list(dict.fromkeys(numbers.tolist())) == list(range(len(tuples)))


def test_runs_begin_where_any_column_changes() -> None:
    assert starts_of_runs(np.array([1, 1, 2, 2, 1]), np.array([5, 5, 5, 6, 6])).tolist() == [0, 2, 3, 4]
    assert starts_of_runs(np.array([], np.int64)).tolist() == []
