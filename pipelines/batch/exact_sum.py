"""Sums of doubles that are the same bits in any order: exact integer arithmetic, rounded once at the end.

A double is cut into five 32-bit integers ("limbs") on a fixed grid of binary places, the limbs are summed as BIGINT by
Spark's own ``sum``, and the exact total is rounded to the nearest double, ties to even: what :func:`math.fsum` gives.

The grid of *tier* 0 has every finite double below 2**64 that is a multiple of 2**-96: all ordinary data. Other finite
values belong to the tier 96 binary places up or down (or 192, ...) that holds them; NaN and the infinities have tiers
of their own. A row of another tier than 0 is rare, so tiers other than 0 are an array in addition to the sums.

Bound: fewer than 2**30 rows in one group, else a limb's sum could pass BIGINT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.spark.jdk import Jdk

LIMBS = 5
_BITS = 32
_RADIX = 2.0**_BITS
_LOWEST_PLACE = -96
"""Binary place of limb 0 of tier 0: limb ``i`` of tier ``t`` weighs ``2 ** (-96 + 96 * t + 32 * i)``."""
_TIER_STEP = 96
_TIERS = 11
"""Tiers -11 to 11 hold every finite double."""
NAN_TIER = 97
PLUS_INFINITY_TIER = 98
MINUS_INFINITY_TIER = 99


def tier_column(name: str) -> str:
    """The column that contains the tier of value column ``name``."""
    return f"{name}_tier"


def limb_columns(name: str) -> list[str]:
    """The columns that contain the limbs of value column ``name``, least significant first."""
    return [f"{name}_limb{index}" for index in range(LIMBS)]


def split(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """``frame`` with tier and limbs of each DOUBLE column in ``names``; a null has tier 0 and null limbs.

    Every step is exact: a power of two scales, a cast to BIGINT cuts toward zero, and what is left keeps its bits.
    """
    made = [tier_column(name) for name in names] + [limb for name in names for limb in limb_columns(name)]
    steps = [step.alias(column) for name in names for column, step in _split_steps(name).items()]
    # each names those before it, and all are analysed at once
    return frame.select("*", *steps).select(*frame.columns, *made)


@cache
def _split_steps(name: str) -> Mapping[str, Column]:
    steps = {tier_column(name): _tier(F.col(name))}
    # the rest starts with its top limb before the binary point
    rest = _scaled(F.col(name), F.col(tier_column(name))) * F.lit(1 / _RADIX)
    for index, limb in reversed(list(enumerate(limb_columns(name)))):
        at = f"{name}_rest{index}"
        steps[at] = rest
        steps[limb] = F.col(at).cast("bigint")
        rest = (F.col(at) - F.col(limb).cast("double")) * F.lit(_RADIX)
    return steps


def _is_ordinary(value: Column) -> Column:
    """Whether a value is of tier 0."""
    lifted = value * F.lit(2.0**-_LOWEST_PLACE)
    return (F.abs(value) < F.lit(2.0**64)) & (F.rint(lifted) == lifted)


def _tier(value: Column) -> Column:
    # tier t contains |x| in [2 ** (96 t - 44), 2 ** (96 t + 64)): the logarithm may be a little off on either side
    tier = F.floor((F.log2(F.abs(value)) + F.lit(38.0)) / F.lit(float(_TIER_STEP)))
    return (
        F.when(value.isNull() | _is_ordinary(value), F.lit(0))
        .when(F.isnan(value), F.lit(NAN_TIER))
        .when(value == F.lit(float("inf")), F.lit(PLUS_INFINITY_TIER))
        .when(value == F.lit(float("-inf")), F.lit(MINUS_INFINITY_TIER))
        .otherwise(tier.cast("int"))
    )


def _scaled(value: Column, tier: Column) -> Column:
    """The value moved into the grid of tier 0; in two steps, for one factor may lie beyond the doubles."""
    half = F.pow(F.lit(2.0), tier * F.lit(-float(_TIER_STEP // 2)))
    return F.when(tier == 0, value).when(F.abs(tier) <= _TIERS, value * half * half).otherwise(F.lit(0.0))


def limb_sums(name: str) -> dict[str, Column]:
    """Aggregates that sum the limbs of ``name``, whatever the tier: right inside a group of one tier."""
    return {limb: F.sum(limb) for limb in limb_columns(name)}


def tiered_sums(name: str) -> dict[str, Column]:
    """Aggregates over rows of mixed tiers: :func:`ordinary_sums`, and :func:`others_column`, an array of the others."""
    return {**ordinary_sums(name), others_column(name): F.collect_list(other_part(name))}


def ordinary_sums(name: str) -> dict[str, Column]:
    """Aggregates that sum the limbs of the values of tier 0."""
    ordinary = F.col(tier_column(name)) == 0
    return {limb: F.sum(F.when(ordinary, F.col(limb))) for limb in limb_columns(name)}


def others_column(name: str) -> str:
    """The column that contains the values of ``name`` that are of another tier than 0."""
    return f"{name}_others"


def other_part(name: str) -> Column:
    """What :func:`others_column` holds of a row; null if its value is of tier 0."""
    tier = F.col(tier_column(name))
    return F.when(tier != 0, F.struct(tier.alias("tier"), F.array(*limb_columns(name)).alias("limbs")))


def with_totals(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """``frame``, with what :func:`tiered_sums` gave, and ``<name>_total``: the exact sum's nearest double.

    Null where every value was null. NaN, or both infinities, give NaN; one infinity gives itself; a finite sum beyond
    the doubles its infinity.
    """
    wanted = [
        column for column in frame.columns if column not in {limb for name in names for limb in limb_columns(name)}
    ]
    totals = [_total(frame.sparkSession, name).alias(total_column(name)) for name in names]
    return frame.select(*map(F.col, wanted), *totals)


@cache
def _total(spark: SparkSession, name: str) -> Column:
    """Kept, for it takes the JVM hundreds of calls to make."""
    limbs, others = limb_columns(name), F.col(others_column(name))
    mixed = _mixed_total(F.array(*limbs), others)
    return F.when(F.size(others) > 0, mixed).otherwise(_ordinary_total(spark, limbs))


def total_column(name: str) -> str:
    """The column that contains the exact sum of value column ``name``."""
    return f"{name}_total"


def _ordinary_total(spark: SparkSession, limbs: Sequence[str]) -> Column:
    """The nearest double of limb sums of tier 0, null if they are; there may be as many groups as events.

    A BigInteger contains the limbs as one number, and rounds it to a double once, ties to even.
    """
    jdk = Jdk(spark)
    big = jdk.of_class("java.math.BigInteger")
    shift = jdk.expression(F.lit(_BITS))
    numbers = [jdk.static(big, "valueOf", big, jdk.expression(F.col(limb))) for limb in limbs]
    total = numbers.pop()
    while numbers:
        total = jdk.call(jdk.call(total, "shiftLeft", big, shift), "add", big, numbers.pop())
    # a power of two scales exactly
    return jdk.column(jdk.call(total, "doubleValue", jdk.double)) * F.lit(2.0**_LOWEST_PLACE)


def array_total(values: Column) -> Column:
    """The exact sum of an array of doubles without nulls, as :func:`with_totals` gives it; of an empty array 0.0.

    About a microsecond a value where all are of tier 0: one pass a limb over the whole array, a few times less work
    than cutting up value by value.
    """
    scaled = F.transform(values, lambda value: value * F.lit(1 / _RADIX))
    plain = let(scaled, lambda rest: _limbs_of_array(rest, []))
    return F.when(F.forall(values, _is_ordinary), _nearest(plain, _LOWEST_PLACE)).otherwise(_mixed_array_total(values))


def _limbs_of_array(rest: Column, above: list[Column]) -> Column:
    """Sums of each limb over an array of values of tier 0, from the top one down."""
    limbs = [F.aggregate(rest, _zero(), lambda so_far, value: so_far + value.cast("bigint")), *above]
    if len(limbs) == LIMBS:
        return F.array(*limbs)
    left = F.transform(rest, lambda value: (value - value.cast("bigint").cast("double")) * F.lit(_RADIX))
    return let(left, lambda left: _limbs_of_array(left, limbs))


def _mixed_array_total(values: Column) -> Column:
    def of_parts(parts: Column) -> Column:
        ordinary = F.aggregate(
            F.filter(parts, lambda part: part["tier"] == 0)["limbs"],
            F.array(*[_zero()] * LIMBS),
            lambda sums, limbs: F.zip_with(sums, limbs, lambda left, right: left + right),
        )
        others = F.filter(parts, lambda part: part["tier"] != 0)
        return F.when(F.size(others) == 0, _nearest(ordinary, _LOWEST_PLACE)).otherwise(_mixed_total(ordinary, others))

    return let(F.transform(values, _parts), of_parts)


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """``body(value)`` with ``value`` evaluated once, where the body names it several times."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _zero() -> Column:
    return F.lit(0).cast("bigint")


