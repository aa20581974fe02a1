"""``tailrace import atlas``: job files from processors and pipelines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from imported_jobs import SOURCE, WINDOW, columns, imported, job_in

from pipelines.cli.main import run

PROCESSOR = {"name": "Solar-Max", "pipeline": [SOURCE, WINDOW, {"$merge": {"into": {"db": "d", "coll": "most"}}}]}


def test_a_processor_is_imported_with_guessed_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = json.dumps(PROCESSOR)
    (tmp_path / "solar.json").write_text(text)
    code, (found,) = imported(capsys, "atlas", tmp_path / "solar.json", "--out", tmp_path / "out")
    assert (code, found["job"], found["refusals"]) == (1, "solar_max", [])
    job = job_in(tmp_path / "out", "solar_max")
    assert columns(job, "solar") == {"at": "timestamp", "device": "string", "obs": "struct<`watts`: string>"}
    assert job.inputs[0].timestamp_by == "at"
    assert (tmp_path / "out" / "solar_max.json").read_text() == text


def test_a_field_compared_with_a_whole_number_may_have_fractions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    match = {"$match": {"amount": {"$gte": 500}, "kind": "topup"}}
    total = {"$group": {"_id": None, "total": {"$sum": {"$ifNull": ["$fee", 0]}}}}
    window = {"$tumblingWindow": {"interval": {"size": 10, "unit": "second"}, "pipeline": [total]}}
    (tmp_path / "fees.json").write_text(json.dumps([SOURCE, match, window, {"$emit": {"connectionName": "k"}}]))
    imported(capsys, "atlas", tmp_path / "fees.json", "--out", tmp_path / "out")
    assert columns(job_in(tmp_path / "out", "fees"), "solar") == {
        "at": "timestamp",
        "amount": "double",
        "kind_": "string",
        "fee": "double",
    }


def test_samples_leave_nothing_to_guess(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "solar.json").write_text(json.dumps(PROCESSOR))
    sample = '{"at": {"$date": "2026-01-01T00:00:00Z"}, "device": "a", "obs": {"watts": {"$numberLong": "5"}}}\n'
    (tmp_path / "events.jsonl").write_text(sample)
    code, (found,) = imported(
        capsys, "atlas", tmp_path / "solar.json", "--out", tmp_path / "o", "--samples", f"solar={tmp_path}/events.jsonl"
    )
    assert (code, found["guesses"]) == (0, [])
    assert columns(job_in(tmp_path / "o", "solar_max"), "solar")["obs"] == "struct<`watts`: bigint>"


def test_each_processor_of_a_shell_script_becomes_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = f"s = {json.dumps(SOURCE)}\nw = {json.dumps(WINDOW)}\n"
    script += "sp.createStreamProcessor('first', [s, w])\nsp.createStreamProcessor('second', [s, {$https: {}}])\n"
    (tmp_path / "solar.js").write_text(script)
    code, found = imported(capsys, "atlas", tmp_path / "solar.js", "--out", tmp_path)
    assert code == 1
    assert [one["job"] for one in found] == ["first", "second"]
    assert found[0]["refusals"] == []
    assert any("stage 2 ($https)" in one for one in found[1]["refusals"])
    assert job_in(tmp_path, "first").steps is not None


def test_a_folder_without_a_pipeline_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "readme.txt").write_text("nothing")
    assert run(["import", "atlas", str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "there is no pipeline" in capsys.readouterr().err


def test_for_people_the_result_is_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "solar.json").write_text(json.dumps(PROCESSOR))
    assert run(["import", "atlas", str(tmp_path / "solar.json"), "--out", str(tmp_path / "out")]) == 1
    out = capsys.readouterr().out
    assert "device STRING: guessed from its use in the pipeline" in out.replace("\n", "")


def test_an_arrival_log_is_a_sample_of_its_payload_for_a_pipeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.json").write_text('[{"$source": {"topic": "hub"}}, {"$emit": {"topic": "o"}}]')
    log = {"arrival_time": "2026-01-01", "input_partition": 0, "sequence": 7, "kind": "event", "n": 1}
    (tmp_path / "log.jsonl").write_text(json.dumps(log))
    _, (found,) = imported(
        capsys, "atlas", tmp_path / "p.json", "--out", tmp_path / "out", "--samples", f"hub={tmp_path / 'log.jsonl'}"
    )
    assert found["refusals"] == []
    assert columns(job_in(tmp_path / "out", "p"), "hub") == {"n": "bigint"}


def test_fields_of_documents_that_are_put_together_belong_to_the_one_that_nobody_wrote_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = [
        {"$unwind": "$items"},
        {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$items", {"order": "$id"}]}}},
        {"$match": {"qty": {"$gt": 0}, "order": "x"}},
    ]
    (tmp_path / "items.json").write_text(json.dumps([SOURCE, *stages, {"$emit": {"connectionName": "k"}}]))
    imported(capsys, "atlas", tmp_path / "items.json", "--out", tmp_path / "out")
    assert columns(job_in(tmp_path / "out", "items"), "solar") == {
        "at": "timestamp",
        "items": "array<struct<`qty`: double>>",
        "id": "string",
    }
