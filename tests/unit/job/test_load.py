"""Job files: the jobs that they define, and the errors about mistakes in them."""

from __future__ import annotations

import pytest

from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.model import (
    AnyOf,
    AtlasOrdering,
    Column,
    Grid,
    Input,
    Session,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
)
from pipelines.core.time import HOUR, MINUTE, SECOND
from pipelines.job.expressions import parse_columns
from pipelines.job.load import load_job, parse_job

BASE = """\
tailrace: 1
job: example
profile: stream_analytics
inputs:
  cars:
    columns: "at TIMESTAMP, booth STRING, toll DOUBLE, axles INT"
    timestamp_by: at
ordering: {late_arrival: 5m, out_of_order: 2m}
query:
  from: cars
  group_by: [booth]
  window: {tumbling: {size: 10m}}
  aggregates: {n: "count(*)"}
"""
INSIGHT = BASE.replace("stream_analytics", "stream_insight")


def changed(old: str, new: str, base: str = BASE) -> str:
    assert old in base
    return base.replace(old, new)


def test_what_is_left_out_has_the_contract_s_defaults() -> None:
    job = parse_job(BASE)
    assert job.ordering("cars") == StreamAnalyticsOrdering(5 * MINUTE, 5 * MINUTE, 2 * MINUTE, "adjust")
    assert (job.end_of_log, job.keep_verdicts, job.strict_limits) == ("flush", "exceptions", False)
    assert job.stream_windows == "stream_windows/example"


def test_off_and_unbounded_are_words_not_booleans() -> None:
    job = parse_job(changed("late_arrival: 5m", "late_arrival: unbounded, early_arrival: off"))
    ordering = job.ordering("cars")
    assert isinstance(ordering, StreamAnalyticsOrdering)
    assert (ordering.early_arrival_us, ordering.late_arrival_us) == (None, None)


def test_comments_layout_and_spelled_out_defaults_do_not_change_the_fingerprint() -> None:
    spelled = changed("out_of_order: 2m", "out_of_order: 120s, early_arrival: 5m, action: adjust")
    assert parse_job("# a comment\n" + spelled).fingerprint == parse_job(BASE).fingerprint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("out_of_order: 2m", "out_of_order: 120000001us"),
        ("size: 10m", "size: 11m"),
        ("count(*)", "count(toll)"),
        ("[booth]", "[]"),
        ("timestamp_by: at", "partitions: 2"),
    ],
)
def test_every_change_of_meaning_changes_the_fingerprint(old: str, new: str) -> None:
    assert parse_job(changed(old, new)).fingerprint != parse_job(BASE).fingerprint


