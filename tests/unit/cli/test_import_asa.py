"""``tailrace import asa``: job files from projects, templates and scripts."""

from __future__ import annotations

import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest
from imported_jobs import SOURCE, WINDOW, columns, imported, job_in

from pipelines.cli.main import run
from pipelines.core.model import StreamAnalyticsOrdering
from pipelines.core.time import SECOND

SCRIPT = """\
WITH Hot AS (
    SELECT Device.Id AS Device, Celsius, System.Timestamp() AS At
    FROM [Telemetry-Hub] TIMESTAMP BY ReadAt
    WHERE Celsius > 30 AND Model <> 'test'
)
SELECT Hot.Device, COUNT(*) AS Readings, MAX(m.Line) AS Line
INTO Alerts
FROM Hot JOIN Machines m ON Hot.Device = m.Id
GROUP BY Hot.Device, TumblingWindow(minute, 5)
"""


def project(folder: Path, **settings: object) -> Path:
    """A project as the tools write it, with a local input that has a sample."""
    (folder / "Inputs").mkdir(parents=True)
    config = {
        "DataLocale": "en-US",
        "OutputErrorPolicy": "Stop",
        "EventsLateArrivalMaxDelayInSeconds": 5,
        "EventsOutOfOrderMaxDelayInSeconds": 0,
        "EventsOutOfOrderPolicy": "Adjust",
        "CompatibilityLevel": "1.2",
        **settings,
    }
    hub = {
        "Name": "Telemetry-Hub",
        "Type": "Data Stream",
        "DataSourceType": "Event Hub",
        "Serialization": {"Type": "Json"},
    }
    machines = {"Name": "Machines", "Type": "Reference data", "Serialization": {"Type": "Json"}}
    machines["BlobReferenceProperties"] = {"PathPattern": "machines/list.json"}  # type: ignore[assignment]
    local = {"InputAlias": "Telemetry-Hub", "Type": "Data Stream", "Format": "Json", "FilePath": "telemetry.json"}
    local_machines = {"InputAlias": "Machines", "Type": "Reference data", "Format": "Json", "FilePath": "machines.csv"}
    events = [
        {"ReadAt": "2026-01-01T00:00:00Z", "Celsius": 31, "Model": "a", "Device": {"Id": "m1", "Slots": [1]}},
        {"ReadAt": "2026-01-01T00:00:01Z", "Celsius": 31.5, "Model": None, "PartitionId": 3},
    ]
    files: dict[str, Any] = {
        "JobConfig.json": {key: value for key, value in config.items() if value is not None},
        "Inputs/Telemetry.json": hub,
        "Inputs/Machines.json": machines,
        "Inputs/Local_Telemetry.json": local,
        "Inputs/Local_Machines.json": local_machines,
    }
    kinds = ["JobConfig", "Input", "Input", "InputMock", "InputMock"]
    listed = [{"filePath": path, "subType": kind} for path, kind in zip(files, kinds, strict=True)]
    files["asaproj.json"] = {"name": "PlantAlerts", "startFile": "Alerts.asaql", "configurations": listed}
    for path, data in files.items():
        (folder / path).write_text(json.dumps(data))
    (folder / "Inputs/telemetry.json").write_text("\n".join(map(json.dumps, events)))
    (folder / "Inputs/machines.csv").write_text("Id,Line\nm1,north\n")
    (folder / "Alerts.asaql").write_text(SCRIPT)
    return folder


