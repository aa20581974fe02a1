"""Errors that the user can correct, as Dagster shows them: one sentence, without a stack trace."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from pipelines.core.errors import TailraceError


@contextmanager
def as_failure() -> Iterator[None]:
    """Turn a :class:`TailraceError` into a failure of the step that is not retried."""
    try:
        yield
    except TailraceError as error:
        raise dg.Failure(
            description=str(error), metadata={"error": type(error).__name__}, allow_retries=False
        ) from error
