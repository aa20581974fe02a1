"""The stateful operator of the live run: one machine a job, kept in Spark's state store between batches."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, StructField, StructType

from pipelines.core.model import Job
from pipelines.live.engine import Machine
from pipelines.live.spark.workers import trust_archives
from pipelines.live.state.intake import Message
from pipelines.live.state.output import Output
from pipelines.live.state.program import Program
from pipelines.live.state.rows import LogOutOfOrder

INPUT_TYPE = "key STRING, kind STRING, input STRING, file STRING, row_count INT, body BINARY"
"""A :class:`Message` of the job ``key``."""
OUTPUT_TYPE = "key STRING, output BINARY"
"""A pickled :class:`~pipelines.live.state.output.Output`."""
_FORM = b"tailrace 3\n"
"""What saved state begins with; to be changed whenever what is pickled changes its shape, or which rows it contains."""
_STATE = StructType([StructField("machine", BinaryType())])


class LiveOperator(StatefulProcessor):
    """Hands each job's messages of a batch to its machine."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = dict(jobs)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        trust_archives()
        # the process in which Spark asks for the operator's state variables tells stderr of each of its steps
        main = sys.modules.get("__main__")
        if main is not None and "transform_with_state_driver_worker" in str(getattr(main, "__spec__", None)):
            vars(main)["print"] = lambda *_, **__: None

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called by Spark."""
        self._state = handle.getValueState("machine", _STATE)

    def handleInputRows(  # type: ignore[override]  # noqa: N802  # Spark's name; rows come as pandas here
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: ARG002, N803
    ) -> Iterator[pd.DataFrame]:
        """Called by Spark for each job that has rows in the batch."""
        name = str(key[0])
        program = Program(self._jobs[name])
        machine = restored(self._state.get(), program.job)
        messages = [
            Message(*fields)
            for frame in rows
            for fields in zip(*(frame[field] for field in Message._fields), strict=True)
        ]
        output = step(program, machine, messages, self._save)
        yield pd.DataFrame({"key": [name], "output": [pickle.dumps(output.to_write(program.job))]})

    def _save(self, machine: bytes) -> None:
        self._state.update((machine,))

    def close(self) -> None:
        """Called by Spark."""


def restored(state: tuple[Any, ...] | None, job: Job) -> Machine:
    """The machine as it was saved. One that was saved in another form has failed: the stream must begin again."""
    if state is not None and state[0].startswith(_FORM):
        machine: Machine = pickle.loads(state[0][len(_FORM) :])  # noqa: S301  # written by this program
        return machine
    machine = Machine.new(job)
    if state is not None:
        machine.failed = LogOutOfOrder("the stream's state was saved by another version of Tailrace")
    return machine


def step(program: Program, machine: Machine, messages: list[Message], save: Any) -> Output:
    """One batch of one job: what is final, then the state as it goes on (``save``), then what the end would give."""
    output = machine.step(program, messages)
    ends = output.error is None and machine.wants_end
    machine.told = machine.told or ends
    save(_FORM + pickle.dumps(machine))
    if ends:
        machine.finish(program, output)
    return output
