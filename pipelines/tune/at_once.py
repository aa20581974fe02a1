"""All settings at once, where the query's windows are of grids and stream_analytics decides: one sort, one grouping."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from pipelines.batch.columns import WINDOW
from pipelines.batch.logs import Log
from pipelines.batch.stream_analytics.several_policies import MOST, SeveralPolicies, windows_of_each
from pipelines.core.model import Input, Job, OutputRange, Query, StreamAnalyticsOrdering, output_name
from pipelines.plan.watermark_strategy import CellGrid, cell_grid_of
from pipelines.replay.collect import persisted
from pipelines.tune.differences import Shape, differences
from pipelines.tune.one_by_one import additive
from pipelines.tune.result import Figures, decisions_of
from pipelines.tune.settings import Setting


def at_once(
    settings: Sequence[Setting],
    arrivals: Mapping[str, DataFrame],
    output: OutputRange,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Figures] | None:
    """The figures of each setting, from arrivals that make the range exact under all, if timelines begin empty there.

    None where windows need more of a time than its cell of a grid (see
    :func:`~pipelines.plan.watermark_strategy.cell_grid_of`), or a query has steps or a join.
    """
    job = settings[0].job
    grid = cells_of(job)
    if grid is None:
        return None
    figures = []
    for first in range(0, len(settings), MOST):
        some = settings[first : first + MOST]
        inputs = {
            part.name: SeveralPolicies(
                Log(arrivals[part.name], part, rank),
                tuple(policy for one in some if isinstance(policy := one.job.ordering(part.name), _KIND)),
                _payload(part, job.window_query),
            )
            for rank, part in enumerate(job.inputs)
        }
        progress(f"{len(some)} settings at once")
        figures += _figures(some, inputs, grid, output)
    return figures


_KIND = StreamAnalyticsOrdering


def cells_of(job: Job) -> CellGrid | None:
    """The cells of a grid that the windows consist of; None where they need more of a time."""
    if job.steps is not None or job.profile != "stream_analytics":
        return None
    # unlike a replay this finds the watermark itself, not its cell, so dropping needs no more than moving
    policies = ((name, policy) for name, policy in job.orderings if isinstance(policy, _KIND))
    return cell_grid_of(replace(job, orderings=tuple((name, replace(one, action="adjust")) for name, one in policies)))


def _figures(
    settings: Sequence[Setting], inputs: Mapping[str, SeveralPolicies], grid: CellGrid, output: OutputRange
) -> list[Figures]:
    query = settings[0].job.window_query
    with persisted([one.scanned for one in inputs.values()]):
        groups = [one.decisions(output) for one in inputs.values()]
        windows = windows_of_each([inputs[name] for name in query.sources], query, grid, output)
        keys = (*WINDOW, *map(output_name, query.group_by))
        shape = Shape(keys, tuple(one.name for one in query.aggregates), additive(query), is_unique=True)
        different = differences(windows, len(settings), shape)
    decided = [decisions_of(group for part in groups for group in part[place]) for place in range(len(settings))]
    return [Figures(*one) for one in zip(settings, decided, different, strict=True)]


def _payload(source: Input, query: Query) -> tuple[str, ...]:
    """The columns that the query may read: those whose names occur in its texts."""
    texts = [*query.group_by, query.where or "", *(one.argument or "" for one in query.aggregates)]
    text = " ".join(texts).lower()
    return tuple(one.name for one in source.columns if one.name.lower() in text)
