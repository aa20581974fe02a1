"""What ``tailrace check`` says of a query of several steps."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from pipelines.core.model import Aggregate, AtlasOrdering, Column, Grid, Job, Reference
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Computed,
    Filtered,
    InputRows,
    Joined,
    Output,
    Projected,
    Referenced,
    ReferenceRows,
    Side,
    Step,
    StepRows,
    Steps,
    Windowed,
)
from pipelines.core.time import DAY, HOUR, MINUTE
from pipelines.job.describe import ambiguities, describe_policy, describe_read_range, remarks
from pipelines.job.limits import limits_exceeded
from pipelines.job.load import load_job, parse_job

ROWS = parse_job(
    """
tailrace: 1
job: speeding
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, plate STRING, speed DOUBLE", timestamp_by: at}}
ordering: {late_arrival: 5m}
query: {from: cars, select: {plate: plate, kmh: "speed * 1.609"}, where: "speed > 50"}
"""
)


def with_steps(steps: tuple[Step, ...], *outputs: Output, references: tuple[Reference, ...] = ()) -> Job:
    return dataclasses.replace(ROWS, query=Steps(steps, outputs), references=references)


def test_a_row_output_is_described_by_what_it_takes_keeps_and_gives() -> None:
    assert (
        "Output output: takes each event of cars that counts, then keeps those with speed > 50, then gives plate,"
        " kmh = speed * 1.609." in describe_policy(ROWS)
    )
    assert describe_read_range(ROWS) == [
        "An output range [from, to) reads arrivals [from - E - max(K, L), to + L] with E = 5m, K = 0s, L = 5m."
    ]


def test_what_the_query_does_not_name_is_described() -> None:
    counted = Windowed(
        InputRows("cars"), Grid(HOUR, HOUR), (Computed("__k", "`plate`"),), (Aggregate("__a1", "count"),)
    )
    before = Analytic("__analytic_2", "lag", "`__a1`", within_us=DAY)
    kept = Filtered(Analysed(counted, (before,)), "`__aggregate` > `__analytic_2` AND `__records`.`ArrayIndex` > 0L")
    (sentence,) = [one for one in describe_policy(with_steps((), Output("all", kept))) if one.startswith("Output all")]
    assert "by group key 1 = plate: aggregate 1 = count(*)" in sentence
    assert "adds looked-up value 2 = lag of aggregate 1 within the last 1d" in sentence
    assert sentence.endswith("keeps those with aggregate 1 > looked-up value 2 AND records.ArrayIndex > 0L.")


def test_every_step_and_output_has_a_sentence() -> None:
    hourly = Windowed(InputRows("cars"), Grid(HOUR, HOUR), (Computed("plate", "`plate`"),), (Aggregate("n", "count"),))
    before = Analytic("before", "lag", "n", partition_by=("plate",), when="n > 1", within_us=DAY)
    machines = Side("m", Filtered(ReferenceRows("machines"), "line = 'a'"))
    looked_up = Referenced(Side("c", StepRows("hourly")), machines, (("plate", "plate"),), kind="left")
    job = with_steps(
        (Step("hourly", hourly),),
        Output("changes", Analysed(StepRows("hourly"), (before,))),
        Output("lines", Projected(looked_up, (Computed("line", "m.line"),))),
        Output("pairs", Joined(Side("a", InputRows("cars")), Side("b", StepRows("hourly")), MINUTE, 0, 5)),
        references=(Reference("machines", (Column("plate", "string"), Column("since", "timestamp")), "since"),),
    )
    reported = [sentence for sentence in describe_policy(job) if sentence.startswith(("Step", "Output", "Reference"))]
    assert reported == [
        "Step hourly: takes each event of cars that counts, then counts in windows by plate: n = count(*)"
        " (tumbling, 1h, (start, end], with ends at 0001-01-01T00:00:00Z and every 1h from there).",
        "Output changes: takes each row of hourly, then adds before = lag of n by plate among rows with n > 1 within"
        " the last 1d.",
        "Output lines: takes each row of hourly, then looks up what takes each row of machines, then keeps those with"
        " line = 'a' where c.plate = m.plate; a row that matches none stays, then gives line = m.line.",
        "Output pairs: joins cars (a) with hourly (b) within DATEDIFF(minute, a, b) from 0 to 5.",
        "Reference data machines comes in snapshots: a row uses the newest one whose since is at or before its"
        " system timestamp.",
    ]
    assert describe_read_range(job) == [
        "An output range [from, to) reads arrivals [from - E - max(K, L), to + L] with E = 5m, K = 1d1h, L = 5m.",
        "It reads the snapshots of reference data machines from the one in force at from - 0s to the one in force at to"
        " + 0s.",
    ]
    assert not remarks(job)
    assert any("boundaries" in sentence for sentence in ambiguities(job))


def test_limits_name_the_step_that_exceeds_them() -> None:
    long = Step("weeks", Windowed(InputRows("cars"), Grid(8 * DAY, 8 * DAY), (), (Aggregate("n", "count"),)))
    job = with_steps((long,), Output("output", StepRows("weeks")))
    assert limits_exceeded(job) == ["weeks: 8d exceeds the product's 7d"]
    assert remarks(job)[0].startswith("weeks: 8d does not divide a day")


def test_a_column_of_over_must_be_a_key_of_every_window_over_its_input() -> None:
    job = with_steps((), Output("output", Windowed(InputRows("cars"), Grid(HOUR, HOUR), (), ())))
    over = dataclasses.replace(job.inputs[0], over=("plate",))
    assert limits_exceeded(dataclasses.replace(job, inputs=(over,))) == [
        "cars: over column 'plate' is not a grouping key, which the product requires"
    ]


def test_a_script_is_warned_of_the_open_points_that_it_depends_on() -> None:
    def script(text: str, more: str = "") -> list[str]:
        return remarks(
            parse_job(
                f"""
