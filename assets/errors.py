"""Errors that are the user's to mend, as Dagster shows them: one sentence, no stack trace of ours in front of it."""

from collections.abc import Iterator
from contextlib import contextmanager

import dagster as dg

from pipelines.core.errors import TailraceError


@contextmanager
def told() -> Iterator[None]:
    """Turn a :class:`TailraceError` into a failure of the step that trying again would not mend."""
    try:
        yield
    except TailraceError as error:
        raise dg.Failure(
            description=str(error), metadata={"error": type(error).__name__}, allow_retries=False
        ) from error