@pytest.mark.parametrize(
    ("old", "new", "line", "key", "text"),
    [
        ("late_arrival", "late_arival", 8, "ordering.late_arival", "did you mean 'late_arrival'?"),
        ("5m", "5 minutes", 8, "ordering.late_arrival", "not a duration"),
        ("5m", "5", 8, "ordering.late_arrival", "lacks a unit"),
        ("5m", "-5m", 8, "ordering.late_arrival", "negative"),
        ("size: 10m", "size: 0s", 12, "query.window.tumbling.size", "longer than 0s"),
        ("size: 10m", "sise: 10m", 12, "query.window.tumbling.sise", "did you mean 'size'?"),
        ("tumbling", "tumblin", 12, "query.window.tumblin", "did you mean 'tumbling'?"),
        ("from: cars", "from: car", 10, "query.from", "did you mean 'cars'?"),
        ("[booth]", "[both]", 11, "query.group_by.0", "did you mean 'booth'?"),
        ("count(*)", "cuont(*)", 13, "query.aggregates.n", "did you mean 'count'?"),
        ("count(*)", "sum(tol)", 13, "query.aggregates.n", "did you mean 'toll'?"),
        ("count(*)", "sum(sum(toll))", 13, "query.aggregates.n", "depends on other rows"),
        ("count(*)", "sum(rand())", 13, "query.aggregates.n", "may not be used"),
        ("count(*)", "max(reflect('a', 'b'))", 13, "query.aggregates.n", "may not be used"),
        ("count(*)", "sum((SELECT 1))", 13, "query.aggregates.n", "depends on other rows"),
        ("count(*)", "percentile_cont(toll)", 13, "query.aggregates.n", "lacks its fraction"),
        ("count(*)", "percentile_cont(toll, 2)", 13, "query.aggregates.n", "between 0 and 1"),
        ("n: ", "booth: ", 13, "query.aggregates.booth", "the result already has"),
        ("n: ", "window_end: ", 13, "query.aggregates.window_end", "the result already has"),
        ("TIMESTAMP", "TIMESTAMP_NTZ", 6, "inputs.cars.columns", "instants are TIMESTAMP"),
        ("booth STRING", "__booth STRING", 6, "inputs.cars.columns", "two underscores"),
        ("booth STRING", "AT STRING", 6, "inputs.cars.columns", "is listed twice"),
        ("timestamp_by: at", "timestamp_by: axles", 7, "inputs.cars.timestamp_by", "not an instant"),
        ("timestamp_by: at", "timestamp_by: at\n    shape: point", 8, "inputs.cars.shape", "stream_insight"),
        ("stream_analytics", "stream_analytic", 3, "profile", "did you mean 'stream_analytics'?"),
        ("job: example", "job: Example", 2, "job", "lower-case"),
        ("tailrace: 1", "tailrace: 2", 1, "tailrace", "not one of"),
        ("  from: cars", "  from: cars\n  union: [cars]", 11, "query.union", "exactly one of"),
        ("job: example", "job: example\njob: other", 3, "job", "twice"),
    ],
)
def test_an_error_names_line_and_key(old: str, new: str, line: int, key: str, text: str) -> None:
    with pytest.raises(JobFileError) as caught:
        parse_job(changed(old, new), file="example.yaml")
    assert (caught.value.line, caught.value.key) == (line, key)
    assert text in str(caught.value)
    assert str(caught.value).startswith(f"example.yaml:{line}: {key}: ")
    assert caught.value.exit_code == 2


def test_names_that_a_log_cannot_have_are_changed() -> None:
    columns = parse_columns("`Device Id` STRING, kind STRING, Sequence BIGINT, r STRUCT<`a-b`: STRING, X: BIGINT>")
    assert columns == (
        Column("Device_Id", "string"),
        Column("kind_", "string"),
        Column("Sequence_", "bigint"),
        Column("r", "struct<`a_b`: string,X: bigint>"),
    )
    assert [Input("a", columns).column(name) for name in ("DEVICE ID", "Kind", "sequence_")] == list(columns[:3])


@pytest.mark.parametrize("given", ["allowed_lateness: 3s", "idle_timeout: 1m"])
def test_processing_time_takes_neither_lateness_nor_idle_timeout(given: str) -> None:
    atlas = changed("stream_analytics", "atlas")
    ordering = "ordering: {late_arrival: 5m, out_of_order: 2m}"
    key = given.partition(":")[0]
    with pytest.raises(JobFileError) as caught:
        parse_job(changed(ordering, f"ordering:\n  boundary: processing_time\n  {given}", atlas), file="example.yaml")
    assert str(caught.value) == (
        f"example.yaml:10: ordering.{key}: '{key}' has no effect with boundary: processing_time, where nothing is"
        " late; leave it out, or set boundary: event_time"
    )
    assert parse_job(changed(ordering, f"ordering: {{boundary: event_time, {given}}}", atlas)).profile == "atlas"
    assert parse_job(changed(ordering, "ordering: {boundary: processing_time}", atlas)).profile == "atlas"


def test_an_error_about_yaml_names_its_line() -> None:
    with pytest.raises(JobFileError, match="not valid YAML") as caught:
        parse_job(changed("[booth]", "[booth"))
    assert caught.value.line is not None


@pytest.mark.parametrize("text", ["", "[]", "3", "a: 1\n---\nb: 2\n"])
def test_what_is_no_job_file_is_refused(text: str) -> None:
    with pytest.raises(JobFileError):
        parse_job(text)


def test_a_job_file_that_is_not_there_is_wrong_usage() -> None:
    with pytest.raises(UsageError, match="cannot read"):
        load_job("nowhere.yaml")


