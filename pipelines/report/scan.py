"""A range of a table as a filter of Arrow's datasets, its partitions pruned."""

from __future__ import annotations

from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.model import OutputRange
from pipelines.core.time import DAY
from pipelines.lakehouse.layout import Layout
from pipelines.lakehouse.schema import TIMESTAMP


def within(layout: Layout, output: OutputRange, *others: pc.Expression) -> pc.Expression | None:
    """``[from, to)`` on the table's time and the conditions ``others``; None if there is no condition."""
    time, day = pc.field(layout.time), pc.field(layout.day)
    parts = list(others)
    if output.from_us is not None:
        parts += [time >= pa.scalar(output.from_us, TIMESTAMP), day >= _day(output.from_us)]
    if output.to_us is not None:
        parts += [time < pa.scalar(output.to_us, TIMESTAMP), day <= _day(output.to_us - 1)]
    return reduce(and_, parts) if parts else None


def _day(instant_us: int) -> pa.Scalar:
    return pa.scalar(instant_us // DAY, pa.int32()).cast(pa.date32())
