"""Which arrivals a window is recomputed from: a formula's, a short log's, a replay's, or two days on either side."""

from __future__ import annotations

from pathlib import Path

import pytest
from reconcile_rows import ingested

from pipelines.core.model import Job, OutputRange
from pipelines.core.time import DAY, HOUR, parse_instant
from pipelines.job.load import parse_job
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import read_range
from pipelines.recompute.logs import Logs
from pipelines.recompute.reads import AROUND, reads_around
from pipelines.replay.builder import LogReads

END = parse_instant("2026-01-10T12:00:00Z")
WINDOW = OutputRange(END, END + 1)


def _job(ordering: str = "{late_arrival: 1h}", time: str = "at") -> Job:
    return parse_job(
        f"""
tailrace: 1
job: cars
profile: stream_analytics
inputs: {{cars: {{columns: "at TIMESTAMP, n INT", timestamp_by: "{time}"}}}}
ordering: {ordering}
query: {{from: cars, window: {{tumbling: {{size: 1h}}}}, aggregates: {{cars: "count(*)"}}}}
"""
    )


@pytest.fixture
def lakehouse(tmp_path: Path) -> Path:
    """An event every six hours, for twenty days."""
    times = [f"2026-01-{day:02d}T{hour:02d}:00:00Z" for day in range(1, 21) for hour in (0, 6, 12, 18)]
    rows = [{"arrival_time": time, "at": time, "n": 1} for time in times]
    return ingested(_job(), tmp_path / "lakehouse", {"cars": rows})


EARLY_OFF = _job("{early_arrival: off, late_arrival: 1h}")
EXPRESSION = _job("{late_arrival: unbounded}", time="date_trunc('second', at)")


@pytest.mark.parametrize(("job", "most"), [(_job(), 0), (EARLY_OFF, 80)])
def test_the_formula_is_read_where_it_bounds_the_range_or_leaves_few_arrivals(
    job: Job, most: int, lakehouse: Path
) -> None:
    found = reads_around(job, WINDOW, Logs(Lakehouse.at(lakehouse)), most)
    assert (found.range, found.initial_states) == (read_range(job, WINDOW), None)


def test_of_a_long_log_what_a_replay_reads_is_read_with_the_state_it_begins_with(lakehouse: Path) -> None:
    found = reads_around(EARLY_OFF, WINDOW, Logs(Lakehouse.at(lakehouse)), 10)
    assert found == LogReads(EARLY_OFF, Lakehouse.at(lakehouse)).of(WINDOW)
    assert found.initial_states is not None


@pytest.mark.parametrize(
    ("job", "history", "to_us"),
    [
        (EXPRESSION, True, END + 1 + 2 * DAY),
        # the formula bounds the upper end
        (EARLY_OFF, False, END + 1 + HOUR),
    ],
)
def test_of_a_long_log_that_a_replay_reads_as_a_whole_two_days_on_either_side_are_read(
    job: Job, history: bool, to_us: int, lakehouse: Path
) -> None:
    found = reads_around(job, WINDOW, Logs(Lakehouse.at(lakehouse)), 10, history=history)
    assert found.range.rule == AROUND
    assert (found.range.from_us, found.range.to_us) == (END - 2 * DAY, to_us)
