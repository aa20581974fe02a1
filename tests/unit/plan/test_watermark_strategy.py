"""Which queries need no more of an event's time than the cell of a grid."""

from __future__ import annotations

from textwrap import indent

import pytest

from pipelines.core.time import MINUTE
from pipelines.job.load import parse_job
from pipelines.plan.watermark_strategy import cell_grid_of

COUNTED = "SELECT k, COUNT(*) AS n INTO counts FROM readings TIMESTAMP BY at"
SCRIPTS = {
    "a window": (f"{COUNTED} WHERE x > 1 GROUP BY k, TumblingWindow(minute, 4)", 4 * MINUTE),
    "two windows of one input": (
        "WITH r AS (SELECT k, x * 2 AS x FROM readings TIMESTAMP BY at)\n"
        "SELECT k, SUM(x) AS x INTO sums FROM r GROUP BY k, TumblingWindow(minute, 4)\n"
        "SELECT k, COUNT(*) AS n INTO counts FROM r GROUP BY k, HoppingWindow(minute, 12, 6)",
        2 * MINUTE,
    ),
    "LAG over windows that know their end": (
        f"WITH w AS ({COUNTED.replace('INTO counts ', '')} GROUP BY k, TumblingWindow(minute, 4))\n"
        "SELECT k, System.Timestamp() AS ended, LAG(n) OVER (LIMIT DURATION(hour, 1)) AS before INTO lags FROM w",
        4 * MINUTE,
    ),
    "a condition on the time": (
        f"{COUNTED} WHERE System.Timestamp() > '2026-01-01' GROUP BY k, TumblingWindow(minute, 4)",
        None,
    ),
    "a time in a step before the window": (
        "WITH r AS (SELECT k, System.Timestamp() AS t FROM readings TIMESTAMP BY at)\n"
        "SELECT k, MAX(t) AS t INTO counts FROM r GROUP BY k, TumblingWindow(minute, 4)",
        None,
    ),
    "LAG before the window": (
        "WITH r AS (SELECT k, LAG(x) OVER (LIMIT DURATION(hour, 1)) AS x FROM readings TIMESTAMP BY at)\n"
        "SELECT k, SUM(x) AS x INTO counts FROM r GROUP BY k, TumblingWindow(minute, 4)",
        None,
    ),
    "rows of events as a second output": (
        f"{COUNTED} GROUP BY k, TumblingWindow(minute, 4)\nSELECT k INTO rows FROM readings TIMESTAMP BY at",
        None,
    ),
    "an aggregate that needs an order": (
        "SELECT k, TopOne() OVER (ORDER BY x DESC) AS top INTO counts FROM readings TIMESTAMP BY at\n"
        "GROUP BY k, TumblingWindow(minute, 4)",
        None,
    ),
    "a sliding window": (f"{COUNTED} GROUP BY k, SlidingWindow(minute, 4)", None),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_windows_of_a_script_need_only_cells_where_nothing_before_them_reads_the_time(name: str) -> None:
    script, width_us = SCRIPTS[name]
    job = parse_job(
        f"""
tailrace: 1
job: cells
profile: stream_analytics
inputs: {{readings: {{columns: "at TIMESTAMP, k STRING, x DOUBLE"}}}}
ordering: {{out_of_order: 5s, action: adjust}}
query:
  sql: |
{indent(script, "    ")}
"""
    )
    assert job.steps is not None
    found = cell_grid_of(job)
    assert (found and found.width_us) == width_us
