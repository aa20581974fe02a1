"""The complete truth: what the query gives where every event counts at its own time, none dropped or moved.

It is the same job without a policy, over the log without punctuations, and it emits every window. An event that counts
under no setting (without a readable time or key, an edge without a partner) does not count in it either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import DataFrame

from pipelines.core.model import AtlasOrdering, Job, Ordering, StreamAnalyticsOrdering, StreamInsightOrdering
from pipelines.plan.initial_state import Clock, InitialState, InitialStates

_BEYOND_US = 2**60
"""Longer than the instants that tables can hold are apart."""
_NEVER_HEARD = -1


def truth_of(job: Job) -> Job:
    """The job whose policy drops and moves nothing, in a log of events alone."""
    orderings = tuple((name, _without_policy(policy)) for name, policy in job.orderings)
    inputs = tuple(replace(part, partitions=None) for part in job.inputs) if job.profile == "atlas" else job.inputs
    return replace(job, orderings=orderings, inputs=inputs, end_of_log="flush")


def _without_policy(policy: Ordering) -> Ordering:
    match policy:
        case StreamAnalyticsOrdering():
            # `drop`: no event is moved to a watermark, which is what read ranges ask
            return StreamAnalyticsOrdering(None, None, _BEYOND_US, "drop")
        case AtlasOrdering():
            return AtlasOrdering(allowed_lateness_us=_BEYOND_US)
        case StreamInsightOrdering():
            return StreamInsightOrdering("drop")


def without_punctuations(arrivals: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The events alone: a punctuation closes windows, whatever the policy."""
    return {name: frame.filter("punctuation_time IS NULL") for name, frame in arrivals.items()}


def truth_states(job: Job) -> InitialStates | None:
    """In atlas the watermark waits for all partitions (A3): it waits for one that is never heard."""
    if job.profile != "atlas":
        return None
    state = InitialState(frozenset({_NEVER_HEARD}), (), (), Clock(), Clock(), None)
    return {part.name: state for part in job.inputs}
