"""Every contender answers the question exactly, and one that does not is never given a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from bench import contenders, groups
from bench.compare import compare
from bench.contenders import ToNowhere
from bench.groups import Group, Point, Stage
from bench.meters import SparkMeter
from bench.on_one_machine import ENGINES, Engine, EngineDied, missing
from bench.page import write_page
from bench.questions import READINGS
from bench.rounds import Expected, Row, Sample, judge, measure, ratio
from bench.summary import report
from pipelines.core.time import parse_instant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS = 20_000


def _windows(*rows: tuple[str, int, int, float, float]) -> pa.Table:
    ends, sites, counts, totals, means = zip(*rows, strict=True)
    return pa.table(
        {
            "window_end": pa.array([parse_instant(end) for end in ends]).cast(pa.timestamp("us", "UTC")),
            "site": pa.array(sites, pa.int32()),
            "n": counts,
            "total": totals,
            "mean": means,
        }
    )


A = ("2026-01-01T00:05:00Z", 1, 2, 3.0, 1.5)
B = ("2026-01-01T00:05:00Z", 2, 4, 8.0, 2.0)


def test_results_are_equal_in_any_order_and_to_a_relative_1e_12() -> None:
    close = (B[0], 2, 4, 8.0 * (1 + 4e-13), 2.0)
    found = compare(_windows(A, B), _windows(close, A), READINGS)
    assert (found.rows, found.differing) == (2, 0)
    assert 0 < found.widest < 1e-12


@pytest.mark.parametrize(
    ("given", "differing"),
    [
        (_windows(A), 1),
        (_windows(A, B, ("2026-01-01T00:10:00Z", 2, 1, 1.0, 1.0)), 1),
        (_windows(A, (B[0], 2, 5, 8.0, 2.0)), 1),
        (_windows(A, (B[0], 2, 4, 8.0 * (1 + 1e-11), 2.0)), 1),
        (_windows(A, (B[0], 2, 4, 8.0, float("nan"))), 1),
        (_windows(A, (B[0], 3, 4, 8.0, 2.0)), 2),
    ],
    ids=["missing row", "extra row", "count", "double", "not a number", "another key"],
)
def test_a_difference_is_seen(given: pa.Table, differing: int) -> None:
    assert compare(_windows(A, B), given, READINGS).differing == differing


def test_ratios_come_from_the_same_round_and_hold_for_each_event_where_logs_differ_in_length() -> None:
    base = Row("plain", "", "plain", 100, samples=[Sample(n, s, None, None) for n, s in ((0, 1.0), (1, 4.0), (2, 2.0))])
    row = Row("live", "", "plain", 50, samples=[Sample(n, s, None, None) for n, s in ((1, 8.0), (2, 3.0))])
    as_it_is, by_event = ratio(row, base, by_event=False), ratio(row, base, by_event=True)
    assert as_it_is is not None
    assert by_event is not None
    assert (as_it_is.least, as_it_is.median, as_it_is.most) == (1.5, 1.75, 2.0)
    assert (by_event.least, by_event.median, by_event.most) == (3.0, 3.5, 4.0)
    row.status = "not equal"
    assert ratio(row, base, by_event=True) is None


@pytest.fixture(scope="module")
def engines() -> Iterator[list[Engine]]:
    started = [Engine(name) for name in ENGINES if missing(name) is None]
    yield started
    for engine in started:
        engine.close()


@pytest.fixture(scope="module")
def stage(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with ExitStack() as stack:
        yield Stage(spark, SparkMeter(spark).pid, tmp_path_factory.mktemp("cache"), stack)


@pytest.fixture(scope="module")
def group(stage: Stage, engines: list[Engine]) -> Group:
    return groups.generated_log(stage, events=EVENTS, live_events=EVENTS, engines=engines)


@pytest.fixture(scope="module")
def judged(group: Group) -> dict[str, Row]:
    return judge(group.contenders, Expected(), lambda _: None)


@pytest.mark.spark
@pytest.mark.parametrize(
    "name", ["window", "tailrace", "exceptions", "window_over", "over", "replay", "live", *ENGINES]
)
def test_an_exact_contender_gives_the_numbers_of_tailrace(judged: dict[str, Row], name: str) -> None:
    if name in ENGINES and (reason := missing(name)) is not None:
        pytest.skip(reason)
    assert judged[name].status == "equal", judged[name].note


@pytest.mark.spark
def test_settings_are_compared_with_the_verdicts_of_a_replay(stage: Stage) -> None:
    contenders = groups.curve("settings", stage, events=EVENTS).contenders
    rows = judge([one for one in contenders if one.name.startswith("5/")], Expected(), lambda _: None)
    assert {row.status for row in rows.values()} == {"equal"}, rows


@pytest.mark.spark
@pytest.mark.parametrize("name", ["plain", "plain_delta"])
def test_plain_windowing_is_inexact_and_the_row_says_how_much(judged: dict[str, Row], name: str) -> None:
    assert judged[name].status == "inexact by design"
    differing, _, rows, *_ = judged[name].note.split()
    assert 0 < int(differing.replace(",", "")) < int(rows.replace(",", ""))


@pytest.mark.spark
def test_a_monitoring_job_has_the_windows_of_its_first_step_as_one_output(stage: Stage) -> None:
    rows = judge(groups.curve("monitoring", stage, events=EVENTS).contenders, Expected(), lambda _: None)
    assert {name: row.status for name, row in rows.items() if not name.endswith("/plain")} == {
        f"{point}/{name}": "equal"
        for point in ("one window", "the same as a script", "all steps")
        for name in ("tailrace", "replay")
    }


@pytest.mark.spark
def test_a_contender_with_wrong_numbers_is_not_equal_and_is_not_timed(spark: SparkSession, group: Group) -> None:
    site = group.contenders[0].site
    wrong = ToNowhere("wrong", "", site, READINGS, frames=contenders.plain)
    rows = judge([wrong], Expected(), lambda _: None)
    measure([wrong], rows, 1, SparkMeter(spark), lambda _: None)
    assert rows["wrong"].status == "not equal"
    assert rows["wrong"].samples == []


@pytest.mark.spark
def test_wrong_verdicts_are_not_equal_though_the_windows_are(group: Group) -> None:
    site = group.contenders[0].site
    stricter = replace(READINGS, out_of_order_us=0)
    wrong = ToNowhere(
        "wrong",
        "",
        site,
        READINGS,
        frames=lambda site, question: replace(
            contenders.tailrace_with_exceptions(site, stricter), windows=contenders.tailrace(site, question).windows
        ),
    )
    row = judge([wrong], Expected(), lambda _: None)["wrong"]
    assert row.status == "not equal"
    assert row.note.startswith("verdicts differ")


@pytest.mark.spark
def test_what_is_measured_becomes_a_page_with_drawings(spark: SparkSession, group: Group, tmp_path: Path) -> None:
    few = tuple(one for one in group.contenders if one.name in ("plain", "tailrace"))
    rows = judge(few, Expected(), lambda _: None)
    measure(few, rows, 1, SparkMeter(spark), lambda _: None)
    log = Group("log", "a small log", "", (Point("", few),))
    named = tuple(replace(one, name=f"a/{one.name}", against=f"a/{one.against}") for one in few)
    curve = Group("skew", "a curve", "share", (Point("a", named),))
    along = {f"a/{name}": replace(row, name=f"a/{name}", against=f"a/{row.against}") for name, row in rows.items()}
    found = [(log, rows), (curve, along)]
    figures = report(found, rounds=1, java="21")

    tailrace = figures["logs"][0]["rows"][1]
    assert tailrace["ratio"]["median"] > 0
    assert tailrace["files_read"] == 1
    assert tailrace["shuffle_bytes"] > 0
    assert tailrace["heap_peak_bytes"] > 0
    written = write_page(figures, tmp_path)
    assert [place.relative_to(tmp_path).as_posix() for place in written] == [
        "benchmarks.md",
        "benchmarks/figures.json",
        "benchmarks/ratios.svg",
        "benchmarks/curves.svg",
    ]
    page = written[0].read_text()
    assert "| plain windowing in Spark | 1.00 | 1.00 – 1.00 |" in page
    assert "| a | plain windowing in Spark | 1.00 | 1.00 – 1.00 |" in page
    assert json.loads(written[1].read_text())["logs"][0]["rows"][0]["status"] == "inexact by design"
    assert all(place.read_text().startswith("<svg") for place in written[2:])

    measured_again = report([(Group("log", "the same log", "", log.points), rows)], rounds=2, java="21")
    write_page(measured_again, tmp_path, keep=True)
    headings = re.findall("^### (.*)$", written[0].read_text(), re.MULTILINE)
    assert headings == ["the same log", "a curve", "the same log"]


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_tells_its_error_and_lives_on(name: str) -> None:
    if (reason := missing(name)) is not None:
        pytest.skip(reason)
    engine = Engine(name)
    try:
        for _ in range(2):
            with pytest.raises(EngineDied, match=r"nowhere\.parquet"):
                engine.seconds(["/nowhere.parquet"], READINGS)
    finally:
        engine.close()
