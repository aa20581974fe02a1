"""What in a job the real product would refuse: warnings here, errors under ``strict_limits: true``."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.steps import InputRows, Windowed, walk
from pipelines.core.time import DAY, MINUTE, SECOND, format_duration

_LATE_LIMIT_US = 21 * DAY - SECOND
_OUT_OF_ORDER_LIMIT_US = 10 * MINUTE - SECOND
_WINDOW_LIMIT_US = 7 * DAY


def limits_exceeded(job: model.Job) -> list[str]:
    """Settings that the real product would refuse: warnings, or errors under ``strict_limits: true``."""
    found = []
    for name, ordering in job.orderings:
        if isinstance(ordering, model.StreamAnalyticsOrdering):
            late_us, disorder_us = ordering.late_arrival_us, ordering.out_of_order_us
            if late_us is not None and late_us > _LATE_LIMIT_US:
                found.append(f"{name}: late_arrival {format_duration(late_us)} exceeds the product's 20d23h59m59s")
            if disorder_us > _OUT_OF_ORDER_LIMIT_US:
                found.append(f"{name}: out_of_order {format_duration(disorder_us)} exceeds the product's 9m59s")
    for label, window in job_windows(job):
        found += _window_limits(label, window, job.profile)
    found += _over_limits(job)
    return found


def job_windows(job: model.Job) -> list[tuple[str, model.SimpleWindow]]:
    """Every window of the job with what names it: ``window`` or its id, the step or output where there are several."""
    if job.steps is None:
        return simple_windows(job.window_query.window)
    return [
        (name if label == "window" else f"{name}, {label}", window)
        for name, rows in job.steps.relations()
        if isinstance(rows, Windowed)
        for label, window in simple_windows(rows.window)
    ]


def simple_windows(window: model.Window) -> list[tuple[str, model.SimpleWindow]]:
    """The windows of a query with their ids; a lone one is called ``window``."""
    return list(window.members) if isinstance(window, model.AnyOf) else [("window", window)]


def _window_limits(label: str, window: model.SimpleWindow, profile: str) -> list[str]:
    if profile != "stream_analytics":
        return []
    match window:
        case model.Grid(size_us=span_us) | model.Sliding(size_us=span_us) | model.Session(max_duration_us=int(span_us)):
            if span_us > _WINDOW_LIMIT_US:
                return [f"{label}: {format_duration(span_us)} exceeds the product's 7d"]
    return []


def _over_limits(job: model.Job) -> list[str]:
    return [
        f"{source.name}: over column '{name}' is not a grouping key, which the product demands"
        for source in job.inputs
        for name in source.over
        if any(name.lower() not in keys for keys in _grouping_keys(job, source.name))
    ]


def _grouping_keys(job: model.Job, source: str) -> list[set[str]]:
    """The columns that each window over rows of an input groups them by (Q19)."""
    if job.steps is None:
        return [{name.lower().split(".")[-1] for name in job.window_query.group_by}]
    return [
        {key.expression.replace("`", "").lower().split(".")[-1] for key in rows.keys}
        for _, rows in job.steps.relations()
        if isinstance(rows, Windowed) and InputRows(source) in walk(rows)
    ]
