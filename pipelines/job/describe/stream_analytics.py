"""Azure Stream Analytics in plain sentences: the policy, and what its documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.steps import Joined, Windowed
from pipelines.core.time import DAY, SECOND, format_duration
from pipelines.job.describe.shared import origin_ambiguities, tie_ambiguities
from pipelines.job.limits import job_windows

CLOSED = "before every partition's greatest time minus its out_of_order (with over: its own timeline's)"

_PORTAL_LATE_US = 5 * SECOND


def policy_words(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    """The ordering policy of one input, test by test, in the order in which the tests are made."""
    if source.timestamp_by is None:
        return ["events count at their arrival time; no ordering policy applies."]
    timeline = "input partition" if not source.over else f"input partition and ({', '.join(source.over)})"
    invalid = "an event whose event time is null or no instant is dropped"
    if source.over:
        invalid += f", and so is one with a null in ({', '.join(source.over)})"
    return [
        f"event time is {source.timestamp_by}; each {timeline} has a watermark of its own.",
        f"{invalid}.",
        _early_words(ordering),
        _late_words(ordering),
        _disorder_words(ordering),
    ]


def _early_words(ordering: model.StreamAnalyticsOrdering) -> str:
    if ordering.early_arrival_us is None:
        return "no early guard: an event from the far future is taken at its word."
    early = format_duration(ordering.early_arrival_us)
    return (
        f"an event more than {early} ahead of its arrival is dropped as early, whatever the action, and moves no"
        " watermark."
    )


def _late_words(ordering: model.StreamAnalyticsOrdering) -> str:
    if ordering.late_arrival_us is None:
        return "no event is too late."
    late = format_duration(ordering.late_arrival_us)
    fate = f"counts at its arrival minus {late}" if ordering.action == "adjust" else "is dropped"
    return f"an event more than {late} behind its arrival is late and {fate}."


def _disorder_words(ordering: model.StreamAnalyticsOrdering) -> str:
    disorder = format_duration(ordering.out_of_order_us)
    fate = "is dropped"
    if ordering.action == "adjust":
        again = "" if ordering.late_arrival_us is None else "; a late event may be moved a second time so"
        fate = f"counts at the watermark{again}"
    return f"the watermark is the greatest time seen minus {disorder}; an event below it is out of order and {fate}."


def ordering_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    """What the documents leave open about one input's ordering policy."""
    if source.timestamp_by is None:
        return []
    return [
        "What becomes of an event whose TIMESTAMP BY is null is not described."
        " Tailrace drops it (invalid_time), as the product drops what it cannot convert.",
        *_early_ambiguities(source, ordering),
        *_late_ambiguities(source, ordering),
        *_timeline_ambiguities(source, ordering),
    ]


def _early_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    found = []
    if ordering.early_arrival_us is None:
        found.append(
            "The product has no setting that switches its early guard off: its pages only tell what would happen"
            " without one. Tailrace then takes every event time at its word."
        )
        return found
    if ordering.action == "adjust":
        found.append(
            "Early events under Adjust: the page on time handling drops them always, the page on data errors and the"
            " metric's description let the one action decide, and no page says what an adjusted one would count at."
            " Tailrace drops them."
        )
    if source.over:
        found.append(
            "Whether the early guard acts on substreams is not said."
            " Tailrace applies it unchanged: it compares an event with its own arrival only."
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
            "An out-of-order tolerance above the late tolerance: one page says that the smaller of the two is what"
            " counts. Tailrace makes both tests as they stand, the late one first."
        )
    found.append(
        "The watermark of a silent partition is an estimate of the product's own clock, which no log holds."
        " Tailrace takes it to stay behind the next real arrival, where it moves no event."
    )
    return found


def _timeline_ambiguities(source: model.Input, ordering: model.StreamAnalyticsOrdering) -> list[str]:
    found = []
    if ordering.action == "drop":
        found.append(
            "An event exactly at the watermark: the pages speak of lower times only and show no example."
            " Tailrace keeps it: out of order is strictly below."
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
        found.append("A window without events in a query without keys: nothing is said. Tailrace writes no row.")
    found += origin_ambiguities(job, "is on no page")
    for kind in _join_kinds(job):
        found += _join_ambiguities(kind)
    if job.end_of_log == "hold":
        found.append(
            "A window that ends exactly at the watermark: the pages emit up to the watermark, though an event at it may"
            " still come and belongs inside. Tailrace holds it back until the watermark is past its end."
        )
    return list(dict.fromkeys([*found, *tie_ambiguities(job)]))


def _window_ambiguities(window: model.SimpleWindow) -> list[str]:
    match window:
        case model.Grid():
            return _grid_ambiguities(window)
        case model.Sliding():
            return [
                "When a sliding window has a row: an older page says only as an event enters, the newer ones as it"
                " enters and as it leaves. Tailrace follows the newer; its start is outside."
            ]
        case model.Session():
            return [
                "An event exactly the timeout after the last one: the page's formula keeps it in the session, the code"
                " of Trill, the product's engine, opens a new one. Tailrace follows the page.",
                "An event exactly on a closing check point: no page says, Trill's code puts it into the next session."
                " Tailrace counts it in the session that closes, whose end is inside.",
                "A session whose first event is what closes the session before: in a local run of the product, where"
                " time moves with events alone, its greatest duration counts from its second event. In a live run time"
                " moves between events, so Tailrace counts it as for any other session.",
            ]
    return []


def _grid_ambiguities(window: model.Grid) -> list[str]:
    found = []
    if window.offset_us:
        found.append(
            "The sign of a window's offset is shown by one example only."
            " Tailrace adds it to the grid and to window_end: -1ms makes a window end 1ms earlier."
        )
    if window.hop_us > window.size_us:
        found.append(
            "A hop greater than the size is not discussed."
            " Tailrace leaves the gap: an event in it keeps its verdict and counts in no window."
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
        " pages speak of elapsed time. Tailrace counts boundaries."
    ]
    if kind == "left":
        found.append(
            "The time of a left event without a partner is given as a duration after its own, though matching counts"
            " boundaries. Tailrace takes the duration, and the event's own time if that would lie before it."
        )
    return found
