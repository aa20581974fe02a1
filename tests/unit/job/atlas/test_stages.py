"""What pipelines become: steps, the event time, ordering settings, and refusals with their place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from atlas_jobs import COLUMNS, MERGE, SOURCE, job_of, job_text, relations, tumbling

from pipelines.core.errors import JobFileError
from pipelines.core.model import AtlasOrdering, Job
from pipelines.core.query import Aggregate, Grid, Session, Snapshot, SortKey
from pipelines.core.steps import Applied, Filtered, Gathered, InputRows, Projected, Referenced, Windowed, columns_of
from pipelines.core.time import HOUR, MINUTE, SECOND
from pipelines.job.load import load_job, parse_job

IN_A_FILE = f"""\
tailrace: 1
job: a
profile: atlas
inputs: {{r: {{columns: "{COLUMNS}"}}}}
query: {{pipeline: alerts.json}}
"""
PER_MACHINE = {"$group": {"_id": "$machine", "n": {"$sum": 1}, "most": {"$max": "$watts"}}}


def columns(job: Job) -> tuple[str, ...]:
    assert job.steps is not None
    known = {one.name: [column.name for column in one.columns] for one in (*job.inputs, *job.references)}
    return columns_of(job.steps.outputs[0].rows, job.steps, known)


def windowed(job: Job) -> list[Windowed]:
    return [one for one in relations(job) if isinstance(one, Windowed)]


def test_a_window_with_a_group_becomes_one_windowed_relation() -> None:
    job = job_of(tumbling(PER_MACHINE))
    (window,) = windowed(job)
    assert window.window == Grid(10 * SECOND, 10 * SECOND, 0, 0)
    assert [key.expression for key in window.keys] == ["`machine`"]
    assert [(one.function, one.argument) for one in window.aggregates] == [("count", None), ("max", "`watts`")]
    assert window.rows == InputRows("readings")
    assert job.steps is not None
    assert job.steps.outputs[0].name == "alerts"
    assert columns(job) == ("_id", "n", "most")


def test_the_source_gives_the_event_time() -> None:
    assert job_of(tumbling(PER_MACHINE)).inputs[0].timestamp_by == "at"
    seconds = {"$source": {"topic": "r", "timeField": {"$toDate": {"$multiply": ["$watts", 1000]}}}}
    job = parse_job(job_text(json.dumps([seconds, MERGE])))
    assert job.inputs[0].timestamp_by == "timestamp_millis(CAST((`watts` * 1000L) AS BIGINT))"


def test_the_window_gives_the_ordering() -> None:
    minute = {"size": 1, "unit": "minute"}
    job = job_of(tumbling(PER_MACHINE, allowedLateness=minute, idleTimeout={"size": 1, "unit": "hour"}))
    assert job.ordering("readings") == AtlasOrdering(MINUTE, HOUR)
    assert job_of(tumbling(PER_MACHINE)).ordering("readings") == AtlasOrdering(3 * SECOND)
    arrival = job_of(tumbling(PER_MACHINE, boundary="processingTime")).ordering("readings")
    assert isinstance(arrival, AtlasOrdering)
    assert arrival.boundary == "processing_time"


def test_the_job_file_may_say_the_same_as_the_pipeline_but_nothing_else() -> None:
    stage = tumbling(PER_MACHINE, allowedLateness={"size": 60, "unit": "second"})
    job_of(stage, rest="ordering: {allowed_lateness: 1m, partition_idle_timeout: 5s}\n")
    with pytest.raises(JobFileError, match=r"ordering.allowed_lateness: the pipeline has 1m; leave this out"):
        job_of(stage, rest="ordering: {allowed_lateness: 2m}\n")


def test_hopping_windows_and_offsets_are_grids() -> None:
    stage = {
        "$hoppingWindow": {
            "interval": {"size": 1, "unit": "hour"},
            "hopSize": {"size": 15, "unit": "minute"},
            "offset": {"offsetFromUtc": 5, "unit": "minute"},
            "pipeline": [PER_MACHINE],
        }
    }
    (window,) = windowed(job_of(stage))
    assert window.window == Grid(HOUR, 15 * MINUTE, 5 * MINUTE, 0)


def session(*pipeline: Any) -> dict[str, Any]:
    gap = {"size": 5, "unit": "minute"}
    return {"$sessionWindow": {"gap": gap, "partitionBy": "$machine", "pipeline": list(pipeline)}}


def test_sessions_are_partitioned_by_a_hidden_column() -> None:
    (window,) = windowed(job_of(session(PER_MACHINE)))
    assert isinstance(window.window, Session)
    (name,) = window.window.partition_by
    assert window.window.timeout_us == 5 * MINUTE
    assert name in columns_of(window.rows, job_of(session(PER_MACHINE)).steps, {"readings": []})  # type: ignore[arg-type]
    assert columns(job_of(session(PER_MACHINE))) == ("_id", "n", "most")


def test_a_condition_inside_a_session_acts_on_the_session_that_was_formed() -> None:
    later, first = windowed(job_of(session({"$match": {"watts": {"$gt": 5}}}, PER_MACHINE)))
    assert isinstance(first.window, Session)
    assert not any(isinstance(one, Filtered) for one in [first.rows])
    assert later.window == Snapshot()
    assert len(later.keys) == 3, "the group's key, the session's partition and its start"


def test_a_second_group_is_a_snapshot_over_the_first() -> None:
    per_hall = {"$group": {"_id": {"m": "$machine", "hall": "$place.hall"}}}
    halls = {"$group": {"_id": "$_id.hall", "machines": {"$sum": 1}}}
    second, first = windowed(job_of(tumbling(per_hall, halls)))
    assert (second.window, isinstance(first.window, Grid)) == (Snapshot(), True)
    assert len(first.keys) == 2


def test_first_last_and_push_are_in_arrival_order_or_as_sorted() -> None:
    group = {"$group": {"_id": None, "a": {"$first": "$watts"}, "b": {"$last": "$watts"}, "c": {"$push": "$watts"}}}
    first, last, every = windowed(job_of(tumbling(group)))[0].aggregates
    arrival = (SortKey("arrival_time"), SortKey("input_partition"), SortKey("sequence"))
    assert (first.function, first.order_by) == ("top_one", arrival)
    assert last.order_by == tuple(SortKey(one.expression, True) for one in arrival)
    assert (every.function, every.order_by) == ("collect_top", arrival)
    sorted_first = windowed(job_of(tumbling({"$sort": {"temp": -1}}, group)))[0].aggregates[0]
    assert sorted_first.order_by == (SortKey("`temp`", True), *arrival)


def test_sort_and_limit_keep_documents_of_each_window() -> None:
    job = job_of(tumbling({"$sort": {"watts": -1}}, {"$limit": 3}))
    (window,) = windowed(job)
    assert (window.keys, window.aggregates[0].limit) == ((), 3)
    assert any(isinstance(one, Applied) for one in relations(job))
    assert columns(job) == ("at", "machine", "watts", "temp", "tags", "place")


def test_a_window_without_a_group_gives_its_documents_at_its_end() -> None:
    job = job_of(tumbling({"$match": {"watts": {"$gt": 5}}}))
    assert [type(one).__name__ for one in relations(job)] == [
        "Projected", "Applied", "Windowed", "Filtered", "InputRows",
    ]  # fmt: skip


def test_count_counts_the_documents_of_a_window() -> None:
    job = job_of(tumbling({"$count": "n"}))
    assert columns(job) == ("n",)
    assert windowed(job)[0].aggregates == (Aggregate("__a1", "count"),)


def test_a_windows_start_and_end_are_known_in_and_behind_it() -> None:
    group = {"$group": {"_id": {"from": {"$meta": "stream.window.start"}}, "n": {"$sum": 1}}}
    job = job_of(tumbling(group), {"$addFields": {"until": "$_stream_meta.window.end"}})
    assert windowed(job)[0].keys == ()
    assert columns(job) == ("_id", "n", "until")
    last = relations(job)[0]
    assert isinstance(last, Projected)
    assert last.columns[-1].expression == "`system_timestamp`"


def test_a_document_without_a_window_is_a_row() -> None:
    job = job_of({"$match": {"watts": {"$gte": 5}}}, {"$project": {"machine": 1, "hall": "$place.hall"}})
    assert windowed(job) == []
    assert columns(job) == ("machine", "hall")


def test_projections_keep_replace_and_leave_out_fields() -> None:
    assert columns(job_of({"$project": {"tags": 0, "place.row": 0}})) == ("at", "machine", "watts", "temp", "place")
    assert columns(job_of({"$unset": ["at", "_ts", "place"]})) == ("machine", "watts", "temp", "tags")
    assert columns(job_of({"$addFields": {"place.wing": "w", "watts": "$$REMOVE"}})) == (
        "at", "machine", "temp", "tags", "place",
    )  # fmt: skip
    assert columns(job_of({"$replaceRoot": {"newRoot": "$place"}})) == ("hall", "row")
    merged = {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$place", {"machine": "$machine"}]}}}
    assert columns(job_of(merged)) == ("hall", "row", "machine")


def test_a_lookup_with_its_unwind_is_a_join_with_reference_data() -> None:
    find = {
        "$lookup": {
            "from": {"db": "plant", "coll": "Machines"},
            "localField": "machine",
            "foreignField": "id",
            "as": "m",
        }
    }
    rest = 'references: {machines: {columns: "id STRING, line STRING"}}\n'
    job = job_of(find, {"$unwind": {"path": "$m", "preserveNullAndEmptyArrays": True}}, rest=rest)
    (joined,) = [one for one in relations(job) if isinstance(one, Referenced)]
    assert (joined.kind, joined.keys) == ("left", (("`machine`", "`id`"),))
    assert columns(job)[-1] == "m"
    (gathered,) = [one for one in relations(job_of(find, rest=rest)) if isinstance(one, Gathered)]
    assert gathered.key.expression == "`id`"
    with pytest.raises(JobFileError, match=r"give its columns as references\.machines"):
        job_of(find, {"$unwind": "$m"})


def test_validate_keeps_what_fulfils_the_schema() -> None:
    schema = {"required": ["machine"], "properties": {"watts": {"bsonType": "int", "minimum": 0, "maximum": 400}}}
    job = job_of({"$validate": {"validator": {"$jsonSchema": schema}, "validationAction": "dlq"}})
    (kept,) = [one for one in relations(job) if isinstance(one, Filtered)]
    assert (
        kept.condition
        == "((`machine` IS NOT NULL) AND (`watts` IS NULL OR (true AND (`watts` >= 0L) AND (`watts` <= 400L))))"
    )


def test_an_expression_that_fails_takes_its_document_out() -> None:
    job = job_of({"$addFields": {"share": {"$divide": ["$watts", "$temp"]}}})
    (kept,) = [one for one in relations(job) if isinstance(one, Filtered)]
    assert kept.condition == "NOT coalesce((`watts` IS NOT NULL AND `temp` = 0), false)"
    guarded = {"$cond": [{"$ne": ["$temp", 0]}, {"$divide": ["$watts", "$temp"]}, 0]}
    (kept,) = [one for one in relations(job_of({"$addFields": {"share": guarded}})) if isinstance(one, Filtered)]
    assert kept.condition.startswith("NOT coalesce((coalesce((NOT (`temp` <=> 0L)), false) AND ")


def test_a_field_named_as_a_column_of_results_hides_nothing() -> None:
    named = {"$addFields": {"window_start": {"$meta": "stream.window.start"}}}
    job = job_of(tumbling(PER_MACHINE), named)
    assert columns(job) == ("_id", "n", "most")


@pytest.mark.parametrize(
    ("stages", "what"),
    [
        ([{"$https": {}}], r"stage 2 \(\$https\): cannot be replayed; it asks the outside world"),
        ([{"$grup": {}}], r"stage 2 \(\$grup\): cannot be replayed; did you mean '\$group'\?"),
        ([{"$group": {"_id": None}}], "stands in the 'pipeline' of a window stage only"),
        (
            [tumbling({"$group": {"n": {"$sum": 1}}})],
            r"stage 2 .*: stage 1 \(\$group\): .*needs '_id'",
        ),
        ([tumbling(PER_MACHINE), tumbling(PER_MACHINE)], "a second window"),
        ([{"$match": {"speed": 5}}], "there is no field 'speed' here; known here: at"),
        ([{"$match": {"wats": 5}}], "there is no field 'wats' here; did you mean 'watts'"),
        ([{"$addFields": {"x": {"$rand": {}}}}], r"expression \$rand cannot be replayed; chance"),
        ([{"$addFields": {"x": {"$add": ["$machine", 1]}}}], r"\$add needs a number; '\$machine' is text"),
        ([{"$addFields": {"x": "$$NOW"}}], "the clock of the live run"),
        ([{"$addFields": {"Watts": 1}}], "differ in case alone"),
        ([{"$addFields": {"a b": 1}}], "cannot be the name of a column"),
        ([{"$project": {"x": {"$cond": [True, 1, "a"]}}}], "a column has one type"),
        ([MERGE, {"$match": {}}], "the stage that writes"),
        ([{"$match": {}, "$project": {}}], "is not a stage"),
        ([{"$lookup": {"from": "c", "let": {}, "pipeline": [], "as": "x"}}], r"\$lookup"),
        ([{"$tumblingWindow": {"interval": {"size": 0, "unit": "second"}, "pipeline": []}}], "positive length"),
        ([{"$tumblingWindow": {"interval": {"size": 1, "unit": "week"}, "pipeline": []}}], "no unit 'week'"),
        ([{"$project": {"x": {"$dateTrunc": {"date": "$at", "unit": "hour"}}}}], r"convert with \$toDate"),
    ],
)
def test_what_cannot_be_replayed_is_refused_with_its_stage(stages: list[Any], what: str) -> None:
    with pytest.raises(JobFileError, match=what):
        job_of(*stages)


def test_a_refusal_names_file_line_and_stage(tmp_path: Any) -> None:
    (tmp_path / "alerts.json").write_text(
        '[\n  {"$source": {"topic": "r"}},\n  {"$match":\n    {"watts": {"$near": 5}}},\n  {"$merge": {}}\n]\n'
    )
    (tmp_path / "a.yaml").write_text(IN_A_FILE)
    with pytest.raises(JobFileError) as refused:
        load_job(tmp_path / "a.yaml")
    assert str(refused.value).startswith(f"{tmp_path}/alerts.json:4: stage 2 ($match): $near cannot be replayed in")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(JobFileError, match=r"query.pipeline: cannot read 'alerts.json': No such file"):
        parse_job(IN_A_FILE)


def test_a_pipeline_belongs_to_profile_atlas_and_stands_alone() -> None:
    text = job_text(json.dumps([SOURCE, MERGE]))
    with pytest.raises(JobFileError, match="belongs to profile atlas"):
        parse_job(text.replace("profile: atlas", "profile: stream_analytics"))
    with pytest.raises(JobFileError, match=r"query.where: does not go with 'pipeline'"):
        parse_job(text + "  where: watts > 5\n")
