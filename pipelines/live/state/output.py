"""What a batch of the live run hands to the tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.live.state.rows import VERDICTS, LogOutOfOrder, Result, exceptional


@dataclass(slots=True)
class Output:
    """What a batch gave. ``final`` rows stand for good; ``provisional`` ones are what the end of the log would give,
    true until more comes. ``moved``: something was decided, which ends the time of earlier provisional rows.
    ``verdicts`` are tables of :data:`~pipelines.live.state.rows.VERDICTS`; the counts are those of final ones."""

    verdicts: pa.Table = field(default_factory=VERDICTS.empty_table)
    results: list[Result] = field(default_factory=list)
    provisional_verdicts: pa.Table = field(default_factory=VERDICTS.empty_table)
    verdict_counts: Counter[str] = field(default_factory=Counter)
    reason_counts: Counter[str] = field(default_factory=Counter)
    provisional_results: list[Result] = field(default_factory=list)
    moved: bool = False
    told: bool = False
    error: TailraceError | LogOutOfOrder | None = None

    def to_write(self, job: Job) -> Output:
        """Without the verdicts that the job does not keep; their counts stay."""
        if job.keep_verdicts == "all":
            return self
        kept, waiting = exceptional(self.verdicts), exceptional(self.provisional_verdicts)
        return replace(self, verdicts=kept, provisional_verdicts=waiting)

    def decide(self, verdicts: pa.Table) -> None:
        """Set the final verdicts, and count them."""
        self.verdicts = verdicts
        self.verdict_counts = _counts(verdicts["verdict"])
        self.reason_counts = _counts(pc.list_flatten(verdicts["reasons"]))


def _counts(values: pa.ChunkedArray) -> Counter[str]:
    return Counter({one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()})
