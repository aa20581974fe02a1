"""One input of a job and its arrivals, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines.batch.normalise import normalise
from pipelines.core.model import Input


@dataclass(frozen=True)
class Log:
    """``arrivals`` has the columns of table ``arrivals/<input>``; ``rank`` is the input's place in the job."""

    arrivals: DataFrame
    source: Input
    rank: int

    def rows(self) -> DataFrame:
        """All of it, normalised."""
        return normalise(self.arrivals, self.source, self.rank)
