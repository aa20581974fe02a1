"""The choice between the strategies of finding watermarks, made once for an input.

Each strategy gives the same rows. Where a log does not suit one, the next takes its place: grid cells give way to the
exact strategy, file order to packed, packed to sort.
"""

from __future__ import annotations

from functools import cache, partial

from pipelines.batch.stream_analytics.input_events import InputEvents
from pipelines.batch.stream_analytics.watermarks.file_order import in_file_order
from pipelines.batch.stream_analytics.watermarks.grid_cells import by_cells, cell_reached
from pipelines.batch.stream_analytics.watermarks.judged import ExactlyJudged, JudgedEvents
from pipelines.batch.stream_analytics.watermarks.packed import packed
from pipelines.batch.stream_analytics.watermarks.sort import by_sorting
from pipelines.batch.stream_analytics.watermarks.statistics import LogStatistics, log_statistics
from pipelines.batch.stream_analytics.watermarks.task_ranges import TaskRanges
from pipelines.plan.watermark_strategy import CellGrid, WatermarkStrategy


def judged_events(events: InputEvents, strategy: WatermarkStrategy, grid: CellGrid | None) -> JudgedEvents:
    """The events of one input. ``grid``: its cells are all that the query's windows need to know of a time, or None.

    Any strategy but ``sort`` passes over the log once before this returns.
    """
    if strategy.verdicts == "sort":
        return by_sorting(events)
    wanted = grid if strategy.windows == "grid_cells" and events.greatest_before_us is None else None
    if wanted is not None:
        reached = cell_reached(wanted, events.policy.out_of_order_us)
        statistics = log_statistics(events.timed, events.in_range, reached)
        if statistics is not None:
            exactly = cache(partial(_exactly, events, strategy, statistics))
            return by_cells(events, wanted, statistics, exactly) or exactly()
    # without cells: there may be many more cells than buckets
    statistics = log_statistics(events.timed, events.in_range)
    return by_sorting(events) if statistics is None else _exactly(events, strategy, statistics)


def _exactly(events: InputEvents, strategy: WatermarkStrategy, statistics: LogStatistics) -> ExactlyJudged:
    ranges = TaskRanges(statistics, events.timed, events.timeline)
    in_order = in_file_order(events, ranges) if strategy.verdicts == "file_order" else None
    return in_order or packed(events, ranges) or by_sorting(events)
