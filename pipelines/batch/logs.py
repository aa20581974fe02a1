"""One input of a job and its arrivals, before anything is decided."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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

    def between(self, from_us: int | None, to_us: int | None) -> DataFrame:
        """What arrived in ``[from, to)``, normalised; files and row groups of other times are not read."""
        arrivals = self.arrivals
        has_day = "arrival_date" in arrivals.columns
        if from_us is not None:
            at = F.timestamp_micros(F.lit(from_us))
            arrivals = arrivals.filter(F.col("arrival_time") >= at)
            arrivals = arrivals.filter(F.col("arrival_date") >= F.to_date(at)) if has_day else arrivals
        if to_us is not None:
            at = F.timestamp_micros(F.lit(to_us))
            arrivals = arrivals.filter(F.col("arrival_time") < at)
            arrivals = arrivals.filter(F.col("arrival_date") <= F.to_date(at)) if has_day else arrivals
        return normalise(arrivals, self.source, self.rank)
