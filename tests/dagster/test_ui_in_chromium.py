"""What a person sees in Dagster's UI, in a real Chromium: days that are well, a day that breaks, and the same repaired.

Screenshots go into the folder that ``TAILRACE_SCREENSHOTS`` names; left out: next to the test's other files.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from running import Running, dagster_ui
from small_jobs import TOLLS, load, tolls

from pipelines.ingest.batch import ingest
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

GROUP = "/locations/tailrace/asset-groups/tolls"
CATALOG = "/assets"
LAUNCHPAD = "/locations/tailrace/jobs/tolls_replay/playground"
BROKEN_FILE = "/assets/bad_file/job_file"
WINDOWS = "/assets/tolls/windows"
WINDOWS_DAY = f"{WINDOWS}?view=partitions&partition=2026-03-03"
RECONCILIATION_DAY = "/assets/tolls/reconciliation?view=partitions&partition=2026-03-03"
REPORT_DAY = "/assets/tolls/report?view=partitions&partition=2026-03-03"
MATCHES_STREAM = "/assets/tolls/reconciliation?view=checks&checkDetail=matches_stream"
CONSERVATION = "/assets/tolls/verdicts?view=checks&checkDetail=conservation"
REPORT_STEP = "tolls__report"
_SECONDS = 90_000


@dataclass(frozen=True)
class Stage:
    """How a run of the days ended, and the words on each page that was looked at after it."""

    run: dict[str, Any]
    id: str
    pages: dict[str, str]


class Eyes:
    """A window of the browser, and where its screenshots go."""

    def __init__(self, page: Page, ui: Running, shots: Path) -> None:
        self.page, self.ui, self.shots = page, ui, shots

    def see(self, name: str, path: str, *awaited: str) -> str:
        """The words on a page, once ``awaited`` stand there: the UI draws itself after the page has come."""
        self.page.goto(self.ui.url(path))
        for words in awaited:
            self.page.get_by_text(words).first.wait_for(timeout=_SECONDS)
        return self.shot(name)

    def shot(self, name: str) -> str:
        self.page.wait_for_timeout(1_000)
        self.page.screenshot(path=self.shots / f"{name}.png")
        return self.page.inner_text("body")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chromium")
    (made / "jobs").mkdir()
    (made / "jobs" / "tolls.yaml").write_text(TOLLS, encoding="utf-8")
    (made / "jobs" / "bad-file.yaml").write_text(TOLLS.replace("late_arrival", "late_arival"), encoding="utf-8")
    return made


def live_run(ui: Running, folder: Path) -> None:
    """``tailrace stream`` up to the end of the log."""
    command = [str(Path(sys.executable).with_name("tailrace")), "stream", str(folder / "jobs" / "tolls.yaml")]
    done = subprocess.run([*command, "--until-caught-up", "--lakehouse", ui.root], capture_output=True, timeout=400)
    assert done.returncode == 0, done.stderr.decode()


@pytest.fixture(scope="module")
def ui(folder: Path) -> Iterator[Running]:
    with dagster_ui(folder, folder / "jobs", load(folder), TAILRACE_END="2026-03-10") as found:
        yield found


@pytest.fixture(scope="module")
def eyes(browser: Browser, ui: Running, folder: Path) -> Iterator[Eyes]:
    shots = Path(os.environ.get("TAILRACE_SCREENSHOTS") or folder / "screenshots")
    shots.mkdir(parents=True, exist_ok=True)
    context = browser.new_context(viewport={"width": 1500, "height": 1400})
    yield Eyes(context.new_page(), ui, shots)
    context.close()


@pytest.fixture(scope="module")
def well(ui: Running, eyes: Eyes, folder: Path) -> Stage:
    """The second to the fifth of March, made and found right."""
    live_run(ui, folder)
    run = ui.days("tolls", "2026-03-02", "2026-03-05")
    assert ui.ended(run) == "SUCCESS"
    pages = {
        GROUP: eyes.see("graph", GROUP, "stream_windows", "1 / 1 Passed"),
        CATALOG: eyes.see("catalog", CATALOG, "tolls / windows"),
        WINDOWS: eyes.see("windows", WINDOWS, "Latest materialization", "output_date"),
        WINDOWS_DAY: eyes.see("windows-day", WINDOWS_DAY, "run_seconds"),
        CONSERVATION: eyes.see("conservation", CONSERVATION, "Evaluation result"),
        MATCHES_STREAM: eyes.see("matches-stream", MATCHES_STREAM, "Evaluation result"),
        REPORT_DAY: eyes.see("report-day", REPORT_DAY, "failed_checks"),
        LAUNCHPAD: eyes.see("launchpad", LAUNCHPAD, "replay_tolls", "No errors"),
        BROKEN_FILE: eyes.see("broken-file", BROKEN_FILE, "did you mean"),
        "plan": eyes.see("plan", f"/runs/{run}?logs=plan%3A", "plan: settled"),
    }
    return Stage(ui.run(run), run, pages)


@pytest.fixture(scope="module")
def broken(well: Stage, ui: Running, eyes: Eyes, folder: Path) -> Stage:
    """A car that came late into the third of March, and the live run without a booth on the fourth; both made again."""
    late = {"arrival_time": "2026-03-03T12:40:00Z", "input_partition": 7, "sequence": 0, "at": "2026-03-03T12:39:00Z"}
    (folder / "late.jsonl").write_text(json.dumps({**late, "booth": "b0"}) + "\n", encoding="utf-8")
    assert ingest(tolls(), "cars", [folder / "late.jsonl"], ui.root, "late").appended == 1
    gone = DeltaTable(f"{ui.root}/stream_windows/tolls").delete("output_date = '2026-03-04' AND booth = 'b1'")
    assert gone["num_deleted_rows"] == 3
    skipped, asked = ui.tick("tolls_stale_days")
    run = ui.days("tolls", "2026-03-03", "2026-03-04")
    assert ui.ended(run) == "FAILURE"
    pages = {
        "stale": json.dumps([skipped, asked]),
        GROUP: eyes.see("broken-graph", GROUP, "stream_windows", "0 / 1 Passed"),
        MATCHES_STREAM: eyes.see("broken-matches-stream", MATCHES_STREAM, "Evaluation result", "row_missing_in_stream"),
        RECONCILIATION_DAY: eyes.see("broken-reconciliation-day", RECONCILIATION_DAY, "run_first_difference"),
        REPORT_DAY: eyes.see("broken-report-day", REPORT_DAY, "did not materialize this asset"),
    }
    return Stage(ui.run(run), run, pages)


@pytest.fixture(scope="module")
def repaired(broken: Stage, ui: Running, eyes: Eyes, folder: Path) -> Stage:
    """The live run caught up, which writes its own rows again, and the days made once more."""
    live_run(ui, folder)
    run = ui.days("tolls", "2026-03-03", "2026-03-04")
    assert ui.ended(run) == "SUCCESS"
    pages = {
        "stale": json.dumps(ui.tick("tolls_stale_days")),
        GROUP: eyes.see("repaired-graph", GROUP, "stream_windows", "1 / 1 Passed"),
        MATCHES_STREAM: eyes.see("repaired-matches-stream", MATCHES_STREAM, "Evaluation result", "no difference"),
        REPORT_DAY: eyes.see("repaired-report-day", REPORT_DAY, "failed_checks"),
    }
    return Stage(ui.run(run), run, pages)


def value(page: str, label: str) -> str:
    """What stands after a label in the metadata of a page."""
    reported = "\n" + page.split("\nMetadata\n", 1)[1]
    return reported.split(f"\n{label}\n", 1)[1].strip().splitlines()[0].strip()


def node(page: str, asset: str) -> str:
    """The words of one box of the graph."""
    names = ["arrivals", "reconciliation", "report", "stream_windows", "verdicts", "windows"]
    ends = "|".join(f"\n{name}\n" for name in names)
    return re.split(ends, page.split(f"\n{asset}\nLatest event", 1)[1], maxsplit=1)[0]


# -- days that are well -------------------------------------------------------------------------------------------


def test_the_graph_shows_the_job_as_a_group_with_its_checks(well: Stage) -> None:
    page = well.pages[GROUP]
    assert "Asset Group in" in page
    for asset, checks in [
        ("arrivals", "2 / 2"),
        ("windows", "2 / 2"),
        ("verdicts", "1 / 1"),
        ("reconciliation", "1 / 1"),
    ]:
        assert f"{checks} Passed" in node(page, asset)
        # four of the ten days from the last of February to the ninth of March
        assert "40% filled" in node(page, asset)


def test_the_catalogue_says_in_a_plain_sentence_what_each_asset_is(well: Stage) -> None:
    page = well.pages[CATALOG]
    for name in ("arrivals", "windows", "verdicts", "stream_windows", "reconciliation", "report"):
        assert f"tolls / {name}" in page
    assert "The window results of the replay, by the UTC day on which the window ends." in page
    assert "**" not in page


def test_an_asset_describes_its_rules_and_its_columns(well: Stage) -> None:
    page = well.pages[WINDOWS]
    assert "an event more than 5m behind its arrival is late and counts at its arrival minus 5m" in page
    assert "with E = 5m, K = 1h, L = 5m" in page
    for column in ("window_start", "window_end", "booth", "cars", "output_date"):
        assert f"\n{column}\n" in page
    assert "count(*)" in page


def test_a_day_shows_its_counts_its_read_range_and_its_fingerprint(well: Stage, ui: Running) -> None:
    page = well.pages[WINDOWS_DAY]
    counts = ("dagster/partition_row_count", "events", "events_accepted", "events_adjusted", "events_late", "windows")
    assert [value(page, name) for name in counts] == ["6", "6", "4", "2", "2", "6"]
    assert value(page, "read_from") == "2026-03-02T22:55:00Z"
    assert value(page, "read_to") == "2026-03-04T00:05:00Z"
    assert value(page, "settled") == "true"
    assert float(value(page, "run_seconds")) > 0
    assert (
        value(page, "output_fingerprint") == ui.day("tolls/windows", "2026-03-03")["metadata"][-1]["output_fingerprint"]
    )
    assert page.index("\nevents\n") < page.index("\nrun_id\n"), "the day's own figures come first"


def test_the_numbers_of_the_days_are_plotted(well: Stage, eyes: Eyes) -> None:
    eyes.see("plots", WINDOWS, "Latest materialization")
    eyes.page.get_by_role("button", name="Plots").click()
    eyes.page.get_by_role("button", name="Events").last.click()
    eyes.page.locator("canvas").nth(7).wait_for(timeout=_SECONDS)
    page = eyes.shot("plots")
    for name in ("events", "events_accepted", "events_adjusted", "events_late", "windows", "run_seconds"):
        assert f"\n{name}\n" in page


def test_the_links_of_a_day_lead_to_its_report(well: Stage, eyes: Eyes) -> None:
    eyes.see("windows-day", WINDOWS_DAY, "run_seconds")
    with eyes.page.context.expect_page() as opened:
        eyes.page.get_by_role("link", name=REPORT_DAY).click()
    link = opened.value.get_by_role("link", name=re.compile("2026-03-02_2026-03-06.html$")).first
    with eyes.page.context.expect_page() as report:
        link.click()
    page = report.value
    assert page.locator("#verdict").inner_text().strip().endswith("All 24 windows are what the live run gave.")
    page.screenshot(path=eyes.shots / "report.png")
    page.close()
    opened.value.close()


def test_checks_show_what_they_counted(well: Stage) -> None:
    page = well.pages[CONSERVATION]
    assert "24 events have one verdict each" in page
    assert (value(page, "events"), value(page, "verdict_rows")) == ("24", "8")
    assert "no difference" in well.pages[MATCHES_STREAM]
    assert "This is a blocking asset check" in well.pages[MATCHES_STREAM].replace("\n", "")


def test_the_launchpad_begins_with_a_range_and_asks_for_a_reason(well: Stage) -> None:
    page = well.pages[LAUNCHPAD]
    for line in ("from: 2026-02-28T00:00:00Z", "to: 2026-03-01T00:00:00Z", "reason: ''"):
        assert line in page


def test_the_plan_is_in_the_runs_log(well: Stage) -> None:
    page = well.pages["plan"]
    assert "plan: replay tolls over [2026-03-02T00:00:00Z, 2026-03-06T00:00:00Z)" in page
    assert "plan: read the arrivals [2026-03-01T22:55:00Z, 2026-03-06T00:05:00Z] of arrivals/cars at version" in page
    assert "plan: replace windows/tolls (not yet written) where window_end is in" in page


def test_a_file_that_is_no_job_is_shown_with_its_error(well: Stage) -> None:
    page = well.pages[BROKEN_FILE]
    assert "Not a valid job file, so there are no assets for it" in page
    assert "bad-file.yaml:5: ordering.late_arival: unknown key 'late_arival'; did you mean 'late_arrival'?" in page


# -- a day that breaks --------------------------------------------------------------------------------------------


def test_only_the_day_of_the_late_arrival_is_stale_and_why_is_said(broken: Stage) -> None:
    skipped, [asked] = json.loads(broken.pages["stale"])
    assert skipped is None
    days = (asked["dagster/asset_partition_range_start"], asked["dagster/asset_partition_range_end"])
    assert days == ("2026-03-03", "2026-03-03")
    assert asked["tailrace/why"] == (
        "stale: arrivals of 2026-03-03T12:40:00Z to 2026-03-03T12:40:00Z added by batch late in version 1"
    )


def test_the_failed_check_is_red_in_the_graph_and_what_is_before_it_is_not(broken: Stage) -> None:
    page = broken.pages[GROUP]
    assert "0 / 1 Passed" in node(page, "reconciliation")
    assert "2 failed" in node(page, "report")
    assert "2 / 2 Passed" in node(page, "windows")
    assert "1 / 1 Passed" in node(page, "verdicts")


def test_the_failed_check_names_each_row_and_its_cause(broken: Stage) -> None:
    page = broken.pages[MATCHES_STREAM]
    assert "Failed" in page
    assert value(page, "failed_rows") == "4"
    assert page.count("missing_in_stream") - page.count("row_missing_in_stream") == 3
    assert page.count("row_missing_in_stream") == 3
    assert page.count("late_arrivals_after_output") == 1
    day = broken.pages[RECONCILIATION_DAY]
    assert (value(day, "differing"), value(day, "late_arrivals_after_output")) == ("1", "1")
    assert "the replay has cars 2, the live run cars 1" in day
    assert "without the batch(es) late the window is exactly what it wrote" in day.replace("\n", " ")


def test_what_is_downstream_of_the_failed_check_is_not_made(broken: Stage, ui: Running) -> None:
    assert broken.run["steps"]["tolls__reconciliation_matches_stream"] == "FAILURE"
    assert REPORT_STEP not in broken.run["steps"]
    assert broken.id not in ui.day("tolls/report", "2026-03-03")["runs"]
    assert f"Run {broken.id[:8]} failed, and did not materialize this asset." in broken.pages[REPORT_DAY]


def test_a_failed_check_is_no_lost_range(broken: Stage, ui: Running) -> None:
    assert ui.tick("tolls_lost_ranges") == ("no range is lost", [])


# -- repaired -------------------------------------------------------------------------------------------------------


def test_a_run_repairs_the_days_and_the_report_is_made(repaired: Stage) -> None:
    assert set(repaired.run["steps"].values()) == {"SUCCESS"}
    assert repaired.run["steps"][REPORT_STEP] == "SUCCESS"
    assert "1 / 1 Passed" in node(repaired.pages[GROUP], "reconciliation")
    assert "failed" not in node(repaired.pages[GROUP], "report")
    assert value(repaired.pages[REPORT_DAY], "verdict") == "All 12 windows are what the live run gave."


def test_after_that_nothing_is_stale_and_the_ledger_has_every_run(repaired: Stage, ui: Running) -> None:
    skipped, asked = json.loads(repaired.pages["stale"])
    assert (skipped, asked) == ("no replayed day is stale", [])
    replays = [run for run in runs_of(Lakehouse.at(ui.root), "tolls") if run["kind"] == "replay"]
    assert [run["versions_read"]["arrivals/cars"] for run in replays] == [0, 1, 1]
    assert replays[1]["output_fingerprint"] == replays[2]["output_fingerprint"]
