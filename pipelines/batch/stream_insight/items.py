"""What one row of a stream_insight input is (I1): a point, an interval, a start or end edge, or without a time (I2)."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import EVENT_US, IS_PUNCTUATION
from pipelines.batch.normalise import expression_type, instant_us
from pipelines.core.model import Input

KIND = "__kind"
"""POINT, INTERVAL, START or END; null for punctuations and for events of which no lifetime can be read."""
END_US = "__end_us"
"""End of a point or an interval, or the end in an end edge; null for a start edge."""
SYNC_US = "__sync_us"
"""The instant that is compared with the current time: an end edge's end, everything else's start."""

POINT, INTERVAL, START, END = "point", "interval", "start", "end"


def read_items(frame: DataFrame, source: Input) -> DataFrame:
    """A normalised input with KIND, END_US and SYNC_US.

    Without a kind (refused as ``invalid_time``) is an event whose start cannot be read, an interval whose end
    cannot be read or is not after its start, an edge that is neither 'start' nor 'end', and an end edge whose end
    cannot be read or lies before the start that it names: an end *at* its start is a cancellation, not an error.
    """
    end_us, kind = _shape(frame, source)
    is_item = ~F.col(IS_PUNCTUATION) & F.col(EVENT_US).isNotNull()
    return (
        frame.withColumn(END_US, end_us)
        .withColumn(KIND, F.when(is_item, kind))
        .withColumn(SYNC_US, F.when(F.col(KIND) == END, F.col(END_US)).when(F.col(KIND).isNotNull(), F.col(EVENT_US)))
    )


def _shape(frame: DataFrame, source: Input) -> tuple[Column, Column]:
    """The end and the kind of an event whose start is known."""
    start_us = F.col(EVENT_US)
    if source.shape == "point":
        return start_us + 1, F.lit(POINT)
    assert source.end_by is not None
    given_us = instant_us(frame, source.end_by, f"inputs.{source.name}.end_by")
    if source.shape == "interval":
        return given_us, F.when(given_us > start_us, F.lit(INTERVAL))
    assert source.edge_by is not None
    expression_type(frame, source.edge_by, f"inputs.{source.name}.edge_by")
    edge = F.expr(source.edge_by).cast("string")
    kind = F.when(edge == "start", F.lit(START)).when((edge == "end") & (given_us >= start_us), F.lit(END))
    return F.when(edge == "end", given_us), kind
