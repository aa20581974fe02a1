"""Names of the columns that the batch engine passes between its steps.

They begin with two underscores, which no payload column may, so nothing a user writes can collide with them.
Instants are BIGINT microseconds (``unix_micros``) from normalising to the very end.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from pipelines.core.model import OutputRange

# who the event is; (ARRIVAL_US, PARTITION, SEQUENCE, INPUT_RANK) is the arrival order across a job's inputs
INPUT = "__input"
INPUT_RANK = "__input_rank"
PARTITION = "__partition"
SEQUENCE = "__sequence"
ARRIVAL_US = "__arrival_us"
ARRIVAL_ORDER = (ARRIVAL_US, PARTITION, SEQUENCE, INPUT_RANK)
ARRIVAL_TIME = "__arrival_time"
ARRIVAL_DAY = "__arrival_day"
"""As the log has them, so that a filter on them prunes its files; the day where the log has it."""
TASK_RANGE = "__task_range"
"""The number of the task that reads the row, where the log is read in ranges of arrival."""
LAST_SEQUENCE = "__last_sequence"
"""Of the partition's row that the same task read before, where it looks."""
READING = frozenset({TASK_RANGE, LAST_SEQUENCE})
"""What a way of reading adds to arrivals."""
IS_PUNCTUATION = "__is_punctuation"
PUNCTUATION_US = "__punctuation_us"

# what the payload says; EVENT_US is null where the time is missing or cannot be converted
EVENT_US = "__event_us"
KEY_VALID = "__key_valid"

# the time that feeds a stream_analytics watermark: late-adjusted, null for an event that is invalid or early
TIME_US = "__time_us"
MAX_BEFORE_US = "__max_before_us"
"""The greatest TIME_US of the timeline's events before the row; null where there is none."""

# what the ordering policy decided
VERDICT = "__verdict"
REASONS = "__reasons"
SYSTEM_US = "__system_us"
LIFETIME_END_US = "__lifetime_end_us"
WATERMARK_US = "__watermark_us"
MISSED_US = "__missed_us"
VERDICT_COLUMNS = (
    INPUT,
    PARTITION,
    SEQUENCE,
    ARRIVAL_US,
    EVENT_US,
    VERDICT,
    REASONS,
    SYSTEM_US,
    LIFETIME_END_US,
    WATERMARK_US,
    MISSED_US,
)
"""What every profile says of an event, in the order of table ``verdicts/<job>``."""

# which window a row falls in
WINDOW_START_US = "__window_start_us"
WINDOW_END_US = "__window_end_us"
WINDOW_ID = "__window_id"
WINDOW = (WINDOW_START_US, WINDOW_END_US, WINDOW_ID)

# how far the watermarks have come when the log ends: `hold` emits windows that end before this
HOLD_US = "__hold_us"
SETTLED = "__settled"
"""Whether a row may be emitted under `hold`."""


def within(column: str, output: OutputRange) -> Column:
    """Whether a BIGINT instant lies in the half-open range."""
    inside = F.lit(True)
    if output.from_us is not None:
        inside = inside & (F.col(column) >= output.from_us)
    if output.to_us is not None:
        inside = inside & (F.col(column) < output.to_us)
    return inside