tailrace: 1
job: speeding
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, plate STRING, speed DOUBLE"}}}}
{more}
query: {{sql: "{text}"}}
"""
            )
        )

    select = "SELECT plate FROM cars TIMESTAMP BY at WHERE"
    assert script(f"{select} speed > 50 AND plate IS NOT NULL") == []
    assert script("SELECT * FROM cars TIMESTAMP BY at") == [
        "output: in the product * also gives EventProcessedUtcTime, a clock that no log has; it is left out"
    ]
    assert script(f"{select} NOT speed > 50")[0].startswith("output: NOT is applied to a comparison")
    assert script(f"{select} plate LIKE 'A%'") == [
        "output: text is compared exactly, and no page says whether the product ignores case (string_comparison changes"
        " it)"
    ]
    assert script(f"{select} plate = 'A'", "string_comparison: ignore_case") == []


def test_a_long_expression_of_a_script_is_named_by_its_place(tmp_path: Path) -> None:
    (tmp_path / "hot.asaql").write_text("SELECT plate INTO hot FROM cars TIMESTAMP BY at\nWHERE plate > 5")
    (tmp_path / "hot.yaml").write_text(
        "tailrace: 1\njob: hot\nprofile: stream_analytics\n"
        'inputs: {cars: {columns: "at TIMESTAMP, plate STRING"}}\nquery: {sql: hot.asaql}\n'
    )
    (sentence,) = [one for one in describe_policy(load_job(tmp_path / "hot.yaml")) if one.startswith("Output hot")]
    assert "keeps those with the expression at hot.asaql:2:7, then" in sentence


def test_a_long_expression_without_a_place_is_cut() -> None:
    job = with_steps((), Output("o", Filtered(InputRows("cars"), " + ".join(["speed"] * 100))))
    (sentence,) = [one for one in describe_policy(job) if one.startswith("Output o")]
    assert sentence.endswith("speed + ...")
    assert len(sentence) < 300


def test_a_job_that_reads_everything_is_described_so() -> None:
    job = dataclasses.replace(ROWS, profile="atlas", orderings=(("cars", AtlasOrdering()),))
    assert describe_read_range(job)[0] == "An output range [from, to) reads the whole log."
