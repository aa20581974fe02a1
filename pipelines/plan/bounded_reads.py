"""Read ranges with an initial state: the buckets of arrival time that an output range reads, by the log's summary.

The rule and its proof are in :mod:`pipelines.plan.read_range`; this module has the arithmetic. For each profile a
function finds the buckets that may contain an event of the range's windows, and the last bucket that can.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pipelines.core.model import (
    AtlasOrdering,
    Count,
    Grid,
    Input,
    Job,
    OutputRange,
    Session,
    Snapshot,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
    Window,
)
from pipelines.plan import read_range
from pipelines.plan.extent import FirstWindow, first_windows, windows_of
from pipelines.plan.initial_state import (
    Clock,
    InitialStates,
    Summary,
    SummaryRow,
    greater,
    initial_state_of,
    summary_key_of,
)
from pipelines.plan.paths import extents
from pipelines.plan.read_range import History, ReadRange

_LEAST_US = -(2**62)
_GREATEST_US = 2**62


@dataclass(frozen=True, slots=True)
class BoundedReads:
    """What a plan reads: of each input what ``by_input`` gives, else ``range``, which covers them all.

    ``initial_states`` None: engines begin with empty timelines. The result is final once every log has an arrival after
    ``final_us`` (None: never), unless ``unsettled`` states why later arrivals could still change it.
    """

    range: ReadRange
    final_us: int | None
    initial_states: InitialStates | None = None
    unsettled: str | None = None
    by_input: Mapping[str, ReadRange] = field(default_factory=dict)

    def of(self, name: str) -> ReadRange:
        """The arrivals of one input."""
        return self.by_input.get(name, self.range)


def bounded_reads(job: Job, output: OutputRange, history: History) -> BoundedReads:
    """The arrivals that make ``output`` exact, with an initial state if they need one.

    By the first of these that applies: the formula, where it bounds both ends; an initial state, where the log has a
    summary; :func:`~pipelines.plan.read_range.narrowed`; the whole log.
    """
    formula = read_range.read_range(job, output)
    closed = (output.from_us is None or formula.from_us is not None) and (
        output.to_us is None or formula.to_us is not None
    )
    why = why_whole_log(job)
    if closed or output == OutputRange() or why is not None:
        found = read_range.narrowed(job, output, history)
        still_open = output.from_us is not None and found.from_us is None
        reasons = (why,) if why is not None and still_open and why not in found.reasons else ()
        by_input = read_range.read_ranges(job, output) if closed else {}
        return BoundedReads(replace(found, reasons=found.reasons + reasons), formula.to_us, by_input=by_input)
    summaries = {source.name: history.summary(source.name) for source in job.inputs}
    known = {name: summary for name, summary in summaries.items() if summary is not None}
    assert len(known) == len(summaries), "why_whole_log looks at the setting of each input"
    return with_initial_state(job, output, known)


def why_whole_log(job: Job) -> str | None:
    """Why no initial state bounds what ``job`` reads, in a sentence; None where one does."""
    for source in job.inputs:
        if summary_key_of(job, source.name) is None:
            return f"times or keys of input {source.name} are expressions, or of a type, that a summary cannot contain"
        if source.shape == "edge":
            return "an edge that opened long ago may still be open, and its row must be read"
    windows = windows_of(job)
    ordering = job.ordering(job.inputs[0].name)
    by_clock = isinstance(ordering, AtlasOrdering) and ordering.boundary == "processing_time"
    if by_clock and any(isinstance(window, Session) for window in windows):
        return "a session by processing time continues as long as arrivals follow each other"
    if any(isinstance(window, Count) for window in windows):
        return "a count window contains n start times of its group, however long ago the first of them was"
    if job.profile == "atlas" and len(job.inputs) > 1:
        return "atlas reads one input"
    return None


def with_initial_state(job: Job, output: OutputRange, summaries: Mapping[str, Summary]) -> BoundedReads:
    """The rule for a job for which :func:`why_whole_log` is None; all ``summaries`` have one bucket size."""
    bucket_us = next(iter(summaries.values())).bucket_us
    match job.profile:
        case "atlas":
            paths = first_windows(job)
            found = _all(
                [_atlas(job, _reached(output, one), one.window, summaries[job.inputs[0].name]) for one in paths]
            )
        case "stream_insight":
            paths = first_windows(job)
            found = _all([_stream_insight(job, _reached(output, one), one.window, summaries) for one in paths])
        case "stream_analytics":
            found = _stream_analytics(job, output, summaries)
    buckets = set(found.buckets)
    first: int | None = None
    from_us = to_us = None
    if output.from_us is not None:
        first = min([output.from_us // bucket_us, *buckets])
        from_us = first * bucket_us
    if output.to_us is not None:
        to_us = max([output.to_us - 1, *((bucket + 1) * bucket_us - 1 for bucket in buckets)])
    reason = "the log's summary gives the initial state that earlier arrivals led to"
    final_us = read_range.read_range(job, output).to_us
    if final_us is None and output.to_us is not None:
        final_us = output.to_us - 1
    return BoundedReads(
        ReadRange(from_us, to_us, f"{_RULE}: {found.rule}", (reason,)),
        final_us,
        {name: initial_state_of(summary, first) for name, summary in summaries.items()},
        found.unsettled if output.to_us is not None else None,
    )


_RULE = "the arrivals of the range, and those whose times can be in its windows"


@dataclass(frozen=True, slots=True)
class _Found:
    """Buckets that may contain an event of the range's windows; ``unsettled``: why later ones may, too, or None."""

    buckets: tuple[int, ...]
    unsettled: str | None
    rule: str


