"""MongoDB Atlas Stream Processing in plain sentences: the policy, and what its documents leave open."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.time import SECOND, format_duration
from pipelines.job.describe.shared import tie_ambiguities
from pipelines.job.limits import job_windows

CLOSED = "and was closed by the watermark, a punctuation or (boundary: processing_time) a later arrival"

_DEFAULT_LATENESS_US = 3 * SECOND


def policy_words(source: model.Input, ordering: model.AtlasOrdering) -> list[str]:
    """The ordering policy of one input."""
    if ordering.boundary == "processing_time":
        return ["windows are those of the arrival time; nothing is ever late."]
    lateness = format_duration(ordering.allowed_lateness_us)
    words = [
        f"event time is {source.timestamp_by or 'the arrival time'}; a document without one is dropped, to the dead"
        " letters.",
        f"the watermark is the least over {_partitions(source)} of the greatest event time each has seen; one that is"
        " not yet heard holds it back, and so does one that fell silent.",
        f"a window closes once the watermark reaches its end plus {lateness}; a document for a closed window is late,"
        " misses it, and goes to the dead letters; it still counts in those of its windows that are open.",
        "a punctuation in the log raises the watermark to its time and closes every window that ends by then, whatever"
        " the lateness.",
        "there is no early guard: one document from the far future closes every window before it.",
    ]
    if ordering.idle_timeout_us is not None or ordering.partition_idle_timeout_us is not None:
        words.append("idle timeouts close nothing by themselves: the closes that happened are punctuations in the log.")
    return words


def _partitions(source: model.Input) -> str:
    return "the input's partitions" if source.partitions is None else f"{source.partitions} partition(s)"


def session_words(job: model.Job) -> list[str]:
    """What is late where the windows are sessions: they have no end that is known beforehand."""
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
            "When a processing-time window closes is said by the server's clock alone."
            " Tailrace closes it when a later arrival time is at or past its end."
        ]
    found = []
    if ordering.allowed_lateness_us == _DEFAULT_LATENESS_US:
        found.append(
            "allowedLateness left out: 3s by the reference of the window stages, nothing by the tables of the page on"
            " windows. Tailrace takes 3s; write allowed_lateness: 0s for the tables' behaviour."
        )
    if ordering.idle_timeout_us is not None:
        found.append(
            "idleTimeout has three descriptions that close at different times, and all read the server's clock."
            " Tailrace derives no close: it takes those that the log holds as punctuations."
        )
        found.append(
            "The watermark after an idle close with several windows open is not given."
            " Tailrace takes the time that the punctuation carries."
        )
    if source.partitions != 1:
        found.append(
            "Whether a partition that was never heard holds the watermark back is not said."
            " Tailrace lets it, for every partition that the log holds or 'partitions' counts."
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
    found = ["Whether a window without documents has a result is not said. Tailrace writes no row."]
    if window.offset_us:
        found.append(
            "offsetFromUtc 'shifts the boundaries ahead of UTC', which may mean later or earlier."
            " Tailrace adds the offset: boundaries lie later by it."
        )
    if window.hop_us > window.size_us:
        found.append(
            "Whether documents in the gap between two hops are dead letters is not said."
            " Tailrace neither counts them nor calls them late."
        )
    if window.hop_us < window.size_us and event_time:
        found.append(
            "Whether a document that is late for some of its windows counts in the others is not said."
            " Tailrace counts it there: verdict partial."
        )
    return found


def _session_ambiguities(event_time: bool) -> list[str]:
    found = [
        "Documents exactly the gap apart: the reference says less than the gap for one session, the page on windows"
        " says within gap plus lateness. Tailrace makes two sessions."
    ]
    if event_time:
        found.append(
            "When a session closes: the reference gives its last document plus gap plus lateness, its own example"
            " leaves the lateness out. Tailrace adds it; a document below the watermark that fits no open session is"
            " late, for lateness does not protect one that would open a session."
        )
    return found
