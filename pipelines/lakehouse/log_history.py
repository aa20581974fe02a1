"""What the arrival logs say of their own past, from a few columns of them. No Spark.

Cost: :meth:`LogHistory.summary` reads what is kept and passes over the days that are not (see
:mod:`pipelines.lakehouse.cache.summaries`); :meth:`LogHistory.first_arrival_above` reads two columns of the files whose
statistics do not rule them out; :meth:`LogHistory.pause` reads arrival times day by day, backwards, until it has found
the pause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.model import Job
from pipelines.core.time import to_datetime
from pipelines.lakehouse.cache.summaries import Summed, summed
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.initial_state import Summary, summary_key_of

Instants = npt.NDArray[np.int64]


class LogHistory:
    """Answers :class:`pipelines.plan.bounded_reads.History` from Delta tables opened at the version that is read.

    ``tables`` are these, by input; ``summed`` the summaries that were asked for: of arrivals before ``before_us``
    alone, if given.
    """

    def __init__(
        self, job: Job, tables: Mapping[str, DeltaTable], lakehouse: Lakehouse, before_us: int | None = None
    ) -> None:
        self._job = job
        self.tables = tables
        self._lakehouse = lakehouse
        self._before_us = before_us
        self.summed: dict[str, Summed] = {}

    def summary(self, input_name: str) -> Summary | None:
        """See :class:`pipelines.plan.bounded_reads.History`."""
        setting = summary_key_of(self._job, input_name)
        if setting is None:
            return None
        found = self.summed.get(input_name)
        if found is None:
            found = summed(self._lakehouse, input_name, setting, self.tables[input_name], self._before_us)
            self.summed[input_name] = found
        return found.summary

    def first_arrival_above(self, input_name: str, event_time_us: int) -> int | None:
        """Exact for a TIMESTAMP column; for an expression, which needs Spark to read, the log's first arrival."""
        part = self._job.input(input_name)
        column = None if part.timestamp_by is None else part.column(part.timestamp_by)
        condition = pc.field("kind") == "event"
        if part.timestamp_by is None:
            condition = condition & (pc.field("arrival_time") > _scalar(event_time_us))
        elif column is not None and column.type == "timestamp":
            condition = condition & (pc.field(column.name) > _scalar(event_time_us))
        dataset = self.tables[input_name].to_pyarrow_dataset()
        found = dataset.to_table(columns=["arrival_time"], filter=condition)["arrival_time"]
        earliest = pc.min(found.cast(pa.int64())).as_py()
        return None if earliest is None else int(earliest)

    def pause(self, input_names: Sequence[str], longer_than_us: int, before_us: int) -> int | None:
        """See :class:`pipelines.plan.read_range.History`."""
        after_us: int | None = None
        for arrivals in self._days_backwards(input_names):
            merged = arrivals if after_us is None else np.append(arrivals, after_us)
            wide = np.flatnonzero((np.diff(merged) > longer_than_us) & (merged[:-1] < before_us))
            if len(wide):
                return int(merged[wide[-1] + 1])
            after_us = int(merged[0])
        return None

    def _days_backwards(self, input_names: Sequence[str]) -> Iterator[Instants]:
        """The arrival times of each day that has any, sorted, the last day first."""
        datasets = [self.tables[name].to_pyarrow_dataset() for name in input_names]
        days = set()
        for name in input_names:
            actions = pa.table(self.tables[name].get_add_actions(flatten=True))
            days |= set(actions["partition.arrival_date"].to_pylist())
        for day in sorted(days, reverse=True):
            condition = pc.field("arrival_date") == pa.scalar(day, pa.date32())
            parts = [one.to_table(columns=["arrival_time"], filter=condition)["arrival_time"] for one in datasets]
            times = [np.asarray(part.cast(pa.int64())) for part in parts]
            yield np.sort(np.concatenate(times))


def _scalar(instant_us: int) -> pa.Scalar:
    return pa.scalar(to_datetime(instant_us), pa.timestamp("us", tz="UTC"))
