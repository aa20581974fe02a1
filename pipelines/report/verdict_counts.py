"""Counts by verdict and reason, and the watermark, over time, from ``verdicts/<job>``."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import ARRIVALS, verdicts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP
from pipelines.report.axes import Bins
from pipelines.report.scan import within

_COLUMNS = ("input", "arrival_time", "verdict", "reasons", "watermark")


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far the watermark was behind the arrivals of one bin: least, median and greatest, in microseconds."""

    least_us: int
    median_us: int
    greatest_us: int


@dataclass
class VerdictCounts:
    """Rows of ``verdicts/<job>`` by bin: one by verdict, one by reason, and the watermark by input and bin.

    With ``keep_verdicts: exceptions`` events that were accepted without a reason have no row.
    """

    by_verdict: dict[str, Counter[int]] = field(default_factory=dict)
    by_reason: dict[str, Counter[int]] = field(default_factory=dict)
    watermarks: dict[str, dict[int, Watermark]] = field(default_factory=dict)


def verdict_counts(lakehouse: Lakehouse, job: Job, output: OutputRange, bins: Bins) -> VerdictCounts | None:
    """Counts of the rows whose event arrived in ``output``; None if no replay has written the table."""
    table = lakehouse.open(verdicts_table(job))
    if table is None:
        return None
    rows = table.to_pyarrow_dataset().to_table(columns=list(_COLUMNS), filter=within(ARRIVALS, output))
    arrival_us = _micros(rows["arrival_time"])
    bin_of = (arrival_us - bins.first_us) // bins.width_us
    found = VerdictCounts()
    verdicts = np.asarray(rows["verdict"].to_pandas(), dtype=object)
    for verdict in sorted(set(verdicts)):
        found.by_verdict[verdict] = _counted(bin_of[verdicts == verdict])
    reasons = rows["reasons"].combine_chunks()
    parents = np.asarray(pc.list_parent_indices(reasons))
    named = np.asarray(pc.list_flatten(reasons).to_pandas(), dtype=object)
    for reason in sorted(set(named)):
        found.by_reason[reason] = _counted(bin_of[parents[named == reason]])
    known = np.asarray(rows["watermark"].is_valid())
    behind_us = arrival_us - _micros(rows["watermark"])
    inputs = np.asarray(rows["input"].to_pandas(), dtype=object)
    for name in sorted(set(inputs)):
        mine = known & (inputs == name)
        found.watermarks[name] = _spread(bin_of[mine], behind_us[mine])
    return found


def _micros(column: pa.ChunkedArray) -> Any:
    return column.cast(TIMESTAMP).cast(pa.int64()).fill_null(0).to_numpy()


def _counted(numbers: Any) -> Counter[int]:
    values, counts = np.unique(numbers, return_counts=True)
    return Counter({int(value): int(count) for value, count in zip(values, counts, strict=True)})


def _spread(bin_of: Any, behind_us: Any) -> dict[int, Watermark]:
    order = np.lexsort((behind_us, bin_of))
    bins, first = np.unique(bin_of[order], return_index=True)
    last = [*first[1:], len(order)]
    sorted_us = behind_us[order]
    return {
        int(one): Watermark(int(sorted_us[begin]), int(sorted_us[(begin + end - 1) // 2]), int(sorted_us[end - 1]))
        for one, begin, end in zip(bins, first, last, strict=True)
    }
