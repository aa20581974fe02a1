"""The efficient frontier and the sentence about it."""

from __future__ import annotations

from pipelines.core.model import EVERYTHING, Job
from pipelines.job.load import parse_job
from pipelines.tune.differences import Differences
from pipelines.tune.result import Decisions, Figures, Tuning, with_frontier
from pipelines.tune.settings import settings_of

JOB: Job = parse_job(
    """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP", timestamp_by: at}}
ordering: {late_arrival: 5s}
query: {from: cars, window: {tumbling: {size: 10m}}, aggregates: {n: "count(*)"}}
"""
)


def tuning(differ: dict[str, int], windows: int = 10_000) -> Tuning:
    """Settings by their late tolerance, with the windows that differ under each."""
    settings = settings_of(JOB, {"--late": ",".join(differ)})
    each = zip(settings, differ.values(), strict=True)
    return Tuning(
        JOB, EVERYTHING, with_frontier([Figures(one, Decisions(), Differences(windows, n)) for one, n in each])
    )


def frontier(found: Tuning) -> list[object]:
    return [one.setting.values["late_arrival"] for one in found.frontier]


def test_a_setting_that_waits_longer_for_nothing_is_not_on_the_frontier() -> None:
    found = tuning({"5m": 2, "0s": 900, "5s": 310, "1m": 2, "unbounded": 0})
    assert frontier(found) == ["0s", "5s", "1m", "unbounded"]


def test_two_settings_that_are_as_good_are_both_on_the_frontier() -> None:
    two = settings_of(JOB, {"--early": "5m,off"})
    figures = with_frontier([Figures(one, Decisions(), Differences(10, 3)) for one in two])
    assert [one.on_frontier for one in figures] == [True, True]


def test_the_sentence_compares_the_best_setting_with_the_jobs_own() -> None:
    assert tuning({"0s": 900, "5s": 310, "1m": 2}).sentence == (
        "1m instead of 5s: 0.02 % instead of 3.1 % of windows differ, results wait 55s longer"
    )


def test_the_sentence_compares_with_the_shortest_wait_where_the_jobs_own_setting_is_not_tried() -> None:
    assert tuning({"0s": 900, "1m": 0}).sentence == (
        "1m instead of 0s: 0 % instead of 9.0 % of windows differ, results wait 1m longer"
    )
    assert tuning({"0s": 900, "unbounded": 0}).sentence == (
        "unbounded instead of 0s: 0 % instead of 9.0 % of windows differ, results wait without bound instead of 0s"
    )


def test_where_no_setting_has_fewer_windows_that_differ_the_sentence_says_so() -> None:
    assert tuning({"5s": 310, "1m": 310}).sentence == (
        "late_arrival 5s: 3.1 % of windows differ from the complete truth; none has fewer"
    )
