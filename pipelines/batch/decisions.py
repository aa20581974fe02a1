"""What every profile's ordering and windowing hand to the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from pipelines.core.model import Window


@dataclass(frozen=True)
class WindowRules:
    """What a profile decides about the windows of steps.

    ``windows(rows, window, group_by)``: rows that stem from events, one for each window that they count in, with the
    WINDOW columns; it asks for the ``columns`` that the profile gives its events.

    ``settled(frame, at, keys)``: ``frame`` with SETTLED, whether a result at the instant in column ``at`` was emitted
    before the log ended; ``keys`` are its group keys: by name in lower case the column of ``frame``. None: all were.
    """

    windows: Callable[[DataFrame, Window, Sequence[str]], DataFrame]
    settled: Callable[[DataFrame, str, Mapping[str, str]], DataFrame] | None = None
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Decided:
    """The decisions of one profile over whole inputs, as lazy DataFrames with columns of ``batch.columns``.

    ``verdicts``: one row per event (punctuations are none), columns INPUT .. MISSED_US; REASONS is array<string> and
    MISSED_US array<bigint>, empty rather than null; SYSTEM_US, LIFETIME_END_US and WATERMARK_US may be null.

    ``counting``: of each input the events that count, with SYSTEM_US, the ARRIVAL_ORDER columns, the payload, and the
    columns of ``rules``; for a job of steps.

    ``members``: None for a job of steps. Else one row per event that counts and window that it counts in:
    WINDOW_START_US, WINDOW_END_US, WINDOW_ID (null but for ``any_of``), SYSTEM_US, the ARRIVAL_ORDER columns and the
    payload columns; ``where`` and ``end_of_log`` are applied. After a join the payload of each side is one struct named
    like its input, so that ``a.plate`` means in SQL what it means in the job file, and INPUT_RANK is a struct that goes
    on to order pairs by their second event: treat the ARRIVAL_ORDER columns as things that can be sorted, no more.

    ``events``: how many events of an input arrived in the output range, where ``verdicts`` lacks some that simply
    counted. ``shared``: what ``verdicts`` and ``members`` are both made of, where it is costly to make twice.

    ``dead_letters``: columns of table ``dead_letters/<job>`` and ARRIVAL_US, or None where the product has none.
    """

    verdicts: DataFrame
    members: DataFrame | None
    dead_letters: DataFrame | None = None
    counting: Mapping[str, DataFrame] = field(default_factory=dict)
    rules: WindowRules | None = None
    events: Mapping[str, int] = field(default_factory=dict)
    shared: tuple[DataFrame, ...] = ()
