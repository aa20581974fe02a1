"""Joins of a script: bounds, keys, the rest of ON, chains, reference data."""

from collections.abc import Callable

import pytest

from pipelines.core.steps import Analysed, Filtered, InputRows, Joined, Projected, Referenced, ReferenceRows, Rows, Side
from pipelines.core.time import MINUTE, SECOND

Of = Callable[[str], Rows]


def joined(rows: Rows) -> Joined:
    assert isinstance(rows, Projected)
    inner = rows.rows.rows if isinstance(rows.rows, Filtered) else rows.rows
    assert isinstance(inner, Joined)
    return inner


@pytest.mark.parametrize(
    ("on", "low", "high"),
    [
        ("DATEDIFF(minute, a, b) BETWEEN -1 AND 5", -1, 5),
        ("(DATEDIFF(minute, a, b) >= 0 AND DATEDIFF(minute, a, b) < 2 * 3)", 0, 5),
        ("DATEDIFF(mi, b, a) BETWEEN -5 AND 1", -1, 5),
        ("0 < DATEDIFF(minute, a, b) AND 5 >= DATEDIFF(minute, a, b)", 1, 5),
        ("DATEDIFF(minute, a, b) = 0", 0, 0),
        ("DATEDIFF(minute, a, b) > -3 AND DATEDIFF(minute, b, a) > -3", -2, 2),
    ],
)
def test_any_comparison_of_datediff_with_constants_is_a_bound(rows: Of, on: str, low: int, high: int) -> None:
    found = joined(rows(f"SELECT a.x FROM a JOIN b ON {on}"))
    assert (found.unit_us, found.from_units, found.to_units) == (MINUTE, low, high)
    assert found.condition is None


def test_equalities_are_keys_and_the_rest_is_a_condition_over_both_rows(rows: Of) -> None:
    found = joined(
        rows(
            "SELECT l.x FROM a AS l LEFT JOIN b AS r"
            " ON DATEDIFF(ss, l, r) = 1 AND r.k = l.k AND l.y = r.x AND l.x > r.x AND l.x = 3"
        )
    )
    assert found == Joined(
        Side("l", InputRows("a")),
        Side("r", InputRows("b")),
        SECOND,
        1,
        1,
        (("`k`", "`k`"), ("`y`", "CAST(`x` AS DOUBLE)")),
        "((`l`.`x` > `r`.`x`)) AND ((`l`.`x` = 3L))",
        "left",
    )


def test_where_acts_on_the_pairs(rows: Of) -> None:
    found = rows("SELECT l.x FROM a l LEFT JOIN a r ON l.k = r.k AND DATEDIFF(ss, l, r) = 1 WHERE r.k IS NULL")
    assert isinstance(found, Projected)
    assert isinstance(found.rows, Filtered)
    assert found.rows.condition == "(`r`.`k` IS NULL)"


def test_a_chain_associates_to_the_left_and_keeps_its_bounds_as_conditions(rows: Of) -> None:
    found = joined(
        rows(
            "SELECT a.x, b.z, c.k AS last FROM a JOIN b ON DATEDIFF(minute, a, b) BETWEEN 0 AND 5"
            " JOIN c ON c.k = a.k AND DATEDIFF(minute, b, c) BETWEEN 0 AND 7"
        )
    )
    assert (found.from_units, found.to_units) == (0, 7)
    assert found.left.name == "joined"
    assert isinstance(found.left.rows, Joined)
    assert found.keys == (("`a`.`k`", "`k`"),)
    assert found.condition is not None
    assert "`joined`.`b`.`system_timestamp`" in found.condition
    assert "`c`.`system_timestamp`" in found.condition


def test_columns_of_a_chain_are_reached_through_its_rows(rows: Of) -> None:
    found = rows(
        "SELECT a.x, b.z, c.k FROM a JOIN b ON DATEDIFF(minute, a, b) = 0 JOIN c ON DATEDIFF(minute, a, c) = 0"
    )
    assert isinstance(found, Projected)
    assert [one.expression for one in found.columns] == ["`joined`.`a`.`x`", "`joined`.`b`.`z`", "`c`.`k`"]


def test_an_analytic_function_in_a_join_sees_the_rows_of_its_source(rows: Of) -> None:
    found = rows(
        "SELECT LAG(l.x) OVER (LIMIT DURATION(minute, 1)) AS p FROM a l JOIN b r ON DATEDIFF(ss, l, r) = 0"
        " AND LAST(r.k) OVER (LIMIT DURATION(minute, 1)) = l.k"
    )
    pairs = joined(found)
    assert isinstance(pairs.left.rows, Analysed)
    assert isinstance(pairs.right.rows, Analysed)
    assert pairs.keys == (("`k`", "`__analytic_2`"),)
    assert isinstance(found, Projected)
    assert found.columns[0].expression == "`l`.`__analytic_1`"


def test_reference_data_is_joined_by_any_condition(rows: Of) -> None:
    found = rows("SELECT a.x, ref.high FROM a JOIN ref ON 1 = 1")
    assert isinstance(found, Projected)
    assert found.rows == Referenced(
        Side("a", InputRows("a")), Side("ref", ReferenceRows("ref")), (), "((1L = 1L))", "inner"
    )


def test_reference_data_may_stand_between_streams(rows: Of) -> None:
    found = joined(
        rows("SELECT a.x FROM a JOIN ref ON a.k = ref.k JOIN b ON DATEDIFF(minute, a, b) = 0 AND ref.k = b.k")
    )
    assert isinstance(found.left.rows, Referenced)
    assert found.keys == (("`ref`.`k`", "`k`"),)
    assert found.condition is None


def test_partitions_are_joined_apart(rows: Of) -> None:
    found = joined(
        rows(
            "SELECT l.x FROM a l PARTITION BY PartitionId JOIN b r PARTITION BY PartitionId"
            " ON l.PartitionId = r.PartitionId AND DATEDIFF(minute, l, r) = 0"
        )
    )
    assert found.keys == (("CAST(`input_partition` AS BIGINT)", "CAST(`input_partition` AS BIGINT)"),)
