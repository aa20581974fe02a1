"""Days: where a job's partitions begin, and which days of arrivals an output day reads."""

import logging
import os
from datetime import UTC, date, datetime

import dagster as dg

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Job
from pipelines.core.time import DAY, from_datetime, to_datetime
from pipelines.lakehouse.arrival_log import LogFile, log_files
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.read_range import reach_of

START_VARIABLE = "TAILRACE_START"
"""Environment variable with the first day of all partitions, ``2013-01-01``; left out: see :func:`days_of`."""
END_VARIABLE = "TAILRACE_END"
"""Environment variable with the day before which all partitions end, ``2014-01-01``; left out: see :func:`days_of`."""
DEFAULT_START = date(2013, 1, 1)
"""The first day as long as nothing was ingested: that of the log that ships."""
UNBOUNDED_MARGIN_US = 7 * DAY
"""How long before the first arrival, or after the last, results can be, for a job that does not bound it."""
HISTORY_US = 366 * DAY
"""Logs that have been silent for this long are taken for history: their days end where they do."""

_log = logging.getLogger("tailrace")


def daily(job: Job, lakehouse: Lakehouse) -> dg.DailyPartitionsDefinition:
    """The UTC days of ``job``, of arrivals and of output alike."""
    first, end = days_of(job, lakehouse)
    return dg.DailyPartitionsDefinition(first.isoformat(), end_date=None if end is None else str(end), timezone="UTC")


def days_of(job: Job, lakehouse: Lakehouse) -> tuple[date, date | None]:
    """Where the partitions of ``job`` begin, and the day before which they end; None: they go on with the clock.

    They begin on the day of the earliest result that its arrival logs can give. An event never counts earlier than the
    late tolerance before its arrival, so that is the first arrival of any input minus that tolerance (minus seven days
    where it has no bound). ``TAILRACE_START`` overrides it; without a log it is 2013-01-01. Logs only grow, so the day
    stays, unless older history is ingested: then it moves back, and days that were materialised keep their keys.

    They end where logs of the past do, on the day of the latest result that these can give: a year of 2013 is not to be
    looked for among all days since. What is added to such a log later has its days when the definitions are loaded
    again. ``TAILRACE_END`` overrides it. Raises :class:`UsageError` if either variable is no date.
    """
    first, end = _chosen(START_VARIABLE), _chosen(END_VARIABLE)
    if first is not None and end is not None:
        return first, end
    reach = reach_of(job)
    spans = [span for part in job.inputs for span in _spans(lakehouse, arrivals_table(part.name))]
    if not spans:
        return first or DEFAULT_START, end
    after_us = UNBOUNDED_MARGIN_US if reach.after_us is None else reach.after_us
    before_us = UNBOUNDED_MARGIN_US if reach.before_us is None else reach.before_us
    first_us, last_us = min(first for first, _ in spans), max(last for _, last in spans)
    if end is None and last_us < from_datetime(datetime.now(UTC)) - HISTORY_US:
        end = to_datetime(last_us + before_us + DAY).date()
    return first or to_datetime(first_us - after_us).date(), end


def _chosen(variable: str) -> date | None:
    chosen = os.environ.get(variable)
    if not chosen:
        return None
    try:
        return date.fromisoformat(chosen)
    except ValueError:
        raise UsageError(f"'{chosen}' is not a day", key=variable, hint="write it like 2013-01-01") from None


def arrivals_mapping(job: Job) -> dg.PartitionMapping:
    """From an output day to the days of arrivals that its read range touches; all days where the range is open.

    The output day ``[d, d + 1)`` reads the arrivals ``[d - before, d + 1 + after]``, both ends included.
    """
    reach = reach_of(job)
    if reach.before_us is None or reach.after_us is None:
        return dg.AllPartitionMapping()
    return dg.TimeWindowPartitionMapping(start_offset=-reach.before_us // DAY, end_offset=1 + reach.after_us // DAY)


def _spans(lakehouse: Lakehouse, table: str) -> list[tuple[int, int]]:
    """Bounds of the arrivals in a log's files, in microseconds."""
    try:
        log = lakehouse.open(table)
    except EnvironmentUnfit as error:
        # definitions must load all the same; a run will fail with the error
        _log.warning("%s; partitions begin as if it were not there", error)
        return []
    return [] if log is None else [span for file in log_files(log) if (span := _span(file)) is not None]


def _span(file: LogFile) -> tuple[int, int] | None:
    if file.first_us is not None and file.last_us is not None:
        return file.first_us, file.last_us
    if file.arrival_day is None:
        return None
    return file.arrival_day * DAY, (file.arrival_day + 1) * DAY - 1
