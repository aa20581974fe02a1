"""Reading transcripts: defaults, types, and complaints that name case, line and key."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from pipelines.core.errors import JobFileError, TailraceError, UsageError
from pipelines.core.time import parse_instant
from pipelines.core.types import split_types
from pipelines.transcripts import TranscriptError, find, read_file, read_text
from pipelines.transcripts.values import typed

JOB = """
name: a case
job:
  job: example
  profile: stream_analytics
  inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}
  query: {from: cars, window: {tumbling: {size: 10m}}, aggregates: {n: "count(*)"}}
"""
TWO_INPUTS = JOB.replace(
    'inputs: {cars: {columns: "at TIMESTAMP, booth STRING, toll DOUBLE", timestamp_by: at}}',
    'inputs: {cars: {columns: "at TIMESTAMP"}, vans: {columns: "at TIMESTAMP"}}',
)


def refusal(text: str) -> str:
    with pytest.raises(TailraceError) as caught:
        read_text(text, file="case.yaml")
    return str(caught.value)


def test_input_partition_and_sequence_may_be_left_out() -> None:
    (case,) = read_text(
        JOB
        + """
arrivals:
  - {arrival: "2026-01-01T12:00:00Z", at: "2026-01-01T12:00:00Z", booth: a, toll: 1}
  - {arrival: "2026-01-01T12:00:01Z", partition: 1, at: "2026-01-01T12:00:00Z"}
  - {arrival: "2026-01-01T12:00:02Z", punctuation: "2026-01-01T12:00:00Z", cause: idle}
  - {arrival: "2026-01-01T12:00:03Z", partition: null, punctuation: "2026-01-01T12:00:00Z"}
  - {arrival: "2026-01-01T12:00:04Z"}
expect: {windows: []}
"""
    )
    assert [(one.input, one.input_partition, one.sequence) for one in case.arrivals] == [
        ("cars", 0, 0),
        ("cars", 1, 0),
        ("cars", 0, 1),
        ("cars", None, 0),
        ("cars", 0, 2),
    ]
    noon_us = parse_instant("2026-01-01T12:00:00Z")
    assert case.arrivals[0].payload == {"at": noon_us, "booth": "a", "toll": 1.0}
    assert isinstance(case.arrivals[0].payload["toll"], float)
    assert (case.arrivals[2].punctuation_us, case.arrivals[2].cause) == (noon_us, "idle")
    assert case.arrivals[4].payload == {"at": None, "booth": None, "toll": None}


def test_an_explicit_sequence_is_kept() -> None:
    (case,) = read_text(
        JOB
        + """
