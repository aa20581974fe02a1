"""Jobs whose query is a script: how it is found, its clauses about inputs, and what messages name."""

import dataclasses
import json
from pathlib import Path

import pytest

from pipelines.core.errors import JobFileError
from pipelines.core.model import Job
from pipelines.core.steps import Filtered, InputRows, Projected, Windowed
from pipelines.job.load import load_job, parse_job

JOB = """
tailrace: 1
job: toll
profile: stream_analytics
inputs:
  cars:
    columns: "Plate STRING, At TIMESTAMP, Seen TIMESTAMP, Weight STRING"{input}
ordering: {{late_arrival: 20m}}
{more}
query:
  sql: {sql}
"""


def job(sql: str, *, more: str = "", input: str = "") -> Job:
    return parse_job(
        JOB.format(sql=json.dumps(sql), more=more, input=f"\n    {input}" if input else ""), file="toll.yaml"
    )


def refusal(sql: str, *, more: str = "", input: str = "") -> str:
    with pytest.raises(JobFileError) as caught:
        job(sql, more=more, input=input)
    return str(caught.value)


def test_a_script_is_read_from_the_job_files_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "toll.yaml").write_text(JOB.format(sql="../toll.asaql", more="", input=""))
    (tmp_path / "toll.asaql").write_text("\ufeffSELECT Plate FROM cars\nWHERE Nothing > 1\n", encoding="utf-8")
    with pytest.raises(JobFileError) as caught:
        load_job(tmp_path / "jobs" / "toll.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/jobs/../toll.asaql:2:7: there is no column 'Nothing'")
    (tmp_path / "toll.asaql").write_text("SELECT Plate FROM cars")
    assert load_job(tmp_path / "jobs" / "toll.yaml").steps is not None


def test_the_text_itself_may_stand_in_the_job_file() -> None:
    assert refusal("SELECT Plate\nFROM trucks") == (
        "toll.yaml:query.sql:2:6: there is no step, input or reference data 'trucks'; known here: cars"
    )


def test_a_script_that_cannot_be_read_is_an_error_of_its_key(tmp_path: Path) -> None:
    assert refusal("nowhere.asaql") == (
        "toll.yaml:11: query.sql: cannot read the script 'nowhere.asaql': No such file or directory"
    )
    (tmp_path / "x.asaql").write_bytes(b"\xff\xff")
    assert "x.asaql' is not UTF-8 text (byte 0)" in refusal(str(tmp_path / "x.asaql"))
    assert "cannot read the script" in refusal("a\0b")


def test_a_script_is_the_whole_query_of_a_stream_analytics_job() -> None:
    text = JOB.format(sql="SELECT Plate FROM cars", more="", input="")
    with pytest.raises(JobFileError, match=r"query\.where: does not go with 'sql'"):
        parse_job(text + "  where: Plate IS NULL\n")
    with pytest.raises(JobFileError, match="scripts are of profile stream_analytics, not of atlas"):
        parse_job(text.replace("stream_analytics", "atlas").replace("ordering: {late_arrival: 20m}", ""))


def test_timestamp_by_of_the_script_is_that_of_the_input() -> None:
    (cars,) = job("SELECT Plate FROM cars TIMESTAMP BY At OVER plate, PartitionId").inputs
    assert (cars.timestamp_by, cars.over) == ("At", ("Plate",))
    (cars,) = job("SELECT Plate FROM cars TIMESTAMP BY CASE WHEN Weight = '' THEN At ELSE Seen END").inputs
    assert cars.timestamp_by == "CASE WHEN (`Weight` = '') THEN `At` ELSE `Seen` END"


def test_the_arrival_time_is_what_an_input_without_timestamp_by_has() -> None:
    (cars,) = job("SELECT Plate FROM cars TIMESTAMP BY EventEnqueuedUtcTime").inputs
    assert cars.timestamp_by is None


def test_timestamp_by_in_job_file_and_script_must_mean_the_same() -> None:
    (cars,) = job("SELECT Plate FROM cars TIMESTAMP BY at", input="timestamp_by: At").inputs
    assert cars.timestamp_by == "At"
    (cars,) = job("SELECT Plate FROM cars", input="timestamp_by: At").inputs
    assert cars.timestamp_by == "At"
    assert refusal("SELECT Plate FROM cars TIMESTAMP BY Seen", input="timestamp_by: At") == (
        "toll.yaml:query.sql:1:37: the job file has timestamp_by: At for input 'cars', and the script another time:"
        " leave it out in one of them"
    )