def _reached(output: OutputRange, path: FirstWindow) -> OutputRange:
    """The ends of the first windows that an output range is made of; the range itself too, for its verdicts."""
    back_us, ahead_us = path.after.back_us, path.after.ahead_us
    assert back_us is not None, "what follows a first window is bounded"
    return OutputRange(
        None if output.from_us is None else output.from_us - back_us,
        None if output.to_us is None else output.to_us + ahead_us,
    )


def _all(found: Sequence[_Found]) -> _Found:
    """What the paths to all outputs need together."""
    return _Found(
        tuple(bucket for one in found for bucket in one.buckets),
        next((one.unsettled for one in found if one.unsettled is not None), None),
        "; ".join(dict.fromkeys(one.rule for one in found)),
    )


def _open(output: OutputRange) -> tuple[int, int]:
    """``[from, to)`` in numbers: an open end is beyond every instant."""
    return (
        _LEAST_US if output.from_us is None else output.from_us,
        _GREATEST_US if output.to_us is None else output.to_us,
    )


def _by_bucket(rows: Iterable[SummaryRow]) -> list[tuple[int, list[SummaryRow]]]:
    found: dict[int, list[SummaryRow]] = {}
    for row in rows:
        found.setdefault(row.bucket, []).append(row)
    return sorted(found.items())


# -- atlas ------------------------------------------------------------------------------------------------------------


