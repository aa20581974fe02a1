"""What every profile's ordering and windowing hand to the engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Decided:
    """The decisions of one profile over whole inputs, as lazy DataFrames with columns of ``batch.columns``.

    ``verdicts``: one row per event (punctuations are none), columns INPUT .. MISSED_US; REASONS is array<string> and
    MISSED_US array<bigint>, empty rather than null; SYSTEM_US, LIFETIME_END_US and WATERMARK_US may be null.

    ``counting``: of each input the events that count, with SYSTEM_US, the ARRIVAL_ORDER columns and the payload.

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
    events: Mapping[str, int] = field(default_factory=dict)
    shared: tuple[DataFrame, ...] = ()
