"""Reference data as the steps of a job read it: its columns and ``effective_from``, in the order of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.core.model import Job
from pipelines.lakehouse.reference_data import open_reference
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import TIMESTAMP, arrow_type


def stored(job: Job, lakehouse: Lakehouse) -> dict[str, pa.Table]:
    """The reference data of a job as it is in ``references/<name>`` now.

    :class:`UsageError` for a set that was never loaded, or has other columns than the job file.
    """
    found = {}
    for one in job.references:
        rows = open_reference(lakehouse, one).table.to_pyarrow_table()
        found[one.name] = rows.sort_by([("effective_from", "ascending"), ("position", "ascending")])
    return found


def listed(job: Job, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, pa.Table]:
    """Reference data of Python rows, instants as microseconds."""
    found = {}
    for one in job.references:
        mine = rows.get(one.name, ())
        columns = {
            column.name: pa.array([row[column.name] for row in mine], arrow_type(column.type)) for column in one.columns
        }
        effective = [None if one.effective is None else row[one.effective] for row in mine]
        found[one.name] = pa.table({**columns, "effective_from": pa.array(effective, TIMESTAMP)})
    return found
