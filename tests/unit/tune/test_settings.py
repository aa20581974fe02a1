"""The settings that lists name, and the errors that name a flag."""

from __future__ import annotations

import pytest

from pipelines.core.errors import UsageError
from pipelines.core.model import Job
from pipelines.core.time import MINUTE, SECOND
from pipelines.job.load import parse_job
from pipelines.tune.settings import settings_of


def job(profile: str, ordering: str, timestamp_by: str = ", timestamp_by: at") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: {profile}
inputs: {{cars: {{columns: "at TIMESTAMP, booth STRING"{timestamp_by}}}}}
ordering: {{{ordering}}}
query: {{from: cars, group_by: [booth], window: {{tumbling: {{size: 10m}}}}, aggregates: {{n: "count(*)"}}}}
"""
    )


SA = job("stream_analytics", "late_arrival: 5s, out_of_order: 2s, action: adjust")
ATLAS = job("atlas", "allowed_lateness: 3s")
CTIS = job("stream_insight", "advance: {every: 1}, delay: 5s, action: drop")


def test_settings_are_the_cross_product_of_the_lists_and_other_values_are_the_jobs_own() -> None:
    found = settings_of(SA, {"--late": "5s,1m,unbounded", "--out-of-order": "0s, 2s"})
    assert [(one.values["late_arrival"], one.values["out_of_order"]) for one in found] == [
        (late, order) for late in ("5s", "1m", "unbounded") for order in ("0s", "2s")
    ]
    assert {one.values["early_arrival"] for one in found} == {"5m"}
    assert [one.is_own for one in found] == [False, True, False, False, False, False]


def test_a_setting_that_is_named_twice_is_one() -> None:
    assert len(settings_of(SA, {"--late": "60s,1m,PT1M"})) == 1


def test_without_lists_the_job_alone_is_measured() -> None:
    (only,) = settings_of(ATLAS, {})
    assert only.is_own
    assert only.values == {"allowed_lateness": "3s"}


def test_results_wait_at_most_as_long_as_the_policy_keeps_the_watermark_back() -> None:
    late = settings_of(SA, {"--late": "1m,unbounded", "--early": "off"})
    assert [one.wait_us for one in late] == [MINUTE + 2 * SECOND, None]
    assert [one.wait_us for one in settings_of(ATLAS, {"--allowed-lateness": "0s,1m"})] == [0, MINUTE]
    assert [one.wait_us for one in settings_of(CTIS, {"--delay": "-1us,1m"})] == [-1, MINUTE]


def test_where_inputs_differ_in_a_value_it_goes_by_input() -> None:
    two = parse_job(
        """
tailrace: 1
job: cars
profile: stream_analytics
inputs: {a: {columns: "at TIMESTAMP", timestamp_by: at}, b: {columns: "at TIMESTAMP", timestamp_by: at}}
ordering: {a: {late_arrival: 5s}, b: {late_arrival: 1m}}
query: {union: [a, b], window: {tumbling: {size: 10m}}, aggregates: {n: "count(*)"}}
"""
    )
    (own,) = settings_of(two, {})
    assert own.values["late_arrival"] == {"a": "5s", "b": "1m"}
    assert own.wait_us == MINUTE
    (same,) = settings_of(two, {"--late": "7s"})
    assert same.values["late_arrival"] == "7s"


@pytest.mark.parametrize(
    ("one", "flag", "text", "error"),
    [
        (SA, "--allowed-lateness", "3s", "--allowed-lateness: profile stream_analytics has no such setting"),
        (ATLAS, "--late", "3s", "--late: profile atlas has no such setting; it has --allowed-lateness"),
        (CTIS, "--out-of-order", "3s", "--out-of-order: profile stream_insight has no such setting; it has --delay"),
        (SA, "--late", "5", "--late: '5' is not a duration"),
        (SA, "--late", "5s,,1m", "--late: '' is not a duration"),
        (SA, "--late", "-5s", "--late: '-5s' is negative"),
        (SA, "--out-of-order", "unbounded", "--out-of-order: 'unbounded' is not a duration"),
        (SA, "--early", "unbounded", "--early: 'unbounded' is not a duration"),
        (job("stream_analytics", "", ""), "--late", "5s", "--late: has no effect in job cars"),
        (job("atlas", "boundary: processing_time"), "--allowed-lateness", "5s", "--allowed-lateness: has no effect"),
        (job("stream_insight", "action: drop"), "--delay", "5s", "--delay: has no effect in job cars"),
    ],
)
def test_an_error_names_the_flag(one: Job, flag: str, text: str, error: str) -> None:
    with pytest.raises(UsageError) as raised:
        settings_of(one, {flag: text})
    assert str(raised.value).startswith(error)