def test_a_project_with_samples_is_complete(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, (found,) = imported(capsys, "asa", project(tmp_path / "p"), "--out", tmp_path / "out")
    assert (code, found["guesses"], found["refusals"]) == (0, [], [])
    job = job_in(tmp_path / "out", "plantalerts")
    assert columns(job, "telemetry_hub") == {
        "ReadAt": "string",
        "Celsius": "double",
        "Model": "string",
        "Device": "struct<`Id`: string,`Slots`: array<bigint>>",
    }
    assert columns(job, "machines") == {"Id": "string", "Line": "string"}
    assert job.ordering("telemetry_hub") == StreamAnalyticsOrdering(late_arrival_us=5 * SECOND)
    assert (tmp_path / "out" / "Alerts.asaql").read_text() == SCRIPT


@pytest.mark.parametrize(
    ("settings", "ordering"),
    [
        ({"EventsLateArrivalMaxDelayInSeconds": None}, StreamAnalyticsOrdering(late_arrival_us=None)),
        ({"EventsLateArrivalMaxDelayInSeconds": -1}, StreamAnalyticsOrdering(late_arrival_us=None)),
        ({"EventsOutOfOrderMaxDelayInSeconds": 10}, StreamAnalyticsOrdering(out_of_order_us=10 * SECOND)),
        ({"EventsOutOfOrderPolicy": "Drop"}, StreamAnalyticsOrdering(action="drop")),
    ],
)
def test_the_policy_is_that_of_the_settings(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, object],
    ordering: StreamAnalyticsOrdering,
) -> None:
    imported(capsys, "asa", project(tmp_path / "p", **settings), "--out", tmp_path)
    assert job_in(tmp_path, "plantalerts").ordering("telemetry_hub") == ordering


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"CompatibilityLevel": None}, "the compatibility level is not known"),
        ({"EventsOutOfOrderPolicy": "Wait"}, "out-of-order policy 'wait' is not known"),
        ({"EventsLateArrivalMaxDelayInSeconds": "[x]"}, "is computed"),
    ],
)
def test_a_setting_that_is_not_known_is_a_guess(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: dict[str, object], what: str
) -> None:
    code, (found,) = imported(capsys, "asa", project(tmp_path / "p", **settings), "--out", tmp_path)
    assert code == 1
    assert any(what in one for one in found["guesses"])


def test_the_columns_of_a_script_alone_are_guessed_from_their_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "alerts.asaql").write_text(SCRIPT)
    code, (found,) = imported(capsys, "asa", tmp_path / "alerts.asaql", "--out", tmp_path / "out")
    assert (code, found["refusals"]) == (1, [])
    job = job_in(tmp_path / "out", "alerts")
    assert columns(job, "telemetry_hub") == {
        "ReadAt": "timestamp",
        "Device": "struct<`Id`: string>",
        "Celsius": "double",
        "Model": "string",
    }
    assert set(columns(job, "machines")) == {"Line", "Id"}
    assert "telemetry_hub.Celsius DOUBLE: guessed from its use in the script" in found["guesses"]
    assert any("System.Timestamp()" in one for one in found["open_points"])


@pytest.mark.parametrize(
    ("select", "column", "kind"),
    [
        ("DATEDIFF(second, MIN(v), MAX(v)) AS n", "v", "timestamp"),
        ("MIN(v) AS n", "v", "double"),
        ("SUM(TRY_CAST(v AS bigint)) AS n, COUNT(CASE WHEN v = 'x' THEN 1 END) AS m", "v", "string"),
        ("SUM(TRY_CAST(v AS bigint)) AS n, MIN(CASE v WHEN 'x' THEN 1 END) AS m", "v", "string"),
        ("SUM(CAST(v AS float)) AS n", "v", "double"),
        ("MAX(LEN(ISNULL(v, ''))) AS n", "v", "string"),
        ("SUM(COALESCE(v, 0)) AS n", "v", "double"),
        ("COUNT(CASE WHEN w > COALESCE(v, 10) THEN 1 END) AS n", "w", "double"),
        ("SUM(CAST(GetRecordPropertyValue(v, 'inner') AS float)) AS n", "v", "struct<`inner`: double>"),
        ("PERCENTILE_CONT(0.5) OVER (ORDER BY v) AS n", "v", "double"),
    ],
)
def test_the_type_of_a_column_is_guessed_from_what_says_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], select: str, column: str, kind: str
) -> None:
    (tmp_path / "kinds.asaql").write_text(f"SELECT {select} FROM hub GROUP BY TumblingWindow(minute, 5)")
    code, (found,) = imported(capsys, "asa", tmp_path / "kinds.asaql", "--out", tmp_path / "out")
    assert (code, found["refusals"]) == (1, [])
    assert columns(job_in(tmp_path / "out", "kinds"), "hub")[column] == kind


@pytest.mark.parametrize("columns_of_branch", ["k, v", "*"])
def test_branches_of_a_union_have_columns_of_one_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], columns_of_branch: str
) -> None:
    branches = (f"SELECT {columns_of_branch} FROM {name} TIMESTAMP BY at" for name in ("east", "west"))
    text = f"WITH u AS ({' UNION '.join(branches)}) SELECT SUM(v) AS s FROM u GROUP BY k, TumblingWindow(minute, 1)"
    (tmp_path / "both.asaql").write_text(text)
    code, (found,) = imported(capsys, "asa", tmp_path / "both.asaql", "--out", tmp_path / "out")
    assert (code, found["refusals"]) == (1, [])
    job = job_in(tmp_path / "out", "both")
    assert columns(job, "east") == columns(job, "west") == {"at": "timestamp", "k": "string", "v": "double"}


