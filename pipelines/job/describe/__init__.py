"""A job's policy said back in plain sentences, what deserves a second look, and what the product leaves open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.time import DAY, format_duration, format_instant
from pipelines.job.describe import atlas, stream_analytics, stream_insight
from pipelines.job.describe.shared import window_words
from pipelines.job.describe.steps import describe_references, describe_steps, script_remarks
from pipelines.job.limits import job_windows
from pipelines.plan.bounded_reads import why_whole_log
from pipelines.plan.read_range import reach_of
from pipelines.plan.snapshots import Lookup, lookups

__all__ = ["ambiguities", "policy_in_words", "read_range_in_words", "remarks"]


def describe_policy(job: model.Job) -> list[str]:
    """The whole policy, one sentence an entry: each input's ordering, the query, the windows, the end of the log."""
    sentences = []
    for source in job.inputs:
        sentences += [f"{source.name}: {text}" for text in _input_words(source, job.ordering(source.name))]
    if job.steps is not None:
        sentences += [*describe_steps(job, job.steps), *describe_references(job)]
    else:
        sentences += [*_query_words(job.window_query), *window_words(job.window_query.window, job.profile)]
    sentences += atlas.session_words(job)
    return [*sentences, _end_of_log_words(job)]


def describe_read_range(job: model.Job) -> list[str]:
    """The read-range formula with the job's numbers, and why it is open where it is."""
    reach = reach_of(job)
    told = [f"An output range [from, to) reads arrivals {reach.rule}.", *(f"{why}." for why in reach.reasons)]
    told += map(_snapshots_words, lookups(job))
    if reach.before_us is None or reach.after_us is None:
        because = why_whole_log(job)
        told.append(
            "A plan, which has the log to ask, reads less: it carries in what earlier arrivals left behind, from the"
            " log's summary."
            if because is None
            else f"No summary of the log makes it less: {because}."
        )
    return told


def ambiguities(job: model.Job) -> list[str]:
    """What the product's own documents leave open or contradict, as far as ``job`` is touched, and what is done here.

    One entry a question: what the documents say, then how Tailrace settles it. An entry that concerns some of the
    inputs only names them first.
    """
    concerned: dict[str, list[str]] = {}
    for source in job.inputs:
        for text in _input_ambiguities(source, job.ordering(source.name)):
            concerned.setdefault(text, []).append(source.name)
    everywhere = len(job.inputs)
    found = [text if len(names) == everywhere else f"{', '.join(names)}: {text}" for text, names in concerned.items()]
    match job.profile:
        case "stream_analytics":
            found += stream_analytics.query_ambiguities(job)
        case "atlas":
            found += atlas.query_ambiguities(job)
        case "stream_insight":
            found += stream_insight.query_ambiguities(job)
    return found


def remarks(job: model.Job) -> list[str]:
    """What is allowed but deserves a second look."""
    found = []
    for label, window in job_windows(job):
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
        if isinstance(ordering, model.StreamInsightOrdering) and not stream_insight.advances(ordering):
            found.append(f"{name}: nothing advances time but punctuations in the log")
    return found if job.steps is None else [*found, *script_remarks(job.steps)]


def _input_words(source: model.Input, ordering: model.Ordering) -> list[str]:
    if isinstance(ordering, model.StreamAnalyticsOrdering):
        return stream_analytics.policy_words(source, ordering)
    if isinstance(ordering, model.AtlasOrdering):
        return atlas.policy_words(source, ordering)
    return stream_insight.policy_words(source, ordering)


def _input_ambiguities(source: model.Input, ordering: model.Ordering) -> list[str]:
    if isinstance(ordering, model.StreamAnalyticsOrdering):
        return stream_analytics.ordering_ambiguities(source, ordering)
    if isinstance(ordering, model.AtlasOrdering):
        return atlas.ordering_ambiguities(source, ordering)
    return stream_insight.ordering_ambiguities(source, ordering)


def _query_words(query: model.Query) -> list[str]:
    words = []
    if query.join is not None:
        words.append(_join_words(query.join))
    elif len(query.sources) > 1:
        words.append(f"{', '.join(query.sources)} are put together, each ordered by its own policy first.")
    if query.where is not None:
        words.append(f"Only events with {query.where} count; the others still move the watermark and have a verdict.")
    return words


def _snapshots_words(one: Lookup) -> str:
    back = "the first on" if one.back_us is None else f"the one that holds at from - {format_duration(one.back_us)}"
    until = "the last" if one.ahead_us is None else f"to + {format_duration(one.ahead_us)}"
    return f"Of reference data {one.reference} it reads the snapshots from {back} until {until}."


def _join_words(join: model.Join) -> str:
    within = f"DATEDIFF({join.unit}, {join.left}, {join.right}) from {join.from_units} to {join.to_units}"
    keys = f"equal {', '.join(join.on)} and " if join.on else ""
    words = f"{join.left} and {join.right} are joined on {keys}{within}; a pair counts at the later of its two times"
    if join.kind == "inner":
        return f"{words}."
    reach = f"{join.to_units} {join.unit}(s) after its time" if join.to_units > 0 else "at its own time"
    return f"{words}; an event of {join.left} without a partner counts {reach}."


def _end_of_log_words(job: model.Job) -> str:
    if job.end_of_log == "flush":
        return "Windows still open at the end of the log are emitted (end_of_log: flush)."
    closed = {
        "stream_analytics": stream_analytics.CLOSED,
        "atlas": atlas.CLOSED,
        "stream_insight": stream_insight.CLOSED,
    }[job.profile]
    return f"Windows still open at the end of the log are held back (end_of_log: hold): emitted is what ended {closed}."