arrivals: [{arrival: "2026-01-01", sequence: 7}, {arrival: "2026-01-01", sequence: 9}]
expect: {windows: []}
"""
    )
    assert [one.sequence for one in case.arrivals] == [7, 9]


def test_a_range_is_half_open_and_either_side_may_be_left_out() -> None:
    (case,) = read_text(JOB + 'range: {from: "2026-01-01"}\nexpect: {windows: []}')
    assert (case.output.from_us, case.output.to_us) == (parse_instant("2026-01-01"), None)


def test_several_documents_are_several_cases_each_with_its_line() -> None:
    cases = read_text(JOB.strip() + "\nexpect: {windows: []}\n---\n" + JOB.strip() + "\nexpect: {verdicts: []}\n")
    assert [case.line for case in cases] == [1, 9]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "arival: []\nexpect: {windows: []}",
            "case.yaml:7: arival: case 'a case': unknown key 'arival'; did you mean 'arrivals'?",
        ),
        ("expect: {window: []}", "expect.window: case 'a case': unknown key 'window'; did you mean 'windows'?"),
        ("expect: {}", "expects nothing"),
        ("expect: {tolerance: 1e-9}", "expects nothing"),
        ("", "'expect' is missing"),
        ("expect: {error: x, windows: []}", "'error' stands instead of results"),
        ("expect: {verdicts: [{verdict: accepted}]}", "'sequence' is missing"),
        ("expect: {verdicts: [{sequence: 0, verdct: accepted}]}", "did you mean 'verdict'?"),
        ("expect: {verdicts: [{sequence: 0}, {sequence: 0}]}", "event cars/0/0 stands there twice"),
        ("expect: {plan: {read_form: null}}", "did you mean 'read_from'?"),
        ('range: {from: "2026-01-02", to: "2026-01-01"}\nexpect: {windows: []}', "'to' must be later than 'from'"),
    ],
)
def test_a_malformed_case_is_refused_with_its_place(extra: str, message: str) -> None:
    assert message in refusal(JOB.lstrip() + extra)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{at: "2026-01-01"}', "'arrival' is missing"),
        ('{arrival: "2026-01-01", boot: a}', "did you mean 'booth'?"),
        ('{arrival: "2026-01-01", input: car}', "there is no input 'car'; did you mean 'cars'?"),
        ('{arrival: "2026-01-01", partition: null}', "only a punctuation speaks for all partitions"),
        ('{arrival: "2026-01-01", partition: -1}', "-1 is not a whole number from 0"),
        ('{arrival: "2026-01-01", cause: idle}', "only a punctuation has a cause"),
        ('{arrival: "2026-01-01", punctuation: "2026-01-01", booth: a}', "a punctuation has no payload"),
        ('{arrival: "2026-01-01", toll: "1"}', "arrivals.0.toll: case 'a case': '1' is not a DOUBLE"),
        ('{arrival: "2026-01-01", booth: 1}', "1 is not a STRING; write it in quotes"),
        ('{arrival: "2026-01-01", at: 12}', "12 is not a TIMESTAMP"),
        ('{arrival: "2026-01-01", at: "noon"}', "'noon' is not an instant"),
        ('{arrival: "2026-01-01T00:00:00.0000001Z"}', "more than six fractional digits"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_place(row: str, message: str) -> None:
    told = refusal(JOB.lstrip() + f"arrivals:\n  - {row}\nexpect: {{windows: []}}")
    assert told.startswith("case.yaml:8: arrivals.0")
    assert message in told


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ('{arrival: "2026-01-01T11:59:59Z"}', "rows stand in arrival order"),
        ('{arrival: "2026-01-01T12:00:00Z", sequence: 0}', "sequence 0 does not rise"),
    ],
)
def test_rows_out_of_arrival_order_are_refused(second: str, message: str) -> None:
    rows = f'arrivals: [{{arrival: "2026-01-01T12:00:00Z"}}, {second}]\nexpect: {{windows: []}}'
    assert message in refusal(JOB + rows)


def test_other_partitions_may_arrive_in_any_order() -> None:
    rows = 'arrivals: [{arrival: "2026-01-02"}, {arrival: "2026-01-01", partition: 1}]\nexpect: {windows: []}'
    (case,) = read_text(JOB + rows)
    assert len(case.arrivals) == 2


def test_the_input_must_be_named_where_a_job_has_several() -> None:
    assert "the job has several inputs" in refusal(
        TWO_INPUTS.replace("from: cars", "union: [cars, vans]")
        + 'arrivals: [{arrival: "2026-01-01"}]\nexpect: {windows: []}'
    )


def test_a_payload_column_may_not_be_called_like_a_key_of_arrivals() -> None:
    assert "column 'partition' cannot be written" in refusal(
        JOB.replace("booth STRING", "partition INT") + "expect: {windows: []}"
    )


def test_an_invalid_job_is_refused_unless_an_error_is_expected() -> None:
    wrong = JOB.replace("profile: stream_analytics", "profile: stream_analitics")
    with pytest.raises(JobFileError):
        read_text(wrong + "expect: {windows: []}")
    (case,) = read_text(wrong + "expect: {error: stream_analitics}")
    assert case.job is None
    assert "stream_analitics" in str(case.refused)


def test_a_file_that_is_not_there_and_a_folder_without_transcripts_are_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such file"):
        find([tmp_path / "none.yaml"])
    with pytest.raises(UsageError, match="holds no transcript"):
        find([tmp_path])


def test_a_folder_stands_for_every_transcript_below_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("b/two.yaml", "one.yaml", "notes.txt"):
        (tmp_path / name).write_text(JOB + "expect: {windows: []}")
    assert [path.name for path in find([tmp_path])] == ["two.yaml", "one.yaml"]
    assert read_file(tmp_path / "one.yaml")[0].name == "a case"


def test_an_empty_file_holds_no_case() -> None:
    with pytest.raises(TranscriptError, match="holds no case"):
        read_text("# nothing\n")


@pytest.mark.parametrize(
    ("value", "type_name", "expected"),
    [
        (None, "int", None),
        (127, "tinyint", 127),
        (-(2**63), "bigint", -(2**63)),
        (1, "double", 1.0),
        (0.1, "float", 0.10000000149011612),
        ("1.10", "decimal(10,2)", Decimal("1.10")),
        (1.1, "decimal(10,2)", Decimal("1.10")),
        (12, "decimal(2)", Decimal(12)),
        (True, "boolean", True),
        ("2026-01-01", "date", date(2026, 1, 1)),
        ("ä", "binary", b"\xc3\xa4"),
        (["1970-01-01T00:00:01Z", None], "array<timestamp>", [1_000_000, None]),
        ({"a": [1]}, "map<string,array<int>>", {"a": [1]}),
        ({"x": 1}, "struct<x:int,y:string>", {"x": 1, "y": None}),
    ],
)
def test_a_value_is_typed_by_its_column(value: object, type_name: str, expected: object) -> None:
    assert typed(value, type_name) == expected


def test_nan_is_a_double() -> None:
    value = typed(math.nan, "double")
    assert isinstance(value, float)
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        (128, "tinyint"),
        (2**63, "bigint"),
        (True, "int"),
        (1.0, "int"),
        (2**53 + 1, "double"),
        (True, "double"),
        ("1.111", "decimal(10,2)"),
        ("100", "decimal(2)"),
        ("x", "decimal(2)"),
        (1, "boolean"),
        ("2026-02-30", "date"),
        (["a"], "array<int>"),
        ({"z": 1}, "struct<x:int>"),
        (1, "array<int>"),
    ],
)
def test_a_value_that_does_not_fit_its_column_is_refused(value: object, type_name: str) -> None:
    with pytest.raises(ValueError, match=r"not a|too large|more digits|does not fit|no field|out of range|day"):
        typed(value, type_name)


def test_digits_beyond_the_sixth_are_cut_off_only_where_asked() -> None:
    assert typed("1970-01-01T00:00:00.0000019Z", "timestamp", truncate=True) == 1
    with pytest.raises(ValueError, match="six fractional digits"):
        typed("1970-01-01T00:00:00.0000019Z", "timestamp")


def test_types_split_at_their_outer_commas() -> None:
    assert split_types("string,array<map<string,int>>,decimal(10,2)") == [
        "string",
        "array<map<string,int>>",
        "decimal(10,2)",
    ]


ROWS = JOB.replace(', window: {tumbling: {size: 10m}}, aggregates: {n: "count(*)"}', "")
WITH_REFERENCES = (
    ROWS
    + """
  references:
    booths: {columns: "booth STRING, since TIMESTAMP, rates ARRAY<INT>", effective: since}
    gates: {columns: "gate STRING"}
