"""How much two results may differ before a person has to look."""

from __future__ import annotations

import math

import pytest

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING
from pipelines.core.time import DAY
from pipelines.reconcile.differences import Differences, TableDifferences
from pipelines.reconcile.thresholds import Thresholds


def differences(
    differing: int, total: tuple[float | None, float | None] = (100.0, 100.0), table: str = "windows/tolls"
) -> Differences:
    """100 rows of a table, of which some differ, and the total of one column before and now."""
    by_status = {"changed": differing} if differing else {}
    one = TableDifferences(table, 100, by_status, {}, {}, {"fees": total}, [], [], DAY)
    return Differences("tolls", "preview:night", "the tables as they are", EVERYTHING, (one,))


def test_differences_that_reach_a_threshold_do_not_exceed_it() -> None:
    assert Thresholds().exceeded(differences(1, (100.0, 105.0))) == []
    assert Thresholds(0, 0).exceeded(differences(0)) == []


def test_each_threshold_that_is_exceeded_is_a_sentence() -> None:
    assert Thresholds().exceeded(differences(2, (100.0, 94.0))) == [
        "windows/tolls: 2 of 100 rows differ, 2 %, which is more than 1 %",
        "windows/tolls: the total of fees goes from 100 to 94, by 6 %, which is more than 5 %",
    ]


@pytest.mark.parametrize(
    ("before", "now", "exceeds"),
    [
        (-100.0, -94.0, True),
        (-100.0, -96.0, False),
        (0.0, 0.1, True),
        (0.0, 0.0, False),
        (None, 1.0, True),
        (None, None, False),
        (1.0, None, True),
        (math.nan, math.nan, False),
        (math.nan, 1.0, True),
        (1.0, math.inf, True),
        (math.inf, math.inf, False),
        (math.inf, -math.inf, True),
    ],
)
def test_a_total_that_was_zero_or_is_no_number_exceeds_every_threshold_if_it_changes(
    before: float | None, now: float | None, exceeds: bool
) -> None:
    assert bool(Thresholds().exceeded(differences(0, (before, now)))) == exceeds


def test_verdicts_are_not_looked_at() -> None:
    assert Thresholds().exceeded(differences(50, (1.0, 2.0), "verdicts/tolls")) == []


@pytest.mark.parametrize("percent", [-1.0, math.nan])
def test_a_threshold_that_is_no_percentage_is_refused(percent: float) -> None:
    with pytest.raises(UsageError, match=r"aggregate_percent: (-1.0|nan) is not a percentage"):
        Thresholds(aggregate_percent=percent)
