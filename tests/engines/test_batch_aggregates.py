"""Aggregates of the batch engine: exact, in every layout the same bits, and what each makes of nulls and ties."""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from pipelines.batch.aggregates import aggregate
from pipelines.batch.columns import (
    ARRIVAL_US,
    INPUT_RANK,
    PARTITION,
    SEQUENCE,
    SYSTEM_US,
    WINDOW_END_US,
    WINDOW_ID,
    WINDOW_START_US,
)
from pipelines.batch.spark.local_rows import local_frame
from pipelines.core.errors import JobFileError
from pipelines.core.model import Aggregate, Grid, Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

_HEAD = (
    (WINDOW_START_US, "bigint"),
    (WINDOW_END_US, "bigint"),
    (WINDOW_ID, "string"),
    (SYSTEM_US, "bigint"),
    (ARRIVAL_US, "bigint"),
    (PARTITION, "int"),
    (SEQUENCE, "bigint"),
    (INPUT_RANK, "int"),
    ("k", "string"),
)
LARGEST = 1.7976931348623157e308
LEAST = 5e-324

SUMS: dict[str, Sequence[float | None]] = {
    "cancellation": [1e300, 1.0, -1e300],
    "subnormals": [LEAST] * 3 + [1e-310, -2e-320],
    "ten tenths": [0.1] * 10,
    "half way, to even": [1.0, 2.0**-53],
    "half way, to odd": [1 + 2.0**-52, 2.0**-53],
    "half way and a little": [1.0, 2.0**-53, 2.0**-106],
    "half way and the least little": [1.0, 2.0**-53, LEAST],
    "half way below, negative": [-1.0, -(2.0**-53), -LEAST],
    "just below half way": [1.0, 2.0**-53, -LEAST],
    "negative zero": [-0.0],
    "rounds to infinity": [LARGEST, 9.9792015476736e291],
    "rounds to the largest": [LARGEST, 9.9e291],
    "beyond the largest": [LARGEST, LARGEST],
    "beyond the least": [-LARGEST, -LARGEST],
    "beyond, and back": [LARGEST, LARGEST, LARGEST, -LARGEST, -LARGEST],
    "not a number": [1.0, math.nan],
    "infinity": [1.0, math.inf],
    "negative infinity": [-math.inf, LARGEST],
    "both infinities": [math.inf, -math.inf],
    "nothing": [None, None],
    "something": [None, 2.5],
    "edges of the common grid": [2.0**64, 1.0, -(2.0**63), 2.0**-96, 2.0**-97, math.nextafter(2.0**64, 0)],
    "gone": [1e-20, -1e-20],
}