"""
)


def test_reference_data_is_typed_by_its_columns_and_may_be_left_out() -> None:
    (case,) = read_text(
        WITH_REFERENCES
        + 'references: {booths: [{since: "2026-01-01", rates: [1]}]}\nexpect: {outputs: {OUTPUT: [{booth: a}]}}'
    )
    row = {"booth": None, "since": parse_instant("2026-01-01"), "rates": [1]}
    assert case.references == {"booths": (row,), "gates": ()}
    assert case.expect.outputs == {"output": ({"booth": "a"},)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("references: {booth: []}\nexpect: {outputs: {output: []}}", "unknown key 'booth'; did you mean 'booths'"),
        ("references: {booths: [{booth: a}]}\nexpect: {outputs: {output: []}}", "must say from when the row holds"),
        (
            "references: {gates: [{gate: 1}]}\nexpect: {outputs: {output: []}}",
            "references.gates.0.gate: case 'a case': 1",
        ),
        ("expect: {outputs: {outputs: []}}", "unknown key 'outputs'; did you mean 'output'"),
        ("expect: {outputs: {output: [1]}}", "1 stands where columns and values belong"),
        ("expect: {error: x, outputs: {output: []}}", "'error' stands instead of results"),
    ],
)
def test_what_is_wrong_with_references_and_outputs_is_named(text: str, sentence: str) -> None:
    assert sentence in refusal(WITH_REFERENCES + text)


def test_a_job_of_one_window_has_no_outputs() -> None:
    assert "the job has windows alone; expect 'windows'" in refusal(JOB + "expect: {outputs: {output: []}}")
