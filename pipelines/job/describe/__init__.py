"""A job's policy in plain sentences, remarks on it, and the questions that the product's documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.time import DAY, format_duration, format_instant
from pipelines.job.describe import atlas, stream_analytics, stream_insight
from pipelines.job.describe.shared import window_sentences
from pipelines.job.describe.sources import source_sentences
from pipelines.job.describe.steps import reference_sentences, script_remarks, step_sentences
from pipelines.job.limits import job_windows
from pipelines.plan.bounded_reads import why_whole_log
from pipelines.plan.read_range import reach_of
from pipelines.plan.snapshots import Lookup, lookups


def describe_policy(job: model.Job) -> list[str]:
    """The policy, one sentence an entry: each input's ordering, the query, the windows, the end of the log."""
    sentences = []
    for source in job.inputs:
        sentences += [f"{source.name}: {text}" for text in _input_sentences(source, job.ordering(source.name))]
    if job.steps is not None:
        sentences += [*step_sentences(job, job.steps), *reference_sentences(job)]
    else:
        sentences += _query_sentences(job.window_query)
        sentences += window_sentences(job.window_query.window, job.profile)
    sentences += atlas.session_sentences(job)
    return [*sentences, _end_of_log_sentence(job)]


def describe_read_range(job: model.Job) -> list[str]:
    """The read-range formula with the job's numbers, and why an end is open."""
    reach = reach_of(job)
    sentences = [f"An output range [from, to) reads arrivals {reach.rule}.", *(f"{why}." for why in reach.reasons)]
    sentences += map(_snapshots_sentence, lookups(job))
    if reach.before_us is None or reach.after_us is None:
        because = why_whole_log(job)
        sentences.append(
            "A plan reads less: the log's summary gives the initial state that earlier arrivals led to."
            if because is None
            else f"A summary of the log does not bound it: {because}."
        )
    return sentences


def ambiguities(job: model.Job) -> list[str]:
    """The questions about ``job`` that the product's documents leave open or contradict, and Tailrace's answers.

    One entry a question: what the documents state, then what Tailrace does. An entry that applies to some of the inputs
    begins with their names.
    """
    inputs: dict[str, list[str]] = {}
    for source in job.inputs:
        for text in _input_ambiguities(source, job.ordering(source.name)):
            inputs.setdefault(text, []).append(source.name)
    found = [text if len(names) == len(job.inputs) else f"{', '.join(names)}: {text}" for text, names in inputs.items()]
    match job.profile:
        case "stream_analytics":
            found += stream_analytics.query_ambiguities(job)
        case "atlas":
            found += atlas.query_ambiguities(job)
        case "stream_insight":
            found += stream_insight.query_ambiguities(job)
    return found


def remarks(job: model.Job) -> list[str]:
    """Settings that are allowed but rarely meant."""
    found = []
    for label, window in job_windows(job):
        if isinstance(window, model.Grid) and DAY % window.hop_us:
            found.append(
                f"{label}: {format_duration(window.hop_us)} does not divide a day, so the grid depends on its origin,"
                f" {format_instant(window.align_us)} here (align_to changes it)"
            )
        if isinstance(window, model.Grid) and window.hop_us > window.size_us:
            found.append(f"{label}: hop exceeds size, so events in the gaps count in no window")
    for name, ordering in job.orderings:
        if isinstance(ordering, model.StreamAnalyticsOrdering) and job.input(name).timestamp_by is None:
            found.append(f"{name}: without timestamp_by the ordering policy does not apply")
        if isinstance(ordering, model.StreamInsightOrdering) and not stream_insight.advances(ordering):
            found.append(f"{name}: nothing advances time but punctuations in the log")
    found += [sentence for part in job.logs for sentence in source_sentences(part)]
    return found if job.steps is None else [*found, *script_remarks(job.steps)]


def _input_sentences(source: model.Input, ordering: model.Ordering) -> list[str]:
    if isinstance(ordering, model.StreamAnalyticsOrdering):
        return stream_analytics.policy_sentences(source, ordering)
    if isinstance(ordering, model.AtlasOrdering):
        return atlas.policy_sentences(source, ordering)
    return stream_insight.policy_sentences(source, ordering)


def _input_ambiguities(source: model.Input, ordering: model.Ordering) -> list[str]:
    if isinstance(ordering, model.StreamAnalyticsOrdering):
        return stream_analytics.ordering_ambiguities(source, ordering)
    if isinstance(ordering, model.AtlasOrdering):
        return atlas.ordering_ambiguities(source, ordering)
    return stream_insight.ordering_ambiguities(source, ordering)


def _query_sentences(query: model.Query) -> list[str]:
    sentences = []
    if query.join is not None:
        sentences.append(_join_sentence(query.join))
    elif len(query.sources) > 1:
        sentences.append(f"{', '.join(query.sources)} are united after each is ordered by its own policy.")
    if query.where is not None:
        sentences.append(
            f"Only events with {query.where} count; the others still move the watermark and have a verdict."
        )
    return sentences


def _snapshots_sentence(one: Lookup) -> str:
    first = "the first" if one.back_us is None else f"the one in force at from - {format_duration(one.back_us)}"
    last = "the last" if one.ahead_us is None else f"the one in force at to + {format_duration(one.ahead_us)}"
    return f"It reads the snapshots of reference data {one.reference} from {first} to {last}."


def _join_sentence(join: model.Join) -> str:
    within = f"DATEDIFF({join.unit}, {join.left}, {join.right}) from {join.from_units} to {join.to_units}"
    keys = f"equal {', '.join(join.on)} and " if join.on else ""
    sentence = f"{join.left} and {join.right} are joined on {keys}{within}; a pair counts at the later of its two times"
    if join.kind == "inner":
        return f"{sentence}."
    at = f"{join.to_units} {join.unit}(s) after its time" if join.to_units > 0 else "at its own time"
    return f"{sentence}; an event of {join.left} without a match counts {at}."


def _end_of_log_sentence(job: model.Job) -> str:
    if job.end_of_log == "flush":
        return "Windows still open at the end of the log are emitted (end_of_log: flush)."
    closed = {
        "stream_analytics": stream_analytics.CLOSED,
        "atlas": atlas.CLOSED,
        "stream_insight": stream_insight.CLOSED,
    }[job.profile]
    return f"At the end of the log only windows that ended {closed} are emitted (end_of_log: hold)."
