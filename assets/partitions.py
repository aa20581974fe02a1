"""Days: where a job's partitions begin, and which days of arrivals an output day reads."""

import logging
import os
from datetime import date

import dagster as dg

from pipelines.core.errors import EnvironmentUnfit, UsageError
from pipelines.core.model import Job
from pipelines.core.readrange import reach_of
from pipelines.core.time import DAY, to_datetime
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.log import LogFile, log_files
from pipelines.lakehouse.root import Lakehouse

START_VARIABLE = "TAILRACE_START"
"""Environment variable with the first day of all partitions, ``2013-01-01``; left out: see :func:`first_day`."""
DEFAULT_START = date(2013, 1, 1)
"""The first day as long as nothing was ingested: that of the log that ships."""
UNBOUNDED_MARGIN_US = 7 * DAY
"""How far before the first arrival output days begin for a job that does not bound how late an event may count."""

_log = logging.getLogger("tailrace")


def daily(job: Job, lakehouse: Lakehouse) -> dg.DailyPartitionsDefinition:
    """The UTC days of ``job``, of arrivals and of output alike."""
    return dg.DailyPartitionsDefinition(start_date=first_day(job, lakehouse).isoformat(), timezone="UTC")


def first_day(job: Job, lakehouse: Lakehouse) -> date:
    """Where the partitions of ``job`` begin: the day of the earliest result that its arrival logs can give.

    An event never counts earlier than the late tolerance before its arrival, so that is the first arrival of any input
    minus that tolerance (minus seven days where it has no bound). ``TAILRACE_START`` overrides it; without a log it is
    2013-01-01. Logs only grow, so the day stays, unless older history is ingested: then it moves back, and days that
    were materialised keep their keys. Raises :class:`UsageError` if ``TAILRACE_START`` is no date.
    """
    chosen = os.environ.get(START_VARIABLE)
    if chosen:
        try:
            return date.fromisoformat(chosen)
        except ValueError:
            raise UsageError(f"'{chosen}' is not a day", key=START_VARIABLE, hint="write it like 2013-01-01") from None
    firsts_us = [first_us for part in job.inputs for first_us in _firsts(lakehouse, arrivals_table(part.name))]
    if not firsts_us:
        return DEFAULT_START
    after_us = reach_of(job).after_us
    return to_datetime(min(firsts_us) - (UNBOUNDED_MARGIN_US if after_us is None else after_us)).date()


def arrivals_mapping(job: Job) -> dg.PartitionMapping:
    """From an output day to the days of arrivals that its read range touches; all days where the range is open.

    The output day ``[d, d + 1)`` reads the arrivals ``[d - before, d + 1 + after]``, both ends included.
    """
    reach = reach_of(job)
    if reach.before_us is None or reach.after_us is None:
        return dg.AllPartitionMapping()
    return dg.TimeWindowPartitionMapping(start_offset=-reach.before_us // DAY, end_offset=1 + reach.after_us // DAY)


def _firsts(lakehouse: Lakehouse, table: str) -> list[int]:
    """Lower bounds of the first arrivals of a log's files, in microseconds."""
    try:
        log = lakehouse.open(table)
    except EnvironmentUnfit as error:
        # definitions must load all the same: the run says what is wrong to whom it concerns
        _log.warning("%s; partitions begin as if it were not there", error)
        return []
    return [] if log is None else [first for file in log_files(log) if (first := _first(file)) is not None]


def _first(file: LogFile) -> int | None:
    if file.first_us is not None or file.arrival_day is None:
        return file.first_us
    return file.arrival_day * DAY