def test_properties_of_an_earlier_or_a_first_row_are_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.asaql").write_text(
        "WITH p AS (SELECT LAST(*) OVER (LIMIT DURATION(second, 5)) AS c FROM hub)"
        " SELECT c.k, c.x - 1 AS z INTO a FROM p"
        " SELECT TopOne() OVER (ORDER BY v DESC).w AS best INTO b FROM hub GROUP BY TumblingWindow(second, 5)"
    )
    code, (found,) = imported(capsys, "asa", tmp_path / "rows.asaql", "--out", tmp_path / "out")
    assert (code, found["refusals"]) == (1, [])
    assert columns(job_in(tmp_path / "out", "rows"), "hub") == {
        "k": "string",
        "x": "double",
        "w": "string",
        "v": "double",
    }


def test_metadata_properties_and_the_product_s_clock_become_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "archive.asaql").write_text(
        "SELECT *, EventProcessedUtcTime INTO archive FROM hub"
        " WHERE GetMetadataPropertyValue(hub, '[User].[source]') = 'device' AND temp > 3"
    )
    code, (found,) = imported(capsys, "asa", tmp_path / "archive.asaql", "--out", tmp_path / "out")
    assert (code, found["refusals"]) == (1, [])
    job = job_in(tmp_path / "out", "archive")
    assert columns(job, "hub") == {"EventProcessedUtcTime": "timestamp", "source": "string", "temp": "double"}
    assert "hub.EventProcessedUtcTime TIMESTAMP: guessed from its use in the script" in found["guesses"]
    assert "EventProcessedUtcTime is a wall clock that no log contains (Q24)" in found["open_points"]


def test_samples_may_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "all.asaql").write_text("SELECT * INTO archive FROM cars")
    _, (found,) = imported(capsys, "asa", tmp_path / "all.asaql", "--out", tmp_path / "empty")
    assert "no field of cars is known: give --samples cars=FILE" in found["guesses"]
    (tmp_path / "cars.json").write_text('[{"plate": "A", "toll": 1}, {"plate": "B", "toll": 2.5, "at": null}]')
    imported(capsys, "asa", tmp_path / "all.asaql", "--out", tmp_path, "--samples", f"Cars={tmp_path}/cars.json")
    assert columns(job_in(tmp_path, "all"), "cars") == {"plate": "string", "toll": "double", "at": "string"}


def test_documents_of_a_sample_may_follow_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "seen.json").write_text('{"a": 1}{"a": 2.5}\n{\n"b": true}')
    (tmp_path / "q.asaql").write_text("SELECT a FROM x")
    imported(capsys, "asa", tmp_path / "q.asaql", "--samples", f"x={tmp_path / 'seen.json'}", "--out", tmp_path / "out")
    assert columns(job_in(tmp_path / "out", "q"), "x") == {"a": "double", "b": "boolean"}


def test_jobs_of_one_template_have_scripts_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    resources = [
        {
            "type": "Microsoft.StreamAnalytics/streamingjobs",
            "name": name,
            "properties": {"transformation": {"properties": {"query": f"SELECT a INTO {name} FROM x"}}},
        }
        for name in ("hot", "cold")
    ]
    (tmp_path / "both.json").write_text(json.dumps({"resources": resources}))
    imported(capsys, "asa", tmp_path / "both.json", "--out", tmp_path / "out")
    assert [job_in(tmp_path / "out", name).steps.outputs[0].name for name in ("hot", "cold")] == ["hot", "cold"]


def test_create_table_gives_the_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = "CREATE TABLE cars (plate nvarchar(max), toll float, at datetime)\nSELECT plate FROM cars TIMESTAMP BY at"
    (tmp_path / "cars.asaql").write_text(script)
    _, (found,) = imported(capsys, "asa", tmp_path / "cars.asaql", "--out", tmp_path / "out")
    assert not any("guessed from its use" in one for one in found["guesses"])
    expected = {"plate": "string", "toll": "double", "at": "timestamp"}
    assert columns(job_in(tmp_path / "out", "cars"), "cars") == expected


