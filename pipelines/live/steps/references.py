"""Reference data as the steps of a job read it: its columns and ``effective_from``, in the order of its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.core.model import Job
from pipelines.lakehouse.schema import TIMESTAMP, arrow_type


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
