"""What names an arrival or a window result, and lists of such names in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.core.model import Arrival, Job, output_name
from pipelines.core.time import format_instant

ArrivalId = tuple[str, int | None, int]
"""Input, input partition and sequence, which identify an arrival."""


def key_names(job: Job) -> list[str]:
    """The columns that identify a window result of ``job``."""
    return ["window_start", "window_end", "window_id", *(output_name(column) for column in job.window_query.group_by)]


def id_of(one: Arrival) -> ArrivalId:
    """What identifies an arrival."""
    return one.input, one.input_partition, one.sequence


def event_id(one: Arrival) -> str:
    """``input/partition/sequence``, as ``tailrace why --event`` takes it; for a punctuation for all, ``all``."""
    partition = "all" if one.input_partition is None else one.input_partition
    return f"{one.input}/{partition}/{one.sequence}"


def event_description(one: Arrival) -> str:
    """``cars/0/17 (arrived 2026-01-01T12:07:00Z)``"""
    return f"{event_id(one)} (arrived {format_instant(one.arrival_time_us)})"


def listed(names: Sequence[str], limit: int = 5) -> str:
    """``a, b and c``, or the first few and how many more."""
    if len(names) > limit:
        return f"{', '.join(names[:limit])} and {len(names) - limit} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else list(names))
