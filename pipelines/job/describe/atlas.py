"""MongoDB Atlas Stream Processing in plain sentences: the policy, and what its documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.time import SECOND, format_duration
from pipelines.job.describe.shared import tie_ambiguities
from pipelines.job.limits import job_windows

CLOSED = "and that the watermark, a punctuation or (boundary: processing_time) a later arrival closed"

_DEFAULT_LATENESS_US = 3 * SECOND


def policy_sentences(source: model.Input, ordering: model.AtlasOrdering) -> list[str]:
    """The ordering policy of one input."""
    if ordering.boundary == "processing_time":
        return ["windows are those of the arrival time; nothing is ever late."]
    lateness = format_duration(ordering.allowed_lateness_us)
    sentences = [
        f"event time is {source.timestamp_by or 'the arrival time'}; a document without one is dropped and goes to"
        " the dead letters.",
        f"the watermark is the least over {_partitions(source)} of each one's greatest event time; it waits for a"
        " partition without an event so far, and for one that fell silent.",
        f"a window closes once the watermark reaches its end plus {lateness}; a document for a closed window is late,"
        " misses it, and goes to the dead letters; it counts in those of its windows that are open.",
        "a punctuation in the log raises the watermark to its time and closes every window that ends by then, whatever"
        " the lateness.",
        "there is no early guard: one document from the far future closes every window before it.",
    ]
    if ordering.idle_timeout_us is not None or ordering.partition_idle_timeout_us is not None:
        sentences.append(
            "idle timeouts close nothing by themselves: the closes that happened are punctuations in the log."
        )
    return sentences


def _partitions(source: model.Input) -> str:
    return "the input's partitions" if source.partitions is None else f"{source.partitions} partition(s)"


def session_sentences(job: model.Job) -> list[str]:
    """When a document is late where the windows are sessions, whose end is not known beforehand."""
    sessions = any(isinstance(window, model.Session) for _, window in job_windows(job))
    if not sessions or not _in_event_time(job):
        return []
    return ["A document below the watermark that fits no open session is late; one at it opens a session."]


def _in_event_time(job: model.Job) -> bool:
    return any(
        isinstance(ordering, model.AtlasOrdering) and ordering.boundary == "event_time" for _, ordering in job.orderings
    )


def ordering_ambiguities(source: model.Input, ordering: model.AtlasOrdering) -> list[str]:
    """What the documents leave open about one input's ordering policy."""
    if ordering.boundary == "processing_time":
        return [
            "Only the server's clock determines when a processing-time window closes."
            " Tailrace closes it at the first later arrival time at or after its end."
        ]
    found = []
    if ordering.allowed_lateness_us == _DEFAULT_LATENESS_US:
        found.append(
            "allowedLateness left out: 3s by the reference of the window stages, 0s by the tables of the page on"
            " windows. Tailrace takes 3s; write allowed_lateness: 0s for the tables' behaviour."
        )
    if ordering.idle_timeout_us is not None:
        found.append(
            "idleTimeout has three descriptions that close at different times, and all read the server's clock."
            " Tailrace derives no close: it takes those that the log contains as punctuations."
        )
        found.append(
            "The watermark after an idle close with several windows open is not documented."
            " Tailrace takes the time of the punctuation."
        )
    if source.partitions != 1:
        found.append(
            "Whether the watermark waits for a partition without any event is not documented."
            " Tailrace waits for every partition of the log, or for all that 'partitions' declares."
        )
    return found


def query_ambiguities(job: model.Job) -> list[str]:
    """What the documents leave open about the windows."""
    event_time = _in_event_time(job)
    found = []
    for _, window in job_windows(job):
        if isinstance(window, model.Grid):
            found += _grid_ambiguities(window, event_time)
        if isinstance(window, model.Session):
            found += _session_ambiguities(event_time)
    return list(dict.fromkeys([*found, *tie_ambiguities(job)]))


def _grid_ambiguities(window: model.Grid, event_time: bool) -> list[str]:
    found = ["Whether a window without documents has a result is not documented. Tailrace writes no row."]
    if window.offset_us:
        found.append(
            "offsetFromUtc 'shifts the boundaries ahead of UTC', which may mean later or earlier."
            " Tailrace adds the offset: boundaries lie later by it."
        )
    if window.hop_us > window.size_us:
        found.append(
            "Whether documents in the gap between two hops are dead letters is not documented."
            " Tailrace does not count them, and they are not late."
        )
    if window.hop_us < window.size_us and event_time:
        found.append(
            "Whether a document that is late for some of its windows counts in the others is not documented."
            " Tailrace counts it in the others, with the verdict partial."
        )
    return found


def _session_ambiguities(event_time: bool) -> list[str]:
    found = [
        "Documents exactly the gap apart: by the reference a session needs less than the gap, by the page on windows"
        " at most gap plus lateness. Tailrace makes two sessions."
    ]
    if event_time:
        found.append(
            "When a session closes: the reference adds gap and lateness to its last document, its example only the gap."
            " Tailrace adds both. A document below the watermark that fits no open session is late: the lateness does"
            " not apply to a document that would open a session."
        )
    return found
