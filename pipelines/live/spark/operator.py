"""The stateful operator of the live run: the engine of each job, kept in Spark's state store between batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from pipelines.core.errors import DataRefused
from pipelines.core.model import Job
from pipelines.live.saved import ENCODING, engine_of
from pipelines.live.spark.workers import trust_archives
from pipelines.live.state.messages import Message
from pipelines.live.state.output import Output

INPUT_TYPE = "key STRING, kind STRING, input STRING, file STRING, row_count INT, body BINARY"
"""A :class:`Message` of the job ``key``."""
OUTPUT_TYPE = "key STRING, output BINARY"
"""A :class:`~pipelines.live.state.output.Output` in the encoding of :mod:`pipelines.live.saved`."""
_STATE = StructType([StructField("engine", BinaryType())])


class LiveOperator(StatefulProcessor):
    """Hands each job's messages of a batch to its engine."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = dict(jobs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        trust_archives()
        # the process in which Spark asks for the operator's state variables prints each of its steps to stderr
        main = sys.modules.get("__main__")
        if main is not None and "transform_with_state_driver_worker" in str(getattr(main, "__spec__", None)):
            vars(main)["print"] = lambda *_, **__: None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        self._state = handle.getValueState("engine", _STATE)

    def handleInputRows(  # type: ignore[override]  # noqa: N802  # Spark's name; rows come as pandas here
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark for each job that has rows in the batch."""
        name = str(key[0])
        job = self._jobs[name]
        messages = [
            Message(*fields)
            for frame in rows
            for fields in zip(*(frame[field] for field in Message._fields), strict=True)
        ]
        saved = self._state.get()
        output = run_batch(None if saved is None else saved[0], job, messages, self._save)
        yield pd.DataFrame({"key": [name], "output": [ENCODING.encode(output.to_write(job))]})

    def _save(self, state: bytes) -> None:
        self._state.update((state,))

    def close(self) -> None:
        """Called by Spark."""


def run_batch(state: bytes | None, job: Job, messages: Sequence[Message], save: Callable[[bytes], None]) -> Output:
    """One batch of one job: what is final, then ``save`` of the state for the next batch, then what the end of the log
    gives. ``state`` is what the batch before saved; None: nothing has come yet. Where it is not in the encoding of this
    version, nothing is saved, and there is nothing but that error."""
    try:
        engine = engine_of(state, job)
    except DataRefused as refused:
        return Output(error=refused)
    output = engine.step(messages)
    at_end = engine.reached_end
    engine.end_given = engine.end_given or at_end
    save(ENCODING.encode(engine))
    if at_end:
        engine.finish(output)
    return output
