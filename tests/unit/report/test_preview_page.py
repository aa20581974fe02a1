"""The page of a preview: charts, totals, causes and the largest changes, in one file that loads nothing."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from pipelines.core.model import EVERYTHING
from pipelines.core.time import DAY, HOUR
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.differences import Differences, TableDifferences
from pipelines.report.preview_page import _bins, write_preview

JOB = parse_job(
    """
tailrace: 1
job: tolls
profile: stream_analytics
inputs: {cars: {columns: "at TIMESTAMP, booth STRING", timestamp_by: at}}
query: {from: cars, group_by: [booth], window: {tumbling: {size: 1h}}, aggregates: {cars: "count(*)"}}
"""
)
LARGEST = {"window_end": "2026-03-01T13:00:00Z", "booth": "<b>", "status": "removed", "cause": "policy"}
WINDOWS = TableDifferences(
    table="windows/tolls",
    rows=40,
    by_status={"added": 1, "removed": 2},
    by_cause={"policy": 3},
    evidence={"policy": "the ordering policy of the job file is another one"},
    totals={"cars": (54.0, 50.0)},
    largest=[{**LARGEST, "before": {"cars": 4}, "now": None, "change": 4.0}],
    by_time=[
        {"at": "2026-03-01T12:00:00Z", "rows": 30, "added": 0, "removed": 2, "changed": 0},
        {"at": "2026-03-01T15:00:00Z", "rows": 10, "added": 1, "removed": 0, "changed": 0},
    ],
    step_us=HOUR,
)
CHANGES = Differences("tolls", "preview:night", "the tables as they are", EVERYTHING, (WINDOWS,))


def page(changes: Differences, folder: Path) -> str:
    place = write_preview(changes, JOB, "night", Lakehouse.at(folder))
    assert place == str(folder / "reports/tolls/preview/night.html")
    return Path(place).read_text(encoding="utf-8")


def test_the_page_has_the_chart_the_largest_changes_and_the_command(tmp_path: Path) -> None:
    text = page(CHANGES, tmp_path)
    assert text.count("<svg") == 2
    assert "0 changed" not in text
    assert "1 added, 2 removed, of 40 rows." in text
    assert "Most change in the step from 2026-03-01T12:00:00Z: 2." in text
    assert "the ordering policy of the job file is another one" in text
    assert '<td class="number">54</td><td class="number">50</td>' in text
    assert "tailrace promote tolls night" in text
    assert "&lt;b&gt;" in text
    assert "<b>" not in text
    assert "cars 4" in text
    found = re.search(r'id="statistics">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    assert json.loads(found[1])["tables"][0]["step"] == "1h"


def test_a_preview_that_changes_nothing_has_no_chart(tmp_path: Path) -> None:
    same = replace(WINDOWS, by_status={}, by_cause={}, largest=[], by_time=[])
    text = page(replace(CHANGES, tables=(same,)), tmp_path)
    assert "<svg" not in text
    assert "no difference, of 40 rows." in text
    assert "Promoting it would change nothing." in text


def test_a_year_of_days_is_drawn_in_at_most_a_hundred_bins() -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]
    rows: list[dict[str, Any]] = [{"at": f"{day}", "rows": 1, "added": 1, "removed": 0, "changed": 0} for day in days]
    width_us, by_bin = _bins(replace(WINDOWS, by_time=rows, step_us=DAY))
    assert width_us == 4 * DAY
    assert len(by_bin) == 92
    assert sum(counts.total() for counts in by_bin.values()) == 365
