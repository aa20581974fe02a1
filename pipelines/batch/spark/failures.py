"""Queries that end because a value could not be computed: the error that a user sees."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from pipelines.core.errors import DataRefused

_RAISED = "P0001"
"""SQLSTATE of ``raise_error``."""
_DATA = "22"
"""What the SQLSTATE of a value that cannot be computed begins with: an overflow, a division by zero, a cast."""


@contextmanager
def named_failures() -> Iterator[None]:
    """A block that runs queries: where one ends because a value could not be computed, :class:`DataRefused` says so."""
    try:
        yield
    except PySparkException as error:
        refused = value_refused(error)
        if refused is None:
            raise
        raise refused from error


def value_refused(error: PySparkException) -> DataRefused | None:
    """What an expression of the job refused, as the job's user reads it; None for any other error.

    ``raise_error`` gives its own sentence; of Spark's errors it is the first sentence, with the expression.
    """
    state = error.getSqlState() or ""
    if state == _RAISED:
        return DataRefused((error.getMessageParameters() or {})["errorMessage"])
    if not state.startswith(_DATA):
        return None
    first_line = str(error).strip().splitlines()[0]
    sentence = re.sub(r"^\[[\w.]+\] ", "", first_line).split(". ")[0].rstrip(".")
    fragments = [one.fragment() for one in error.getQueryContext()]
    where = f", in '{fragments[0]}'" if fragments and fragments[0] else ""
    return DataRefused(
        f"{sentence}{where}", hint="correct the query, or use TRY_CAST or CASE where a value may not fit"
    )
