"""From a run's partitions to half-open ranges, and back to days."""

from collections.abc import Iterator, Mapping
from datetime import date

import dagster as dg

from pipelines.core.intervals import days_of
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import DAY, from_datetime, parse_instant

_PARTITION = "dagster/partition"
RANGE_START_TAG = "dagster/asset_partition_range_start"
"""Run tag: the first day of a run over several."""
RANGE_END_TAG = "dagster/asset_partition_range_end"
"""Run tag: the last day of a run over several."""


def range_of(context: dg.AssetExecutionContext) -> OutputRange:
    """The days that a run is to materialise, as one range: several days in a row are the normal case."""
    window = context.partition_time_window
    return OutputRange(from_datetime(window.start), from_datetime(window.end))


def checked_range(tags: Mapping[str, str]) -> OutputRange:
    """The days of the run that a check runs in, from its tags; everything where a check is executed on its own."""
    return days_of_tags(tags) or EVERYTHING


def days_of_tags(tags: Mapping[str, str]) -> OutputRange | None:
    """The days of the run that has these tags; None for a run without partitions."""
    first = tags.get(_PARTITION) or tags.get(RANGE_START_TAG)
    last = tags.get(_PARTITION) or tags.get(RANGE_END_TAG)
    if first is None or last is None:
        return None
    return OutputRange(parse_instant(first), parse_instant(last) + DAY)


def days_in(output: OutputRange) -> Iterator[tuple[str, OutputRange]]:
    """Every UTC day that ``output`` touches: its partition key, and the part of ``output`` in it."""
    for day, part in days_of(output):
        yield key_of(day), part


def key_of(day: date) -> str:
    """The partition key of a day."""
    return day.isoformat()
