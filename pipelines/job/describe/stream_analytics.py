"""Azure Stream Analytics in plain sentences: the policy, and what its documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.steps import Joined, Windowed
from pipelines.core.time import DAY, SECOND, format_duration
from pipelines.job.describe.shared import origin_ambiguities, tie_ambiguities
from pipelines.job.limits import job_windows

CLOSED = "before every partition's greatest time minus its out_of_order (with over: its own timeline's)"

_PORTAL_LATE_US = 5 * SECOND


def policy_sentences(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    """The ordering policy of one input, test by test, in the order of the tests."""
    if source.timestamp_by is None:
        return ["events count at their arrival time; no ordering policy applies."]
    timeline = "input partition" if not source.over else f"input partition and ({', '.join(source.over)})"
    invalid = "an event whose event time is null or not an instant is dropped"
    if source.over:
        invalid += f", and so is one with a null in ({', '.join(source.over)})"
    return [
        f"event time is {source.timestamp_by}; each {timeline} has a watermark of its own.",
        f"{invalid}.",
        _early_sentence(ordering),
        _late_sentence(ordering),
        _disorder_sentence(ordering),
    ]


def _early_sentence(ordering: model.StreamAnalyticsOrdering) -> str:
    if ordering.early_arrival_us is None:
        return "no early guard: an event from the far future counts at its own time."
    early = format_duration(ordering.early_arrival_us)
    return (
        f"an event more than {early} ahead of its arrival is dropped as early, whatever the action, and moves no"
        " watermark."
    )


def _late_sentence(ordering: model.StreamAnalyticsOrdering) -> str:
    if ordering.late_arrival_us is None:
        return "no event is too late."
    late = format_duration(ordering.late_arrival_us)
    effect = f"counts at its arrival minus {late}" if ordering.action == "adjust" else "is dropped"
    return f"an event more than {late} behind its arrival is late and {effect}."


def _disorder_sentence(ordering: model.StreamAnalyticsOrdering) -> str:
    disorder = format_duration(ordering.out_of_order_us)
    effect = "is dropped"
    if ordering.action == "adjust":
        again = "" if ordering.late_arrival_us is None else "; so a late event may be moved twice"
        effect = f"counts at the watermark{again}"
    return (
        f"the watermark is the greatest time so far minus {disorder}; an event below it is out of order and {effect}."
    )


def ordering_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    """What the documents leave open about one input's ordering policy."""
    if source.timestamp_by is None:
        return []
    return [
        "An event whose TIMESTAMP BY is null is not documented."
        " Tailrace drops it (invalid_time), as the product drops a value that it cannot convert.",
        *_early_ambiguities(source, ordering),
        *_late_ambiguities(source, ordering),
        *_timeline_ambiguities(source, ordering),
    ]


def _early_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    found = []
    if ordering.early_arrival_us is None:
        found.append(
            "The product has no setting that switches its early guard off: its pages only describe what would happen"
            " without one. Tailrace then accepts every event time."
        )
        return found
    if ordering.action == "adjust":
        found.append(
            "Early events under Adjust: the page on time handling always drops them, the page on data errors and the"
            " metric's description apply the action, and no page gives the time of an adjusted one."
            " Tailrace drops them."
        )
    if source.over:
        found.append(
            "Whether the early guard applies to substreams is not documented."
            " Tailrace applies it: it compares an event with its own arrival only."
        )
    return found


def _late_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    late_us = ordering.late_arrival_us
    if late_us is None:
        return []
    late = format_duration(late_us)
    found = []
    if late_us == _PORTAL_LATE_US:
        found.append(
            "The late tolerance left unset: 5s in the portal, without bound in a job definition that lacks the"
            " property. Tailrace takes 5s; write late_arrival: unbounded if the definition lacks it."
        )
    if 20 * DAY < late_us < 21 * DAY:
        found.append(
            "The greatest late tolerance is 20 days on one page, 20d23h59m59s on another. Tailrace accepts the greater."
        )
    if source.over:
        found.append(
            f"late_arrival with over: the reference compares each event with its own arrival, one sentence elsewhere"
            f" lets substreams be at most {late} apart in event time. Tailrace compares with the arrival."
        )
    if ordering.out_of_order_us > late_us:
        found.append(
            "An out-of-order tolerance above the late tolerance: by one page the smaller of the two applies."
            " Tailrace applies each in its own test, the late test first."
        )
    found.append(
        "The watermark of a silent partition is an estimate by the product's own clock, which no log contains."
        " Tailrace assumes that it is below the next arrival, where it moves no event."
    )
    return found