def _atlas(job: Job, output: OutputRange, window: Window | None, summary: Summary) -> _Found:
    """``window`` None: a row for each document, at its own time."""
    source = job.inputs[0]
    ordering = job.ordering(source.name)
    assert isinstance(ordering, AtlasOrdering)
    assert isinstance(window, Grid | Session | None)
    from_us, to_us = _open(output)
    size_us = window.size_us if isinstance(window, Grid) else 0
    # a window that ends before `to` ends after its documents; a document's own row does not
    last_us = to_us - 1 if window is None else to_us - 2
    partitions = summary.partitions() if source.partitions is None else frozenset(range(source.partitions))
    unsettled = None
    if source.partitions is None:
        unsettled = (
            "the watermark would wait for an input partition of which nothing has arrived so far;"
            f" set 'partitions' of input {source.name}"
        )
    if ordering.boundary == "processing_time":
        within = range((from_us - size_us) // summary.bucket_us, last_us // summary.bucket_us + 1)
        buckets = tuple(row.bucket for row in summary.rows if row.first_us is not None and row.bucket in within)
        return _Found(buckets, unsettled, "[from - size, to), by arrival time")
    touched = {row.bucket for row in summary.rows if _touches(row, from_us - size_us, last_us)}
    if window is None:
        never = "without a window no document is too late: one of the range may still arrive"
        return _Found(tuple(touched), never, "[from, to), by event time")
    still_open, all_closed = _open_buckets(summary, _Closing(partitions, ordering.allowed_lateness_us), to_us - 1)
    if not all_closed:
        unsettled = "windows of the range are still open at the end of the log"
    if isinstance(window, Session):
        linked = _in_sessions(summary, window.timeout_us, from_us, to_us, still_open)
        return _Found(linked, unsettled, "from the first event that a chain of gaps links to one of them, until closed")
    rule = "[from - size, to), until all windows that end before to have closed"
    return _Found(tuple(touched & still_open), unsettled, rule)


def _open_buckets(summary: Summary, closing: _Closing, end_us: int) -> tuple[set[int], bool]:
    """The buckets at whose beginning a window that ends at ``end_us`` is open; whether it is closed after the last."""
    found = set()
    for bucket, rows in _by_bucket(summary.rows):
        if not closing.has_closed(end_us):
            found.add(bucket)
        closing.take(rows)
    return found, closing.has_closed(end_us)


def _touches(row: SummaryRow, first_us: int, last_us: int) -> bool:
    """Whether an event of the row may have a time in ``[first_us, last_us]``."""
    return row.first_us is not None and row.last_us is not None and row.last_us >= first_us and row.first_us <= last_us


def _in_sessions(summary: Summary, gap_us: int, from_us: int, to_us: int, still_open: set[int]) -> tuple[int, ...]:
    """The buckets of events that a chain of gaps links to an arrival of the range, or to a session that may end in it;
    after the range only buckets at whose beginning a session of the range is open."""
    bucket_us = summary.bucket_us
    arrived = range(from_us // bucket_us, (to_us - 1) // bucket_us + 1)
    found: set[int] = set()
    for chain in _chains([row for row in summary.rows if row.first_us is not None], gap_us):
        buckets = {row.bucket for row in chain}
        ends = [row.last_us + gap_us for row in chain if row.last_us is not None]
        begins = [row.first_us + gap_us for row in chain if row.first_us is not None]
        if max(ends) >= from_us and min(begins) <= to_us - 1:
            found |= {bucket for bucket in buckets if bucket < arrived.stop or bucket in still_open}
        elif any(bucket in arrived for bucket in buckets):
            found |= {bucket for bucket in buckets if bucket < arrived.stop}
    return tuple(found)


def _chains(rows: Iterable[SummaryRow], gap_us: int) -> list[list[SummaryRow]]:
    """Groups of rows: a chain of gaps may link the times inside a group, and none links two groups."""
    found: list[list[SummaryRow]] = []
    reach_us = 0
    for row in sorted(rows, key=lambda row: row.first_us or 0):
        assert row.first_us is not None
        assert row.last_us is not None
        if found and row.first_us - reach_us < gap_us:
            found[-1].append(row)
            reach_us = max(reach_us, row.last_us)
        else:
            found.append([row])
            reach_us = row.last_us
    return found


class _Closing:
    """The instant up to which windows of an atlas input are closed, bucket after bucket (A4)."""

    def __init__(self, partitions: frozenset[int], lateness_us: int) -> None:
        self._lateness_us = lateness_us
        self._closed_us: dict[int, int | None] = dict.fromkeys(partitions)

    def take(self, rows: Iterable[SummaryRow]) -> None:
        """Move on past the rows of the next bucket."""
        for row in rows:
            time_us = None if row.last_us is None else row.last_us - self._lateness_us
            for partition in self._closed_us if row.partition is None else (row.partition,):
                if partition in self._closed_us:
                    closed_us = greater(self._closed_us[partition], row.punctuation_us)
                    self._closed_us[partition] = greater(closed_us, time_us)

    def has_closed(self, end_us: int) -> bool:
        """Whether a window that ends at ``end_us`` is closed."""
        bounds = self._closed_us.values()
        return bool(self._closed_us) and all(bound is not None and end_us <= bound for bound in bounds)


# -- stream_insight ---------------------------------------------------------------------------------------------------


def _stream_insight(job: Job, output: OutputRange, window: Window | None, summaries: Mapping[str, Summary]) -> _Found:
    from_us, to_us = _open(output)
    names = tuple(extents(job))
    rows = {name: [row for row in summaries[name].rows if row.first_us is not None] for name in names}
    if isinstance(window, Grid):
        least_end_us, last_start_us = from_us - window.size_us + 1, to_us - 2
        rule = "lifetimes that end after from - size and begin before to"
    else:
        assert isinstance(window, Snapshot)
        last_start_us = to_us - 1
        alive = [row.first_us for some in rows.values() for row in some if _alive(row, from_us, last_start_us)]
        least_end_us = min([from_us, *(first_us for first_us in alive if first_us is not None)])
        rule = "lifetimes that end at or after the least start of those alive at from, and begin before to"
    buckets = []
    still_open = False
    for name in names:
        clocks = [summaries[each].clocks for each in (name, *_imports(job, name))]
        done = _passed(clocks, last_start_us)
        still_open = still_open or done is None
        buckets += [
            row.bucket
            for row in rows[name]
            if _alive(row, least_end_us, last_start_us) and (done is None or row.bucket <= done)
        ]
    unsettled = "the current time has not passed the range at the end of the log" if still_open else None
    return _Found(tuple(buckets), unsettled, f"{rule}, until the current time is past it")


def _alive(row: SummaryRow, least_end_us: int, last_start_us: int) -> bool:
    """Whether a lifetime of the row may end at or after ``least_end_us`` and begin at or before ``last_start_us``."""
    assert row.first_us is not None
    assert row.last_us is not None
    end_us = row.last_us + 1 if row.end_us is None else row.end_us
    return end_us >= least_end_us and row.first_us <= last_start_us


def _passed(clocks: Iterable[Mapping[int, Clock]], start_us: int) -> int | None:
    """The first bucket in which a CTI greater than ``start_us`` was issued; None if none was."""
    each = [(bucket, clock.cti_us) for by_bucket in clocks for bucket, clock in by_bucket.items()]
    return min((bucket for bucket, cti_us in each if cti_us is not None and cti_us > start_us), default=None)


def _imports(job: Job, name: str) -> list[str]:
    """The inputs whose CTIs reach ``name``, directly or through another."""
    found: list[str] = []
    ordering = job.ordering(name)
    while isinstance(ordering, StreamInsightOrdering):
        source = ordering.import_from
        if source is None or source == name or source in found:
            break
        found.append(source)
        ordering = job.ordering(source)
    return found


# -- stream_analytics -------------------------------------------------------------------------------------------------


def _stream_analytics(job: Job, output: OutputRange, summaries: Mapping[str, Summary]) -> _Found:
    from_us, to_us = _open(output)
    buckets: list[int] = []
    unsettled = None
    for name, extent in extents(job).items():
        if name not in summaries:
            continue  # reference data
        assert extent.back_us is not None, "every construct of stream_analytics is bounded"
        least_us, last_us = from_us - extent.back_us, to_us - 1 + extent.ahead_us
        counting, why = _counting(job.input(name), read_range.policy(job, name), summaries[name], least_us, last_us)
        buckets += counting
        unsettled = unsettled or why
    if job.end_of_log == "hold":
        unsettled = unsettled or "end_of_log: hold depends on the watermark of every timeline at the end of the log"
    return _Found(tuple(buckets), unsettled, "[from - K, to)")


def _counting(
    source: Input, policy: StreamAnalyticsOrdering, summary: Summary, least_us: int, last_us: int
) -> tuple[list[int], str | None]:
    """The buckets with an event that may count in ``[least_us, last_us]``; why later ones may have one, or None."""
    order_us = policy.out_of_order_us if source.timestamp_by is not None else 0
    moves = policy.action == "adjust" and source.timestamp_by is not None
    latest: dict[tuple[int | None, str], int] = {}
    declared = None if source.over or source.partitions is None else frozenset(range(source.partitions))
    found = []

    def passed() -> bool:
        """Whether the watermark of every timeline that can exist is beyond ``last_us``."""
        if declared is None:
            return False
        reached = {partition for (partition, _), time_us in latest.items() if time_us - order_us > last_us}
        return reached >= declared

    for bucket, rows in _by_bucket(summary.rows):
        done = passed()
        if policy.late_arrival_us is not None:
            done = done or bucket * summary.bucket_us - policy.late_arrival_us > last_us
        bounds = (order_us, moves, least_us, last_us)
        if not done and any(_may_count(row, latest.get((row.partition, row.timeline)), *bounds) for row in rows):
            found.append(bucket)
        for row in rows:
            if row.last_us is not None:
                who = (row.partition, row.timeline)
                latest[who] = max(row.last_us, latest.get(who, row.last_us))
    if policy.late_arrival_us is not None or passed():
        return found, None
    return found, "with an unbounded late tolerance any arrival may still count in the range"


def _may_count(row: SummaryRow, latest_us: int | None, order_us: int, moves: bool, least_us: int, last_us: int) -> bool:
    """Whether an event of the row may count in ``[least_us, last_us]``: at its own time, or (``moves``) moved to a
    watermark, which an event of the same bucket set, or ``latest_us``, the greatest time of earlier buckets."""
    if row.first_us is None or row.last_us is None:
        return False
    if row.last_us >= least_us and row.first_us <= last_us + (order_us if moves else 0):
        return True
    if not moves or latest_us is None:
        return False
    return least_us <= latest_us - order_us <= last_us and row.first_us < latest_us - order_us
