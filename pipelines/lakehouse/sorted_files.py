"""Which files of an arrival log contain their arrivals in order, one file after the other, by their footers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from deltalake import DeltaTable

from pipelines.core.time import from_datetime
from pipelines.plan.definition import SortedFile

if TYPE_CHECKING:
    import pyarrow.dataset as ds


def sorted_files(log: DeltaTable, paths: Sequence[str]) -> tuple[SortedFile, ...]:
    """The files of ``paths`` in the order of their arrivals; none if some overlap, or row groups of one do.

    Inside a row group nothing is known: who reads them so must look, and ingest sees to it.
    """
    if not paths:
        return ()
    wanted = set(paths)
    days = sorted({part.removeprefix("arrival_date=").partition("/")[0] for part in paths})
    dataset = log.to_pyarrow_dataset(file_pruning_predicate=[("arrival_date", "in", days)])
    found = [_sorted_file(fragment) for fragment in dataset.get_fragments() if fragment.path in wanted]
    known = sorted((one for one in found if one is not None), key=lambda one: (one.first_us, one.last_us))
    if len(known) < len(wanted) or any(one.last_us > other.first_us for one, other in pairwise(known)):
        return ()
    return tuple(known)


def _sorted_file(fragment: ds.ParquetFileFragment) -> SortedFile | None:
    groups = [group.statistics for group in fragment.row_groups if group.num_rows]
    bounds = [group.get("arrival_time") if group else None for group in groups]
    ends = [(one["min"], one["max"]) for one in bounds if one is not None]
    if not ends or len(ends) < len(groups) or not all(isinstance(end, datetime) for both in ends for end in both):
        return None
    if any(one[1] > other[0] for one, other in pairwise(ends)):
        return None
    return SortedFile(fragment.path, from_datetime(ends[0][0]), from_datetime(ends[-1][1]))