def _parts(value: Column) -> Column:
    """Tier and limbs of one value, as an expression in a lambda."""
    tier = _tier(value)
    start = F.struct(
        (_scaled(value, tier) * F.lit(1 / _RADIX)).alias("rest"), F.array().cast("array<bigint>").alias("limbs")
    )

    def step(state: Column, _: Column) -> Column:
        limb = state["rest"].cast("bigint")
        rest = (state["rest"] - limb.cast("double")) * F.lit(_RADIX)
        return F.struct(rest.alias("rest"), F.concat(F.array(limb), state["limbs"]).alias("limbs"))

    limbs = F.aggregate(F.array(*[F.lit(0)] * LIMBS), start, step)["limbs"]
    return F.struct(tier.alias("tier"), limbs.alias("limbs"))


def _mixed_total(limbs: Column, others: Column) -> Column:
    def has(tier: int) -> Column:
        return F.exists(others, lambda other: other["tier"] == tier)

    return (
        F.when(has(NAN_TIER) | (has(PLUS_INFINITY_TIER) & has(MINUS_INFINITY_TIER)), F.lit(float("nan")))
        .when(has(PLUS_INFINITY_TIER), F.lit(float("inf")))
        .when(has(MINUS_INFINITY_TIER), F.lit(float("-inf")))
        .otherwise(_nearest(_full_range(limbs, others), _LOWEST_PLACE - _TIERS * _TIER_STEP))
    )


