"""What a job's outputs look like: their columns, and what identifies a row of one."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Input, Job, Reference, output_name
from pipelines.core.query import AnyOf, Session, Window
from pipelines.core.steps import Analysed, Filtered, Projected, Referenced, Rows, StepRows, Steps, Windowed, columns_of


def known_columns(inputs: Sequence[Input], references: Sequence[Reference]) -> dict[str, list[str]]:
    """The columns that inputs and references declare, by their name."""
    known = {one.name: [column.name for column in one.columns] for one in inputs}
    return known | {one.name: [column.name for column in one.columns] for one in references}


def output_columns(job: Job, name: str) -> tuple[str, ...]:
    """The columns of an output besides its times."""
    if job.steps is None:
        query = job.window_query
        return (*map(output_name, query.group_by), *(one.name for one in query.aggregates))
    return columns_of(job.steps.output(name).rows, job.steps, known_columns(job.inputs, job.references))


def key_columns(job: Job, name: str) -> tuple[str, ...] | None:
    """The columns that, with its window, identify a row of an output; None if nothing does (Q94)."""
    if job.steps is None:
        return tuple(map(output_name, job.window_query.group_by))
    return _keys(job.steps.output(name).rows, job.steps)


def window_of(job: Job, name: str) -> Window | None:
    """The window that each row of an output stems from; None where a row stems from no single one."""
    if job.steps is None:
        return job.window_query.window
    step = _window_step(job.steps.output(name).rows, job.steps)
    return None if step is None else step.window


def time_columns(job: Job, name: str) -> tuple[str, ...]:
    """The columns of an output that contain its system timestamp and nothing else (Q95)."""
    return () if job.steps is None else tuple(_times(job.steps.output(name).rows, job.steps).values())


def _times(rows: Rows, steps: Steps) -> dict[str, str]:
    """The columns that contain the rows' system timestamp, by what an expression calls them."""
    match rows:
        case Filtered(inner) | Analysed(inner):
            return _times(inner, steps)
        case StepRows(name):
            return _times(steps.step(name), steps)
        case Referenced(side):
            return {f"{side.name}.{name}".lower(): name for name in _times(side.rows, steps).values()}
        case Projected(inner, columns):
            known = {"system_timestamp", *_times(inner, steps)}
            return {one.name.lower(): one.name for one in columns if _bare(one.expression) in known}
        case _:
            return {}


def _window_step(rows: Rows, steps: Steps) -> Windowed | None:
    """The window step whose rows these are, one for one or fewer."""
    match rows:
        case Windowed():
            return rows
        case Filtered(inner) | Projected(inner) | Analysed(inner):
            return _window_step(inner, steps)
        case StepRows(name):
            return _window_step(steps.step(name), steps)
        case _:
            return None


def _keys(rows: Rows, steps: Steps) -> tuple[str, ...] | None:
    match rows:
        case Windowed(keys=keys, window=window, partition_by=apart):
            expressions = {_bare(one.expression) for one in keys}
            parted = {*map(_bare, apart), *(_bare(text) for text in _chains(window))}
            return tuple(one.name for one in keys) if parted <= expressions else None
        case Filtered(inner) | Analysed(inner):
            return _keys(inner, steps)
        case StepRows(name):
            return _keys(steps.step(name), steps)
        case Projected(inner, columns):
            inner_keys = _keys(inner, steps)
            given = {_bare(one.expression): one.name for one in columns}
            if inner_keys is None or any(key.lower() not in given for key in inner_keys):
                return None
            return tuple(given[key.lower()] for key in inner_keys)
        case _:
            return None


def _chains(window: Window) -> tuple[str, ...]:
    members = [member for _, member in window.members] if isinstance(window, AnyOf) else [window]
    return tuple(name for member in members if isinstance(member, Session) for name in member.partition_by)


def _bare(expression: str) -> str:
    """An expression without quotes, in lower case: what two ways to write one name have in common."""
    return expression.replace("`", "").strip().lower()
