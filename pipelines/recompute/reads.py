"""Which arrivals a few windows are recomputed from."""

from __future__ import annotations

from pipelines.core.model import Job, OutputRange, Session, Window
from pipelines.core.time import DAY
from pipelines.plan.read_range import ReadRange, look_back, read_range
from pipelines.recompute.windows import Logs

_OPEN_US = 2 * DAY
"""How far to look where a job would have to read the whole log; what is found is proved exactly afterwards."""


_MANY = 20_000


def near(job: Job, output: OutputRange, logs: Logs, many: int = _MANY) -> ReadRange:
    """The arrivals that make ``output`` exact, cut to a stretch around it where that would be a long log's whole."""
    read = read_range(job, output)
    if (read.from_us is not None and read.to_us is not None) or output.from_us is None or output.to_us is None:
        return read
    if sum(logs.rows_within(part.name, read) for part in job.inputs) <= many:
        return read
    from_us = output.from_us - _OPEN_US if read.from_us is None else read.from_us
    to_us = output.to_us + _OPEN_US if read.to_us is None else read.to_us
    return ReadRange(from_us, to_us, read.rule)


def reach_us(window: Window) -> int:
    """How far back a window reaches from its end; of an atlas session, which is unbounded, as far as its gap."""
    back_us = look_back(window)
    if back_us is None:
        assert isinstance(window, Session)
        return window.timeout_us
    return back_us
