"""``end_of_log: hold`` in stream_analytics, live (S15): a final window waits for the timelines that the query reads."""

from __future__ import annotations

from pipelines.core.model import Job, StreamAnalyticsOrdering
from pipelines.core.values import grouping_key
from pipelines.live.state.arrivals import Partitions
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.output import WindowResult
from pipelines.live.stream_analytics.timelines import LatestTimes


def is_released(compiled: CompiledJob, partitions: Partitions, latest: LatestTimes, result: WindowResult) -> bool:
    """Whether ``end < M - out_of_order`` in each timeline that may have rows of the window's group.

    With ``over``, a timeline whose keys differ from the group keys has none.
    """
    job = compiled.job
    keys = zip(job.query.group_by, result.values, strict=False)
    group = {_shared_name(job, *column.rpartition(".")[::2]): grouping_key(value) for column, value in keys}
    for name in compiled.sources:
        part, ordering = job.input(name), job.ordering(name)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        back_us = 0 if part.timestamp_by is None else ordering.out_of_order_us
        over = [_shared_name(job, name, column) for column in part.over]
        wanted = [(index, group[column]) for index, column in enumerate(over) if column in group]
        for partition in partitions.of(name):
            times = latest.get((name, partition), {})
            if not part.over and not times:
                return False
            for key, time_us in times.items():
                if all(key[index] == value for index, value in wanted) and not result.end_us < time_us - back_us:
                    return False
    return True


def is_released_for_good(compiled: CompiledJob, partitions: Partitions, result: WindowResult) -> bool:
    """Whether no timeline that is still to begin can take :func:`is_released` back."""
    for name in compiled.sources:
        part, ordering = compiled.job.input(name), compiled.job.ordering(name)
        assert isinstance(ordering, StreamAnalyticsOrdering)
        if not part.over:
            continue
        last = [partitions.last.get((name, partition)) for partition in partitions.of(name)]
        if ordering.late_arrival_us is None or None in last or not last:
            return False
        earliest_us = min(place[0] for place in last if place is not None) - ordering.late_arrival_us
        if not result.end_us < earliest_us - ordering.out_of_order_us:
            return False
    return True


def _shared_name(job: Job, name: str, column: str) -> str:
    """One name for what an input's column means: columns that a join compares are one."""
    join = job.query.join
    if join is None or column.lower() in {on.lower() for on in join.on}:
        return column.lower()
    return f"{name}.{column}".lower()
