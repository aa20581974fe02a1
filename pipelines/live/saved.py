"""What the live run saves between two batches, and what a batch hands over: the classes that its encoding lists."""

from __future__ import annotations

from pipelines.core import model
from pipelines.core.errors import DataRefused, EnvironmentUnfit, JobFileError, UsageError
from pipelines.core.model import Job
from pipelines.live.atlas import AtlasPolicy, InputTime
from pipelines.live.engine import LiveEngine
from pipelines.live.joins import JoinState, SideRow
from pipelines.live.query import WindowQuery
from pipelines.live.state.arrivals import ArrivalQueue, Event, LogOutOfOrder, Partitions
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.encoding import Encoding, NotOurEncoding
from pipelines.live.state.messages import AnnouncedCommit, Message, PendingCommits
from pipelines.live.state.output import Output, Slice, WindowResult
from pipelines.live.state.rows import Row
from pipelines.live.steps.slices import Reach, SlicedRows
from pipelines.live.stream_analytics.ordering import StreamAnalyticsPolicy
from pipelines.live.stream_insight import InputState, StartEdge, StreamInsightPolicy
from pipelines.live.windows.by_column import ColumnBuffer
from pipelines.live.windows.end_aligned import EndAlignedBuffer, SessionBuffer
from pipelines.live.windows.gap_sessions import GapSessions, OpenSession
from pipelines.live.windows.lifetimes import LifetimeBuffer
from pipelines.live.windows.start_aligned import StartAlignedBuffer

_JOB = (
    model.StreamAnalyticsOrdering,
    model.AtlasOrdering,
    model.StreamInsightOrdering,
    model.Grid,
    model.Sliding,
    model.Session,
    model.Snapshot,
    model.Count,
    model.Join,
    model.Decision,
)
_POLICIES = (StreamAnalyticsPolicy, AtlasPolicy, InputTime, StreamInsightPolicy, InputState, StartEdge)
_ARRIVALS = (Partitions, ArrivalQueue, Event, PendingCommits, AnnouncedCommit, Message)
_WINDOWS = (ColumnBuffer, EndAlignedBuffer, SessionBuffer, GapSessions, OpenSession, LifetimeBuffer, StartAlignedBuffer)
_QUERIES = (LiveEngine, WindowQuery, JoinState, SideRow, Row, SlicedRows, Reach, *_WINDOWS)
_OUTPUTS = (Output, Slice, WindowResult)
_ERRORS = (UsageError, JobFileError, DataRefused, EnvironmentUnfit, LogOutOfOrder)
ENCODING = Encoding((*_JOB, *_POLICIES, *_ARRIVALS, *_QUERIES, *_OUTPUTS, *_ERRORS))


def engine_of(state: bytes | None, job: Job) -> LiveEngine:
    """The engine that was saved, or a new one; :class:`DataRefused` for bytes that this version has not written."""
    if state is None:
        return LiveEngine.new(job)
    try:
        engine = ENCODING.decode(state, CompiledJob(job))
        if not isinstance(engine, LiveEngine):
            raise NotOurEncoding(f"it is a {type(engine).__name__}")
    except NotOurEncoding as error:
        raise DataRefused(
            f"the saved state of the stream of {job.name} is damaged or of another version of Tailrace: {error}",
            hint="run 'tailrace stream' with --restart to start again at the first commit of the log",
        ) from None
    return engine


def output_of(body: bytes, job: Job) -> Output:
    """The output of a batch."""
    output = ENCODING.decode(body, CompiledJob(job))
    assert isinstance(output, Output)
    return output