def test_limits_of_the_product_are_errors_only_under_strict_limits() -> None:
    wide = changed("out_of_order: 2m", "out_of_order: 10m")
    assert parse_job(wide).name == "example"
    with pytest.raises(JobFileError, match="9m59s"):
        parse_job(wide + "strict_limits: true\n")
    with pytest.raises(JobFileError, match="7d"):
        parse_job(changed("size: 10m", "size: 8d") + "strict_limits: true\n")


def test_ordering_may_be_given_per_input() -> None:
    text = changed("ordering: {late_arrival: 5m, out_of_order: 2m}", "ordering: {cars: {late_arrival: 7s}}")
    ordering = parse_job(text).ordering("cars")
    assert isinstance(ordering, StreamAnalyticsOrdering)
    assert ordering.late_arrival_us == 7 * SECOND
    with pytest.raises(JobFileError, match="no input 'trucks'"):
        parse_job(changed("{late_arrival: 5m, out_of_order: 2m}", "{cars: {}, trucks: {late_arrival: 5m}}"))


def test_windows_of_any_of_keep_their_names() -> None:
    window = (
        "{any_of: {short: {hopping: {size: 1h, hop: 5m, offset: -1ms}}, s: {session: {timeout: 5m, max_duration: 1h}}}}"
    )
    found = parse_job(changed("{tumbling: {size: 10m}}", window)).query.window
    assert isinstance(found, AnyOf)
    assert [name for name, _ in found.members] == ["short", "s"]
    assert found.members[0][1] == Grid(HOUR, 5 * MINUTE, -1000)
    assert isinstance(found.members[1][1], Session)


def test_atlas_has_its_own_defaults() -> None:
    text = changed("ordering: {late_arrival: 5m, out_of_order: 2m}\n", "").replace("stream_analytics", "atlas")
    job = parse_job(text)
    assert job.ordering("cars") == AtlasOrdering()
    assert job.end_of_log == "hold"
    assert isinstance(job.window_query.window, Grid)
    assert job.window_query.window.align_us == 0


@pytest.mark.parametrize(
    ("advance", "expected"),
    [
        ("increasing_start_time", StreamInsightOrdering("drop", 1, None, 0, True)),
        ("strictly_increasing_start_time", StreamInsightOrdering("drop", 1, None, -1, True)),
        ("{unordered_start_time: 5s}", StreamInsightOrdering("drop", 1, None, 5 * SECOND, True)),
    ],
)
def test_the_helpers_of_stream_insight_set_all_four(advance: str, expected: StreamInsightOrdering) -> None:
    text = changed("{late_arrival: 5m, out_of_order: 2m}", f"{{advance: {advance}}}", INSIGHT)
    job = parse_job(text)
    assert job.ordering("cars") == expected
    assert job.end_of_log == "flush"


@pytest.mark.parametrize(
    ("ordering", "text"),
    [
        ("{advance: {every: 10}}", "'action' is missing"),
        ("{advance: {every: 0}, action: drop}", "1 or more"),
        ("{advance: {every: 10}, action: drop, import_from: cars}", "not another input"),
        ("{advance: increasing_start_time, action: drop}", "leave it out"),
        ("{advance: increasing, action: drop}", "did you mean 'increasing_start_time'?"),
    ],
)
def test_mistakes_in_stream_insight_are_errors(ordering: str, text: str) -> None:
    with pytest.raises(JobFileError) as caught:
        parse_job(changed("{late_arrival: 5m, out_of_order: 2m}", ordering, INSIGHT))
    assert text in str(caught.value)


def test_stream_insight_advances_by_events_or_by_time() -> None:
    by_events = parse_job(
        changed("{late_arrival: 5m, out_of_order: 2m}", "{advance: {every: 10}, delay: 5s, action: drop}", INSIGHT)
    )
    by_time = parse_job(
        changed("{late_arrival: 5m, out_of_order: 2m}", "{advance: {every: 5s}, action: adjust}", INSIGHT)
    )
    assert by_events.ordering("cars") == StreamInsightOrdering("drop", 10, None, 5 * SECOND)
    assert by_time.ordering("cars") == StreamInsightOrdering("adjust", None, 5 * SECOND)
    assert by_events.end_of_log == "hold"