def template(query: str) -> dict[str, Any]:
    job = "Microsoft.StreamAnalytics/streamingjobs"
    hub = {"type": "Stream", "datasource": {"type": "Microsoft.EventHub/EventHub"}, "serialization": {"type": "Json"}}
    rules = {"type": "Reference", "datasource": {"properties": {"pathPattern": "rules/{date}/{time}.json"}}}
    return {
        "parameters": {"jobName": {"defaultValue": "plant-alerts"}, "late": {"type": "int", "defaultValue": 60}},
        "variables": {},
        "resources": [
            {
                "type": job,
                "name": "[parameters('jobName')]",
                "properties": {
                    "EventsLateArrivalMaxDelayInSeconds": "[parameters('late')]",
                    "eventsOutOfOrderMaxDelayInSeconds": 10,
                    "compatibilityLevel": "1.2",
                    "outputStartMode": "LastOutputEventTime",
                    "inputs": [{"name": "cars", "properties": hub}],
                    "transformation": {"name": "t", "properties": {"query": query}},
                },
                "resources": [
                    {"type": "inputs", "name": "[concat(parameters('jobName'), '/rules')]", "properties": rules}
                ],
            }
        ],
    }


def test_a_template_gives_query_inputs_and_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    query = (
        "SELECT c.plate INTO fined FROM cars c TIMESTAMP BY at JOIN rules r ON c.model = r.model WHERE c.kmh > r.limit"
    )
    (tmp_path / "azuredeploy.json").write_text("// exported\n" + json.dumps(template(query)))
    code, (found,) = imported(capsys, "asa", tmp_path / "azuredeploy.json", "--out", tmp_path)
    assert (code, found["job"], found["refusals"]) == (1, "plant_alerts", [])
    job = job_in(tmp_path, "plant_alerts")
    assert job.ordering("cars") == StreamAnalyticsOrdering(late_arrival_us=60 * SECOND, out_of_order_us=10 * SECOND)
    assert job.reference("rules").effective == "snapshot_time"
    assert any("LastOutputEventTime" in one for one in found["open_points"])


BICEP = """\
param jobName string = 'plant-alerts'
param late int = 60
resource job 'Microsoft.StreamAnalytics/streamingjobs@2021-10-01-preview' = {
  name: jobName
  location: resourceGroup().location
  properties: {
    compatibilityLevel: '1.2'
    eventsLateArrivalMaxDelayInSeconds: late
    inputs: [
      {
        name: 'cars'
        properties: { type: 'Stream', serialization: { type: 'Json' } }
      }
    ]
    transformation: {
      name: 'main'
      properties: {
        query: '''
SELECT plate INTO fined
FROM cars TIMESTAMP BY at WHERE kmh > 50
'''
      }
    }
  }
}
"""
TERRAFORM = """\
resource "azurerm_stream_analytics_job" "alerts" {
  name                                     = "plant-alerts"
  location                                 = azurerm_resource_group.it.location
  compatibility_level                      = "1.2"
  events_out_of_order_policy               = "Drop"
  events_out_of_order_max_delay_in_seconds = 50
  transformation_query = <<QUERY
    SELECT plate INTO fined
    FROM cars TIMESTAMP BY at WHERE kmh > 50
  QUERY
}
resource "azurerm_stream_analytics_stream_input_eventhub" "cars" {
  name = "cars"
  serialization {
    type     = "Json"
    encoding = "UTF8"
  }
}
"""


@pytest.mark.parametrize(
    ("name", "text", "ordering"),
    [
        ("job.bicep", BICEP, StreamAnalyticsOrdering(late_arrival_us=60 * SECOND)),
        ("job.tf", TERRAFORM, StreamAnalyticsOrdering(out_of_order_us=50 * SECOND, action="drop")),
    ],
)
def test_bicep_and_terraform_say_the_same_as_a_template(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, ordering: StreamAnalyticsOrdering
) -> None:
    (tmp_path / name).write_text(text)
    _, (found,) = imported(capsys, "asa", tmp_path / name, "--out", tmp_path / "out")
    assert (found["job"], found["refusals"]) == ("plant_alerts", [])
    job = job_in(tmp_path / "out", "plant_alerts")
    assert job.ordering("cars") == ordering
    assert set(columns(job, "cars")) == {"plate", "at", "kmh"}


@pytest.mark.parametrize(
    ("name", "text", "query"),
    [
        ("job.bicep", BICEP, "loadTextContent('./query/alerts.asaql', 'utf-8')"),
        ("job.tf", TERRAFORM, 'file("${path.module}/query/alerts.asaql")'),
    ],
)
def test_a_script_in_a_file_of_its_own_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, query: str
) -> None:
    (tmp_path / name).write_text(re.sub(r"'''.*?'''|<<QUERY.*?QUERY\n", lambda _: f"{query}\n", text, flags=re.DOTALL))
    (tmp_path / "query").mkdir()
    assert run(["import", "asa", str(tmp_path / name), "--out", str(tmp_path / "out")]) == 2
    assert f"query{os.sep}alerts.asaql: cannot be read: No such file" in capsys.readouterr().err
    (tmp_path / "query/alerts.asaql").write_text("SELECT plate INTO fined FROM cars TIMESTAMP BY at WHERE kmh > 50")
    _, (found,) = imported(capsys, "asa", tmp_path / name, "--out", tmp_path / "out")
    assert (found["job"], found["refusals"]) == ("plant_alerts", [])