def _random_sums(seed: int, count: int) -> dict[str, list[float | None]]:
    """Lists whose values span a few or all exponents, some cancelling each other."""
    rng = random.Random(seed)
    ranges = ((-1074, 1023), (-1074, -1000), (1000, 1023), (-120, -80), (50, 80), (-60, 60), (-5, 5))
    lists: dict[str, list[float | None]] = {}
    for index in range(count):
        low, high = rng.choice(ranges)
        values = [
            math.ldexp(rng.choice((-1, 1)) * rng.getrandbits(rng.choice((1, 20, 53))), rng.randint(low, high) - 52)
            for _ in range(rng.randint(1, 40))
        ]
        if rng.random() < 0.4:
            values += [-value for value in rng.sample(values, len(values) // 2)]
        lists[f"random {index}"] = list(values)
    for index in range(5):
        lists[f"mixed {index}"] = [rng.choice((-1, 1)) * 10 ** rng.uniform(-20, 20) for _ in range(2000)]
    return lists


def exact(values: Sequence[float | None]) -> float | None:
    """The correctly rounded sum, from rational arithmetic."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    if not all(map(math.isfinite, present)):
        return sum(value for value in present if not math.isfinite(value))
    total = sum(map(Fraction, present), Fraction(0))
    try:
        return float(total)
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def bits(value: object) -> object:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack(">d", value).hex()
    return [bits(item) for item in value] if isinstance(value, list) else value


def _members(spark: SparkSession, lists: Mapping[str, Sequence[Any]], kind: str = "double") -> DataFrame:
    """One row per value; the place in its list is the order of system timestamps, backwards in arrival order."""
    rows = [
        (0, 10, None, index // 2, -index, 0, -index, 0, k, value)
        for k, values in lists.items()
        for index, value in enumerate(values)
    ]
    random.Random(7).shuffle(rows)
    return local_frame(spark, (*_HEAD, ("x", kind)), rows)


def _query(*aggregates: Aggregate) -> Query:
    return Query(Grid(10, 10), aggregates, ("cars",), group_by=("k",))


def _by_group(frame: DataFrame) -> dict[str, Any]:
    return {row["k"]: row for row in frame.collect()}


def _one(spark: SparkSession, values: list[Any], kind: str, *aggregates: Aggregate) -> Any:
    return _by_group(aggregate(_members(spark, {"a": values}, kind), _query(*aggregates)))["a"]


@pytest.fixture(scope="module")
def lists() -> dict[str, Sequence[float | None]]:
    return {**SUMS, **_random_sums(1, 100)}


@pytest.fixture(scope="module")
def plain(spark: SparkSession, lists: dict[str, Sequence[float | None]]) -> dict[str, Any]:
    """Sums and averages alone: the path by tiers."""
    query = _query(Aggregate("s", "sum", "x"), Aggregate("a", "avg", "x"), Aggregate("n", "count"))
    return _by_group(aggregate(_members(spark, lists), query))


@pytest.fixture(scope="module")
def rich(spark: SparkSession, lists: dict[str, Sequence[float | None]]) -> dict[str, Any]:
    """Sums with aggregates that gather their values: the other path."""
    query = _query(
        Aggregate("s", "sum", "x"),
        Aggregate("v", "var_samp", "x"),
        Aggregate("vp", "var_pop", "x"),
        Aggregate("sp", "stddev_pop", "x"),
        Aggregate("pc", "percentile_cont", "x", parameter=0.3),
        Aggregate("pd", "percentile_disc", "x", parameter=0.3),
        Aggregate("f", "first", "x"),
        Aggregate("l", "last", "x"),
        Aggregate("c", "collect", "x"),
        Aggregate("d", "count", "x", distinct=True),
        Aggregate("lo", "min", "x"),
        Aggregate("hi", "max", "x"),
    )
    return _by_group(aggregate(_members(spark, lists).repartition(5), query))


def test_a_sum_of_doubles_is_the_exact_sum_rounded_once(plain: dict[str, Any], lists: dict[str, Any]) -> None:
    assert {k: bits(row["s"]) for k, row in plain.items()} == {k: bits(exact(values)) for k, values in lists.items()}


def test_a_sum_is_the_same_with_other_aggregates_and_in_another_layout(
    plain: dict[str, Any], rich: dict[str, Any]
) -> None:
    assert {k: bits(row["s"]) for k, row in plain.items()} == {k: bits(row["s"]) for k, row in rich.items()}


def test_an_average_is_the_exact_sum_divided_once(plain: dict[str, Any], lists: dict[str, Any]) -> None:
    for k, values in lists.items():
        total, count = exact(values), sum(value is not None for value in values)
        assert bits(plain[k]["a"]) == bits(None if total is None else total / count), k


def test_variance_sums_the_squared_distances_from_the_mean_exactly(rich: dict[str, Any], lists: dict[str, Any]) -> None:
    for k, values in lists.items():
        present = [value for value in values if value is not None]
        if not present:
            assert (rich[k]["v"], rich[k]["vp"]) == (None, None)
            continue
        mean = (exact(present) or 0.0) / len(present)
        squares = exact([(value - mean) * (value - mean) for value in present])
        assert squares is not None
        assert bits(rich[k]["vp"]) == bits(squares / len(present)), k
        assert bits(rich[k]["sp"]) == bits(math.sqrt(squares / len(present))), k
        assert bits(rich[k]["v"]) == bits(squares / (len(present) - 1) if len(present) > 1 else None), k


def _sorted(values: Sequence[float | None]) -> list[float]:
    return sorted((value + 0.0 for value in values if value is not None), key=lambda x: (math.isnan(x), x))


def test_percentile_cont_lies_between_the_neighbours_of_its_position(
    rich: dict[str, Any], lists: dict[str, Any]
) -> None:
    for k, values in lists.items():
        ranked = _sorted(values)
        if not ranked:
            assert rich[k]["pc"] is None
            continue
        position = (len(ranked) - 1) * 0.3
        low, high = ranked[math.floor(position)], ranked[math.ceil(position)]
        weighted = (math.ceil(position) - position) * low + (position - math.floor(position)) * high
        assert bits(rich[k]["pc"]) == bits(low if low == high else weighted), k


def test_percentile_disc_is_the_smallest_value_whose_share_reaches_the_fraction(
    rich: dict[str, Any], lists: dict[str, Any]
) -> None:
    for k, values in lists.items():
        ranked = _sorted(values)
        want = next((value for rank, value in enumerate(ranked, 1) if rank / len(ranked) >= 0.3), None)
        assert bits(rich[k]["pd"]) == bits(want), k


def test_percentile_disc_of_all_and_of_none_are_the_ends(spark: SparkSession) -> None:
    row = _one(
        spark,
        [3, 1, 2, None],
        "int",
        Aggregate("lo", "percentile_disc", "x", parameter=0.0),
        Aggregate("hi", "percentile_disc", "x", parameter=1.0),
        Aggregate("mid", "percentile_cont", "x", parameter=0.5),
    )
    assert (row["lo"], row["hi"], row["mid"]) == (1.0, 3.0, 2.0)


def test_percentile_disc_does_not_overshoot_where_the_product_is_rounded_up(spark: SparkSession) -> None:
    values = list(range(1, 101))
    assert math.ceil(100 * 0.07) == 8
    assert _one(spark, values, "int", Aggregate("p", "percentile_disc", "x", parameter=0.07))["p"] == 7.0


def test_first_and_last_follow_system_timestamps_then_arrival_order_nulls_included(
    rich: dict[str, Any], lists: dict[str, Any]
) -> None:
    # two rows share each system timestamp, and of two such rows the later in the list arrived first
    for k, values in lists.items():
        pairs = [values[index : index + 2][::-1] for index in range(0, len(values), 2)]
        ordered = [value for pair in pairs for value in pair]
        assert bits(rich[k]["f"]) == bits(ordered[0]), k
        assert bits(rich[k]["l"]) == bits(ordered[-1]), k
        assert bits(rich[k]["c"]) == bits([value for value in ordered if value is not None]), k


def test_min_and_max_count_negative_zero_as_zero_and_nan_as_greatest(spark: SparkSession) -> None:
    aggregates = (Aggregate("lo", "min", "x"), Aggregate("hi", "max", "x"), Aggregate("d", "count", "x", True))
    found = _by_group(
        aggregate(_members(spark, {"zeros": [0.0, -0.0], "nan": [math.nan, 1.0, math.nan]}), _query(*aggregates))
    )
    assert (bits(found["zeros"]["lo"]), bits(found["zeros"]["hi"]), found["zeros"]["d"]) == (bits(0.0), bits(0.0), 1)
    assert (found["nan"]["lo"], bits(found["nan"]["hi"]), found["nan"]["d"]) == (1.0, "nan", 2)


def test_counts_of_rows_values_and_distinct_values(spark: SparkSession) -> None:
    row = _one(
        spark,
        [1, 1, None, 2],
        "bigint",
        Aggregate("rows", "count"),
        Aggregate("some", "count", "x"),
        Aggregate("different", "count", "x", distinct=True),
    )
    assert (row["rows"], row["some"], row["different"]) == (4, 3, 2)


def test_sums_of_bigint_are_exact_and_averages_divide_the_exact_sum(spark: SparkSession) -> None:
    most = 2**63 - 1
    row = _one(spark, [most, 1, -5], "bigint", Aggregate("s", "sum", "x"), Aggregate("a", "avg", "x"))
    assert (row["s"], row["a"]) == (most - 4, float(most - 4) / 3)
    assert _one(spark, [most, most, 1], "bigint", Aggregate("a", "avg", "x"))["a"] == float(2 * most + 1) / 3


def test_a_sum_beyond_bigint_fails_and_names_its_aggregate(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="aggregate 'total': the sum of 'x' does not fit a BIGINT"):
        _one(spark, [2**63 - 1, 1], "bigint", Aggregate("total", "sum", "x"))


def test_sums_of_narrow_integers_are_bigint(spark: SparkSession) -> None:
    row = _one(spark, [2**31 - 1] * 3, "int", Aggregate("s", "sum", "x"), Aggregate("a", "avg", "x"))
    assert (row["s"], row["a"]) == (3 * (2**31 - 1), float(2**31 - 1))


def test_sums_of_float_are_sums_of_doubles_and_decimals_stay_decimals(spark: SparkSession) -> None:
    row = _one(
        spark,
        [Decimal("0.10")] * 3,
        "decimal(10,2)",
        Aggregate("decimal", "sum", "x"),
        Aggregate("mean", "avg", "x"),
        Aggregate("float", "sum", "CAST(x AS FLOAT)"),
    )
    assert (row["decimal"], row["mean"]) == (Decimal("0.30"), Decimal("0.100000"))
    as_float = struct.unpack("f", struct.pack("f", 0.1))[0]
    assert row["float"] == exact([as_float] * 3)


def test_values_without_an_order_can_be_collected(spark: SparkSession) -> None:
    row = _one(
        spark, ["b", "a"], "string", Aggregate("c", "collect", "map(x, 1)"), Aggregate("f", "first", "map(x, 1)")
    )
    assert (row["c"], row["f"]) == ([{"a": 1}, {"b": 1}], {"a": 1})


def test_an_aggregate_of_numbers_refuses_text_before_anything_runs(spark: SparkSession) -> None:
    with pytest.raises(JobFileError, match=r"'s': sum takes numbers, and 'x' is string"):
        aggregate(_members(spark, {"a": ["1"]}, "string"), _query(Aggregate("s", "sum", "x")))
