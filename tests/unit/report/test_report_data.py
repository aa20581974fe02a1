"""What the report gathers from the tables is what the tables say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from report_lakehouse import JOB, START_US, arrivals, build, reconciled

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import HOUR, MINUTE, parse_instant
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.check_result import CheckResult
from pipelines.reference import engine
from pipelines.report import compare
from pipelines.report.numbers import numbers
from pipelines.report.report_data import ReportData, gather
from pipelines.report.story import evidence_sentences, first_divergence, reproduce_command, verdict

DAY_TWO = OutputRange(parse_instant("2026-01-02T00:00:00Z"), parse_instant("2026-01-03T00:00:00Z"))
BAD = CheckResult("window_contract", False, True, 3, (), "three rows are wrong")


@pytest.fixture(scope="module")
def agreeing(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return build(tmp_path_factory.mktemp("facts") / "agreeing", live=True)


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> Lakehouse:
    return build(tmp_path_factory.mktemp("facts") / "differing", live=True, wrong=True)


def counted(what: str, output: OutputRange = EVERYTHING) -> dict[str, int]:
    """Decisions of the reference engine by verdict or reason."""
    found: dict[str, int] = {}
    for decision in engine.run(JOB, arrivals(), output).decisions:
        for name in [decision.verdict] if what == "verdict" else decision.reasons:
            found[name] = found.get(name, 0) + 1
    return found


@pytest.mark.parametrize("output", [EVERYTHING, DAY_TWO])
def test_verdicts_and_reasons_are_counted_as_the_engine_decided_them(agreeing: Lakehouse, output: OutputRange) -> None:
    reported = numbers(gather(JOB, agreeing, output))
    assert reported["verdicts"] == counted("verdict", output)
    assert reported["reasons"] == counted("reason", output)
    assert reported["events"] == sum(counted("verdict", output).values())
    for name, count in {**reported["verdicts"], **reported["reasons"]}.items():
        assert sum(row[name] for row in reported["over_time"]["rows"]) == count


def test_completeness_counts_events_up_to_and_at_each_tolerance(agreeing: Lakehouse) -> None:
    reported = numbers(gather(JOB, agreeing, EVERYTHING))
    (one,) = reported["inputs"]
    lags = [log.arrival_time_us - at for log in arrivals() if isinstance(at := log.payload["at"], int)]
    assert one["without_event_time"] == len(arrivals()) - len(lags) > 0
    by_name = {row["tolerance"]: row for row in one["completeness"]}
    for name, tolerance_us in (("0", 0), ("20m", 20 * MINUTE), ("4h", 4 * HOUR)):
        within = sum(lag_us <= tolerance_us for lag_us in lags)
        assert (by_name[name]["within"], by_name[name]["share"]) == (within, within / len(lags))
    assert sum(row["events"] for row in one["lag"]) == len(lags)


def test_late_and_early_events_lie_beyond_the_edges_of_the_policy(agreeing: Lakehouse) -> None:
    facts = gather(JOB, agreeing, EVERYTHING)
    one = facts.inputs[0]
    totals = one.by_band()
    late_from = one.bands.lags_us.index(20 * MINUTE) + 1
    early_to = one.bands.lags_us.index(-5 * MINUTE - 1) + 1
    assert sum(totals[late_from:]) == facts.by_reason["late"].total()
    assert sum(totals[:early_to]) == facts.by_reason["early"].total()


def test_the_watermark_lies_behind_the_arrivals_by_what_the_verdicts_say(agreeing: Lakehouse) -> None:
    marks = gather(JOB, agreeing, EVERYTHING).inputs[0].watermarks
    behind = [
        decision.arrival_time_us - decision.watermark_us
        for decision in engine.run(JOB, arrivals()).decisions
        if decision.watermark_us is not None and (decision.verdict != "accepted" or decision.reasons)
    ]
    assert min(mark.least_us for mark in marks.values()) == min(behind)
    assert max(mark.greatest_us for mark in marks.values()) == max(behind)
    assert all(mark.least_us <= mark.median_us <= mark.greatest_us for mark in marks.values())


def test_a_live_run_that_agrees_is_said_to_agree(agreeing: Lakehouse) -> None:
    facts = gather(JOB, agreeing, EVERYTHING)
    total = len(engine.run(JOB, arrivals()).windows)
    reported = verdict(facts)
    assert (reported.state, reported.sentence) == ("good", f"All {total} windows are what the live run gave.")
    assert first_divergence(facts) == []


def test_a_failed_check_is_said_in_the_verdict(agreeing: Lakehouse) -> None:
    reported = verdict(gather(JOB, agreeing, EVERYTHING, [BAD]))
    assert reported.state == "bad"
    assert reported.sentence.endswith("are what the live run gave, but a check failed: window_contract.")


def test_each_kind_of_difference_is_found_in_output_order(differing: Lakehouse) -> None:
    facts = gather(JOB, differing, EVERYTHING)
    assert facts.windows.counts == {
        "equal": len(facts.windows.pairs) - 4,
        "different": 1,
        "duplicated_in_stream": 1,
        "missing_in_stream": 2,
    }
    kinds = ["different", "duplicated_in_stream", "missing_in_stream", "missing_in_stream"]
    assert [pair.status for pair in facts.windows.different] == kinds
    assert verdict(facts).state == "bad"
    assert verdict(facts).sentence.startswith(f"4 of {len(facts.windows.pairs)} windows differ from the live run")


def test_without_a_reconciliation_the_story_says_that_the_cause_is_not_known(differing: Lakehouse) -> None:
    story = first_divergence(gather(JOB, differing, EVERYTHING))
    assert "both have it, with different values. The 30 windows before it" in story[0]
    assert story[-1] == "Why is not known yet: nothing was reconciled."
    assert any(sentence.startswith("cars: the replay gives ") for sentence in story)


def test_a_reconciliation_gives_causes_and_an_old_one_is_recognised(tmp_path: Path) -> None:
    lakehouse = build(tmp_path / "lakehouse", live=True, wrong=True)
    found = gather(JOB, lakehouse, EVERYTHING).windows.different
    rows: list[dict[str, Any]] = [
        {
            "window_end": pair.key["window_end"],
            "booth": pair.key["booth"],
            "status": pair.status,
            "cause": "lost_events",
            "evidence": {"says": "Without cars/0/12 it is the live run's row.", "events": ["cars/0/12"]},
        }
        for pair in found
    ]
    reconciled(lakehouse, rows)
    facts = gather(JOB, lakehouse, EVERYTHING)
    assert (facts.windows.reconciled, facts.windows.stale) == (True, False)
    assert {pair.cause for pair in facts.windows.different} == {"lost_events"}
    assert first_divergence(facts)[-3:] == [
        "The live run counted without events that are in the log.",
        "Without cars/0/12 it is the live run's row.",
        "events: cars/0/12",
    ]
    reconciled(lakehouse, rows[:1])
    assert gather(JOB, lakehouse, EVERYTHING).windows.stale


def test_a_reconciliation_alone_is_enough_where_the_live_table_is_elsewhere(tmp_path: Path) -> None:
    lakehouse = build(tmp_path / "lakehouse")
    first = gather(JOB, lakehouse, EVERYTHING).windows.pairs[0]
    row = {"window_end": first.key["window_end"], "booth": first.key["booth"], "status": "missing_in_stream"}
    reconciled(lakehouse, [{**row, "cause": "row_missing_in_stream", "evidence": {}}])
    windows = gather(JOB, lakehouse, EVERYTHING).windows
    assert windows.counts == {"missing_in_stream": 1, "equal": len(windows.pairs) - 1}


def test_an_empty_lakehouse_has_no_facts_and_no_verdict(tmp_path: Path) -> None:
    facts = gather(JOB, Lakehouse.at(tmp_path), EVERYTHING)
    assert (facts.events, facts.bins, facts.windows.pairs) == (0, None, ())
    assert (verdict(facts).state, verdict(facts).sentence) == ("open", "No replay has written windows yet.")
    assert facts.trouble[0].startswith("There is no plan for this range")


def test_a_log_without_a_replay_has_events_that_are_not_decided(tmp_path: Path) -> None:
    facts = gather(JOB, build(tmp_path / "lakehouse", replay=False), EVERYTHING)
    assert facts.undecided == facts.events == 288
    assert facts.by_verdict == {}
    assert facts.gaps == (EVERYTHING,)


def test_the_command_that_reproduces_a_run_names_its_versions_and_quotes_the_place(tmp_path: Path) -> None:
    lakehouse = build(tmp_path / "my house")
    facts = gather(JOB, lakehouse, EVERYTHING)
    command = reproduce_command(facts, facts.runs[0])
    assert command == f"tailrace replay cars --as-of 0 --lakehouse '{tmp_path}/my house'"


def test_evidence_that_is_no_json_is_shown_as_it_is() -> None:
    assert evidence_sentences("because") == ["because"]
    assert evidence_sentences(None) == []
    assert evidence_sentences('{"says": "So.", "late_arrival": "5m"}') == ["So.", "late arrival: 5m"]


def test_a_time_range_counts_what_arrived_in_it(agreeing: Lakehouse) -> None:
    facts: ReportData = gather(JOB, agreeing, OutputRange(START_US, START_US + HOUR))
    assert facts.events == 4


def test_a_range_of_too_many_windows_is_refused(agreeing: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MAX_ROWS", 3)
    with pytest.raises(UsageError, match="report a shorter range"):
        gather(JOB, agreeing, EVERYTHING)