def _timeline_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    found = []
    if ordering.action == "drop":
        found.append(
            "An event exactly at the watermark: the pages mention lower times only and show no example."
            " Tailrace accepts it: an event is out of order if it is strictly below."
        )
    if source.partitions != 1:
        found.append(
            "Several input partitions in a query that does not partition: one page keeps a watermark for each,"
            " another judges disorder on the merged stream. Tailrace keeps one for each."
        )
    return found


def query_ambiguities(job: model.Job) -> list[str]:
    """What the documents leave open about the query, its windows and the end of the log."""
    found = []
    for _, window in job_windows(job):
        found += _window_ambiguities(window)
    grids = [window for _, window in job_windows(job) if isinstance(window, model.Grid)]
    if grids and _has_window_without_keys(job):
        found.append("A window without events in a query without keys is not documented. Tailrace writes no row.")
    found += origin_ambiguities(job, "is on no page")
    for kind in _join_kinds(job):
        found += _join_ambiguities(kind)
    if job.end_of_log == "hold":
        found.append(
            "A window that ends exactly at the watermark: the pages emit up to the watermark, but an event at it may"
            " still come and count in it. Tailrace emits it once the watermark is after its end."
        )
    return list(dict.fromkeys([*found, *tie_ambiguities(job)]))


def _window_ambiguities(window: model.SimpleWindow) -> list[str]:
    match window:
        case model.Grid():
            return _grid_ambiguities(window)
        case model.Sliding():
            return [
                "When a sliding window has a row: by an older page only as an event enters, by newer ones also as it"
                " leaves. Tailrace follows the newer pages; the start is outside the window."
            ]
        case model.Session():
            return [
                "An event exactly the timeout after the last one: by the page's formula it extends the session, by the"
                " code of Trill, the product's engine, it opens a new one. Tailrace follows the page.",
                "An event exactly on a closing check point: on no page; Trill's code puts it into the next session."
                " Tailrace counts it in the session that closes, which includes its end.",
                "A session whose first event closes the session before: in a local run of the product, where time"
                " advances with events only, its greatest duration counts from its second event. In a live run time"
                " also advances between events, so Tailrace counts it as for any other session.",
            ]
    return []


def _grid_ambiguities(window: model.Grid) -> list[str]:
    found = []
    if window.offset_us:
        found.append(
            "One example only shows the sign of a window's offset."
            " Tailrace adds it to the grid and to window_end: -1ms makes a window end 1ms earlier."
        )
    if window.hop_us > window.size_us:
        found.append(
            "A hop greater than the size is not documented."
            " Tailrace leaves the gap: an event in it has a verdict and counts in no window."
        )
    return found


def _has_window_without_keys(job: model.Job) -> bool:
    if job.steps is None:
        return not job.window_query.group_by
    return any(isinstance(rows, Windowed) and not rows.keys for _, rows in job.steps.relations())


def _join_kinds(job: model.Job) -> list[str]:
    if job.steps is None:
        return [] if job.window_query.join is None else [job.window_query.join.kind]
    return [rows.kind for _, rows in job.steps.relations() if isinstance(rows, Joined)]


def _join_ambiguities(kind: str) -> list[str]:
    found = [
        "A join's bound: DATEDIFF counts boundaries crossed, so 12:00:59 and 12:01:00 are a minute apart, while other"
        " pages describe elapsed time. Tailrace counts boundaries."
    ]
    if kind == "left":
        found.append(
            "The time of a left event without a match is a duration after its own, though matching counts boundaries."
            " Tailrace takes the duration, and the event's own time if that would be before it."
        )
    return found