def test_two_event_times_are_two_inputs_over_one_log() -> None:
    found = job(
        "SELECT Plate INTO one FROM cars TIMESTAMP BY At "
        "SELECT Plate INTO two FROM cars TIMESTAMP BY AT "
        "SELECT Plate INTO three FROM cars TIMESTAMP BY Seen "
        "SELECT Plate INTO four FROM cars"
    )
    assert [(one.name, one.timestamp_by, one.same_log_as) for one in found.inputs] == [
        ("cars", "At", None),
        ("cars_2", "Seen", "cars"),
        ("cars_3", None, "cars"),
    ]
    assert found.ordering("cars_3") == found.ordering("cars")
    assert found.steps is not None
    read = [one.rows.rows.input for one in found.steps.outputs]  # type: ignore[union-attr]
    assert read == ["cars", "cars", "cars_2", "cars_3"]


def test_an_input_that_the_job_file_has_over_the_same_log_is_the_one_with_its_time() -> None:
    found = job(
        "SELECT Plate INTO one FROM cars TIMESTAMP BY At SELECT Plate INTO two FROM cars TIMESTAMP BY Seen",
        input="timestamp_by: At\n  seen:\n    columns: 'Plate STRING, At TIMESTAMP, Seen TIMESTAMP, Weight STRING'"
        "\n    timestamp_by: Seen\n    same_log_as: cars",
    )
    assert [one.name for one in found.inputs] == ["cars", "seen"]


def test_a_step_that_is_an_input_as_it_is_may_be_given_its_time_where_it_is_read() -> None:
    found = job(
        "WITH sharded AS (SELECT * FROM cars PARTITION BY PartitionId INTO 4)"
        " SELECT COUNT(*) AS n FROM sharded TIMESTAMP BY At GROUP BY TumblingWindow(minute, 1)"
    )
    assert found.inputs[0].timestamp_by == "At"
    assert found.steps is not None
    (output,) = found.steps.outputs
    assert isinstance(output.rows, Windowed)
    assert output.rows.rows == InputRows("cars")
    assert output.rows.partition_by == ()


def test_a_row_may_be_dropped_for_a_cast_that_fails() -> None:
    found = job(
        "SELECT Plate, CAST(Weight AS bigint) AS w FROM cars WHERE Plate <> 'x'", more="on_cast_error: drop_row"
    )
    assert found.steps is not None
    (output,) = found.steps.outputs
    assert isinstance(output.rows, Projected)
    assert isinstance(output.rows.rows, Filtered)
    assert "try_cast(`Weight` AS BIGINT) IS NOT NULL" in output.rows.rows.condition
    assert isinstance(output.rows.rows.rows, Filtered)


def test_functions_of_the_job_file_are_called_as_udf() -> None:
    functions = "functions: {twice: x * 2, sum: {args: [a, b], as: a + b}}"
    assert job("SELECT udf.TWICE(LEN(Plate)) AS t, UDF.sum(1, 2) AS s FROM cars", more=functions).steps is not None
    assert "functions.Twice: stands there twice" in refusal(
        "SELECT Plate FROM cars", more="functions: {twice: x, Twice: x}"
    )
    assert "there is no column 'w'" in refusal("SELECT Plate FROM cars", more="functions: {f: w + 1}")


def test_reference_data_looked_up_by_arrival_serves_rows_of_one_event() -> None:
    owners = 'references: {owners: {columns: "Plate STRING, Owner STRING", reference_time: arrival}}'
    assert job("SELECT o.Owner FROM cars c JOIN owners o ON c.Plate = o.Plate", more=owners).steps is not None
    message = refusal(
        "WITH n AS (SELECT Plate FROM cars GROUP BY Plate, TumblingWindow(minute, 1))"
        " SELECT o.Owner FROM n JOIN owners o ON n.Plate = o.Plate",
        more=owners,
    )
    assert "toll.yaml:query.sql:1:100: reference data 'owners' is looked up by the arrival time" in message


def test_layout_and_comments_of_a_script_change_no_fingerprint() -> None:
    one = job("SELECT LEN(Plate) / LEN(Weight) AS x FROM cars")
    other = job("-- a ratio\nSELECT\n    LEN( Plate ) / LEN(Weight) AS x\nFROM cars")
    assert one.query != other.query
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != job("SELECT LEN(Plate) / LEN(Weight) AS y FROM cars").fingerprint
    assert dataclasses.replace(one, query=other.query).fingerprint == other.fingerprint
