"""What the arrival logs say of their own past, from a few columns of them. No Spark.

Cost: :meth:`LogHistory.summary` reads what is kept and passes over the days that are not (see
:mod:`pipelines.lakehouse.cache.summaries`); :meth:`LogHistory.first_arrival_above` reads two columns of the files whose
statistics do not rule them out.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.model import Job
from pipelines.core.time import to_datetime
from pipelines.lakehouse.cache.summaries import Summed, summed
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.initial_state import Summary, summary_key_of


class LogHistory:
    """Answers :class:`pipelines.plan.bounded_reads.History` from Delta tables opened at the version that is read.

    ``summed`` contains the summaries that were asked for, by input: of arrivals before ``before_us`` alone, if given.
    """

    def __init__(
        self, job: Job, tables: Mapping[str, DeltaTable], lakehouse: Lakehouse, before_us: int | None = None
    ) -> None:
        self._job = job
        self._tables = tables
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
            found = summed(self._lakehouse, input_name, setting, self._tables[input_name], self._before_us)
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
        dataset = self._tables[input_name].to_pyarrow_dataset()
        found = dataset.to_table(columns=["arrival_time"], filter=condition)["arrival_time"]
        earliest = pc.min(found.cast(pa.int64())).as_py()
        return None if earliest is None else int(earliest)


def _scalar(instant_us: int) -> pa.Scalar:
    return pa.scalar(to_datetime(instant_us), pa.timestamp("us", tz="UTC"))
