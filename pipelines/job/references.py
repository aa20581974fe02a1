"""The reference data of a job file (Q79 to Q90)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from pipelines.core import model
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.expressions import check_column, parse_columns
from pipelines.job.yaml import Path as KeyPath

_TAKEN = frozenset({"effective_from", "batch_id", "position"})
"""Columns of ``references/<name>`` besides the data's own; the one that is ``effective`` may be ``effective_from``."""


def build_reference(
    say: Complaints, name: str, part: schema.ReferenceSection, inputs: Mapping[str, model.Input]
) -> model.Reference:
    """The reference data at key ``references.<name>``; snapshots have a TIMESTAMP column that is never null."""
    path: KeyPath = ("references", name)
    if name in inputs:
        raise say.error("an input is called so already", path)
    columns = say.at((*path, "columns"), lambda: parse_columns(part.columns))
    for column in columns:
        if column.name.lower() in _TAKEN and not column.name == part.effective == "effective_from":
            raise say.error(f"'{column.name}' is a column of every table of reference data", (*path, "columns"))
    if part.effective == "static":
        return model.Reference(name, columns, None, part.reference_time)
    names = [column.name for column in columns]
    effective = say.at((*path, "effective"), partial(check_column, part.effective, names))
    if next(column.type for column in columns if column.name == effective) != "timestamp":
        raise say.error(f"column '{effective}' is not a TIMESTAMP", (*path, "effective"))
    return model.Reference(name, columns, effective, part.reference_time)
