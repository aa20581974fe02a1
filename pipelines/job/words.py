"""A job's policy said back in plain sentences, and what in it deserves a second look."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.readrange import reach_of
from pipelines.core.time import DAY, format_duration, format_instant
from pipelines.job.limits import simple_windows


def policy_in_words(job: model.Job) -> list[str]:
    """The ordering policy of every input and the window, one sentence an entry."""
    sentences = []
    for source in job.inputs:
        sentences += [f"{source.name}: {text}" for text in _input_words(source, job.ordering(source.name))]
    sentences.append(_window_words(job.query.window, job.profile))
    if job.query.where is not None:
        sentences.append(
            f"Only events with {job.query.where} count; the others still move the watermark and have a verdict."
        )
    if job.end_of_log == "flush":
        sentences.append("Windows still open at the end of the log are emitted (end_of_log: flush).")
    else:
        sentences.append("Windows still open at the end of the log are held back (end_of_log: hold).")
    return sentences


def read_range_in_words(job: model.Job) -> list[str]:
    """The read-range formula with the job's numbers, and why it is open where it is."""
    reach = reach_of(job)
    return [f"An output range [from, to) reads arrivals {reach.rule}.", *(f"{why}." for why in reach.reasons)]


def remarks(job: model.Job) -> list[str]:
    """What is allowed but deserves a second look."""
    found = []
    for label, window in simple_windows(job.query.window):
        if isinstance(window, model.Grid) and DAY % window.hop_us:
            found.append(
                f"{label}: {format_duration(window.hop_us)} does not divide a day, so the grid hangs on its origin,"
                f" {format_instant(window.align_us)} here (align_to changes it)"
            )
        if isinstance(window, model.Grid) and window.hop_us > window.size_us:
            found.append(f"{label}: hop exceeds size, so events in the gaps count in no window")
    for name, ordering in job.orderings:
        if isinstance(ordering, model.StreamAnalyticsOrdering) and job.input(name).timestamp_by is None:
            found.append(f"{name}: without timestamp_by the ordering policy does not apply")
        if (
            isinstance(ordering, model.StreamInsightOrdering)
            and ordering.every_events is None
            and ordering.every_us is None
            and ordering.import_from is None
        ):
            found.append(f"{name}: nothing advances time but punctuations in the log")
    return found


def _input_words(source: model.Input, ordering: model.Ordering) -> list[str]:
    if isinstance(ordering, model.StreamAnalyticsOrdering):
        return _stream_analytics_words(source, ordering)
    if isinstance(ordering, model.AtlasOrdering):
        return _atlas_words(source, ordering)
    return _stream_insight_words(source, ordering)


def _stream_analytics_words(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    if source.timestamp_by is None:
        return ["events count at their arrival time; no ordering policy applies."]
    adjust = ordering.action == "adjust"
    timeline = "input partition" if not source.over else f"input partition and ({', '.join(source.over)})"
    words = [f"event time is {source.timestamp_by}; each {timeline} has a watermark of its own."]
    if ordering.early_arrival_us is None:
        words.append("no early guard: an event from the far future is taken at its word.")
    else:
        early = format_duration(ordering.early_arrival_us)
        words.append(f"an event more than {early} ahead of its arrival is dropped as early and moves no watermark.")
    if ordering.late_arrival_us is None:
        words.append("no event is too late.")
    else:
        late = format_duration(ordering.late_arrival_us)
        fate = f"counts at its arrival minus {late}" if adjust else "is dropped"
        words.append(f"an event more than {late} behind its arrival is late and {fate}.")
    disorder = format_duration(ordering.out_of_order_us)
    fate = "counts at the watermark" if adjust else "is dropped"
    words.append(
        f"the watermark is the greatest time seen minus {disorder}; an event below it is out of order and {fate}."
    )
    return words


def _atlas_words(source: model.Input, ordering: model.AtlasOrdering) -> list[str]:
    if ordering.boundary == "processing_time":
        return ["windows are those of the arrival time; nothing is ever late."]
    lateness = format_duration(ordering.allowed_lateness_us)
    return [
        f"event time is {source.timestamp_by or 'the arrival time'}; the watermark is the least over the input's"
        " partitions of the greatest event time each has seen; a partition not yet heard holds it back.",
        f"a window closes once the watermark reaches its end plus {lateness}; a document for a closed window is late,"
        " misses it, and goes to the dead letters.",
    ]


def _stream_insight_words(source: model.Input, ordering: model.StreamInsightOrdering) -> list[str]:
    words = [f"start time is {source.timestamp_by or 'the arrival time'}; the whole input is one timeline."]
    delay = format_duration(ordering.delay_us)
    if ordering.every_events is not None:
        words.append(f"time advances after every {ordering.every_events} event(s), to the last start minus {delay}.")
    if ordering.every_us is not None:
        every = format_duration(ordering.every_us)
        words.append(f"time advances when start times have moved by {every}, to the last start minus {delay}.")
    if ordering.import_from is not None:
        words.append(f"time also advances with input {ordering.import_from}.")
    if ordering.action == "drop":
        words.append("an event before the current time is dropped.")
    else:
        words.append("an event before the current time begins there if it reaches beyond it; else it is dropped.")
    return words


def _window_words(window: model.Window, profile: str) -> str:
    ends = "(start, end]" if profile == "stream_analytics" else "[start, end)"
    match window:
        case model.Grid(size_us=size_us, hop_us=hop_us) if size_us == hop_us:
            return f"Windows: tumbling, {format_duration(size_us)}, {ends}."
        case model.Grid(size_us=size_us, hop_us=hop_us):
            return f"Windows: hopping, {format_duration(size_us)} every {format_duration(hop_us)}, {ends}."
        case model.Sliding(size_us=size_us):
            return f"Windows: sliding, {format_duration(size_us)}, one row whenever the content changes."
        case model.Session(timeout_us=timeout_us, max_duration_us=None):
            return f"Windows: sessions that end {format_duration(timeout_us)} after their last event."
        case model.Session(timeout_us=timeout_us, max_duration_us=int(longest_us)):
            return (
                f"Windows: sessions that end {format_duration(timeout_us)} after their last event, or at a check point"
                f" every {format_duration(longest_us)} once they are that old."
            )
        case model.Snapshot():
            return "Windows: snapshots."
        case model.Count(n=n):
            return f"Windows: runs of {n} distinct start times."
        case model.AnyOf(members=members):
            return " ".join(f"{label} is: {_window_words(member, profile)}" for label, member in members)
    raise AssertionError(window)