def _full_range(limbs: Column, others: Column) -> Column:
    """The limb sums of all finite tiers on one grid that spans every double."""
    step = _TIER_STEP // _BITS
    count = 2 * _TIERS * step + LIMBS
    ordinary = F.struct(
        F.lit(0).alias("tier"), F.transform(limbs, lambda limb: F.coalesce(limb, F.lit(0))).alias("limbs")
    )
    terms = F.concat(F.array(ordinary), others)

    def sum_at(place: Column) -> Column:
        def add(so_far: Column, term: Column) -> Column:
            index = place - (term["tier"] + F.lit(_TIERS)) * F.lit(step)
            inside = (index >= 0) & (index < LIMBS)
            return so_far + F.when(inside, F.get(term["limbs"], index.cast("int"))).otherwise(F.lit(0).cast("bigint"))

        return F.aggregate(terms, F.lit(0).cast("bigint"), add)

    return F.transform(F.sequence(F.lit(0), F.lit(count - 1)), sum_at)


def _nearest(limbs: Column, lowest_place: int) -> Column:
    """The double nearest to ``sum(limbs[i] * 2 ** (lowest_place + 32 * i))``, ties to even.

    The top three digits of the carried sum hold at least 65 bits; whatever is below only matters as "not zero" and
    goes into the last bit. Two exact doubles hold those digits, so their one addition is the only rounding.
    """
    negative = F.aggregate(limbs, _zero(), lambda initial_state, limb: F.shiftright(initial_state + limb, _BITS)) < 0
    sign = F.when(negative, F.lit(-1).cast("bigint")).otherwise(F.lit(1).cast("bigint"))
    return let(sign, lambda sign: sign * _nearest_magnitude(F.transform(limbs, lambda limb: limb * sign), lowest_place))


def _nearest_magnitude(limbs: Column, lowest_place: int) -> Column:
    mask = F.lit(2**_BITS - 1).cast("bigint")

    def initial_state(state: Column, limb: Column) -> Column:
        here = state["carry"] + limb
        digit = here.bitwiseAND(mask)
        return F.struct(
            F.shiftright(here, _BITS).alias("carry"), F.concat(F.array(digit), state["digits"]).alias("digits")
        )

    start = F.struct(_zero().alias("carry"), F.array().cast("array<bigint>").alias("digits"))
    digits = F.aggregate(limbs, start, initial_state, lambda state: F.concat(F.array(state["carry"]), state["digits"]))

    def take(state: Column, digit: Column) -> Column:
        seen, low = state["seen"], state["low"]
        sticky = low.bitwiseOR(F.lit(1).cast("bigint"))
        return F.struct(
            F.when((seen == 0) & (digit == 0), F.lit(0)).otherwise(seen + 1).alias("seen"),
            F.when(seen == 0, digit).otherwise(state["high"]).alias("high"),
            F.when(seen == 1, digit).otherwise(state["middle"]).alias("middle"),
            F.when(seen == 2, digit).when((seen > 2) & (digit != 0), sticky).otherwise(low).alias("low"),
        )

    def rounded(state: Column) -> Column:
        middle = state["middle"]
        upper = F.shiftleft(state["high"], 21) + F.shiftright(middle, 11)
        lower = F.shiftleft(middle.bitwiseAND(F.lit(2047).cast("bigint")), _BITS) + state["low"]
        mantissa = upper.cast("double") * F.lit(2.0**43) + lower.cast("double")
        place = F.lit(lowest_place) + (state["seen"] - 3) * F.lit(_BITS)
        # in two steps: one factor may lie beyond the doubles
        half = F.floor(place / F.lit(2))
        return mantissa * F.pow(F.lit(2.0), half) * F.pow(F.lit(2.0), place - half)

    nothing = F.struct(F.lit(0).alias("seen"), _zero().alias("high"), _zero().alias("middle"), _zero().alias("low"))
    return F.aggregate(digits, nothing, take, rounded)
