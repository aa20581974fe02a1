"""One input of a job and its arrivals, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines.batch.normalise import normalise
from pipelines.core.facts import Memory
from pipelines.core.model import Input


@dataclass(frozen=True)
class Log:
    """``arrivals`` has the columns of table ``arrivals/<input>``; ``rank`` is the input's place in the job.

    ``memory`` speaks of exactly these arrivals.
    """

    arrivals: DataFrame
    source: Input
    rank: int
    memory: Memory | None = None

    def rows(self) -> DataFrame:
        """All of it, normalised."""
        return normalise(self.arrivals, self.source, self.rank)
