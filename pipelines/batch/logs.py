"""One input of a job and its arrivals, before anything is decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines.batch.normalise import normalise
from pipelines.core.model import Input


@dataclass(frozen=True)
class LogSlice:
    """Arrivals of ``[first_us, last_us]`` in one file, as table ``arrivals/<input>`` has them."""

    arrivals: DataFrame
    first_us: int
    last_us: int

    def may_contain(self, from_us: int | None, to_us: int | None) -> bool:
        """Whether an arrival in ``[from_us, to_us)`` can lie here."""
        return (from_us is None or self.last_us >= from_us) and (to_us is None or self.first_us < to_us)


@dataclass(frozen=True)
class Log:
    """``arrivals`` has the columns of table ``arrivals/<input>``; ``rank`` is the input's place in the job.

    ``slices`` gives the same arrivals once more, each partition's in order in each slice and from slice to slice; None:
    they are not known to be in order.
    """

    arrivals: DataFrame
    source: Input
    rank: int
    slices: Callable[[], Sequence[LogSlice]] | None = None

    def rows(self) -> DataFrame:
        """All of it, normalised."""
        return self.normalised(self.arrivals)

    def normalised(self, arrivals: DataFrame) -> DataFrame:
        """Some of its arrivals, normalised."""
        return normalise(arrivals, self.source, self.rank)