@pytest.mark.parametrize("name", ["job.bicep", "job.tf", "t.json", "s.asaql", "p.js"])
def test_damaged_text_is_read_or_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    whole = {
        "job.bicep": BICEP,
        "job.tf": TERRAFORM,
        "t.json": json.dumps(template(SCRIPT)),
        "s.asaql": SCRIPT,
        "p.js": f"s = {json.dumps(SOURCE)}\nsp.createStreamProcessor('x', [s, {json.dumps(WINDOW)}])",
    }[name]
    chance = random.Random(name)
    for number in range(40):
        start = chance.randrange(len(whole))
        (tmp_path / name).write_text(whole[:start] + whole[start + chance.randint(1, 40) :])
        kind = "atlas" if name == "p.js" else "asa"
        assert run(["import", kind, str(tmp_path / name), "--out", str(tmp_path / str(number))]) in (0, 1, 2)
    capsys.readouterr()


def test_what_is_refused_names_its_place_and_the_files_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cars.asaql").write_text("SELECT plate FROM cars\nFULL OUTER JOIN exits ON 1 = 1")
    code, (found,) = imported(capsys, "asa", tmp_path / "cars.asaql", "--out", tmp_path / "out")
    assert code == 1
    assert len(found["refusals"]) == 1
    assert "cars.asaql:2:1: FULL" in found["refusals"][0]
    assert (tmp_path / "out" / "cars.yaml").exists()


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [
        ("gone.asaql", None, "is not there"),
        ("t.json", "{", "is not JSON"),
        ("t.json", "{}", "defines no Stream Analytics job"),
        ("empty.asaql", " ", "has no query"),
    ],
)
def test_what_cannot_be_read_exits_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str | None, what: str
) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    assert run(["import", "asa", str(tmp_path / name), "--out", str(tmp_path)]) == 2
    assert what in capsys.readouterr().err


def test_a_file_with_other_text_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "cars.asaql").write_text("SELECT plate FROM cars")
    (tmp_path / "cars.yaml").write_text("mine")
    assert run(["import", "asa", str(tmp_path / "cars.asaql"), "--out", str(tmp_path)]) == 2
    assert (tmp_path / "cars.yaml").read_text() == "mine"
    assert "is there already, with other text" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "outputs"),
    [
        ("SELECT a, System.Timestamp() AS seen INTO o FROM hub WHERE b > 3", []),
        ("SELECT a, System.Timestamp AS seen INTO o FROM hub WHERE b > 3", []),
        ("SELECT a INTO o FROM hub WHERE b > 3", ["o"]),
        ("WITH s AS (SELECT a, System.Timestamp() AS seen FROM hub) SELECT a, seen AS t INTO o FROM s", []),
        ("WITH s AS (SELECT a, System.Timestamp() AS seen FROM hub) SELECT * INTO o FROM s", []),
        ("WITH s AS (SELECT a, System.Timestamp() AS seen FROM hub) SELECT a INTO o FROM s", ["o"]),
        ("WITH s AS (SELECT a, b FROM hub) SELECT a, b INTO o FROM s", ["o"]),
    ],
)
def test_an_output_without_the_system_timestamp_is_an_open_point(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str, outputs: list[str]
) -> None:
    (tmp_path / "a.asaql").write_text(script)
    _, (found,) = imported(capsys, "asa", tmp_path / "a.asaql", "--out", tmp_path / "out")
    assert [one.split()[0] for one in found["open_points"] if "(Q95)" in one] == outputs


def test_an_arrival_log_is_a_sample_of_its_payload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.asaql").write_text("SELECT at INTO o FROM hub")
    log = {"arrival_time": "2026-01-01", "input_partition": 0, "sequence": 7, "at": "2026-01-01", "n": 1}
    (tmp_path / "log.jsonl").write_text(json.dumps(log))
    _, (found,) = imported(
        capsys, "asa", tmp_path / "a.asaql", "--out", tmp_path / "out", "--samples", f"hub={tmp_path / 'log.jsonl'}"
    )
    assert found["refusals"] == []
    assert columns(job_in(tmp_path / "out", "a"), "hub") == {"at": "string", "n": "bigint"}
