"""A chunk of a file as rows of the arrival log: typed columns, and a reason for each record that is not taken."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.model import Input
from pipelines.ingest.order import ArrivalOrder, Judged
from pipelines.ingest.readers import Chunk, Refused
from pipelines.ingest.sequential_order import SequentialOrder
from pipelines.ingest.values import FINE_FRACTION, convert, convert_arrow, undeclared
from pipelines.lakehouse.arrival_log import FOR_ALL
from pipelines.lakehouse.schema import TIMESTAMP, arrivals_schema

EVENT, PUNCTUATION = "event", "punctuation"

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """One chunk: the ``rows`` taken, of which ``held`` at the arrival time before them, and the records ``refused``.

    ``repeated`` are rows whose sequence was taken before; ``repeats`` is what they are refused as, unless they are
    duplicates.
    """

    rows: pa.Table
    refused: list[Refused]
    repeated: pa.Table
    repeats: list[Refused]
    held: int


class Judge:
    """Types and judges chunk after chunk of one input, in file order."""

    def __init__(self, part: Input, batch_id: str, order: ArrivalOrder | SequentialOrder) -> None:
        self._part = part
        self._batch_id = batch_id
        self._order = order
        self._schema = arrivals_schema(part)

    def rows(self, chunk: Chunk) -> JudgedRows:
        """The records taken, as rows of ``arrivals/<input>``, those refused, and those repeated, in file order."""
        reasons: dict[int, str] = {}
        columns = self._columns(chunk, reasons)
        self._check(columns, reasons)
        judged = self._judge_order(columns, reasons)
        rows = pa.table([columns[name] for name in self._schema.names], schema=self._schema)
        partition, sequence = columns["input_partition"], columns["sequence"]

        def refused(index: int, reason: str) -> Refused:
            place = (chunk.source, chunk.positions[index])
            return Refused(chunk.raw(index), reason, *place, partition[index].as_py(), sequence[index].as_py())

        found = [*chunk.refused, *(refused(index, reason) for index, reason in reasons.items())]
        repeats = [refused(index, reason) for index, reason in judged.repeated.items()]
        repeated = rows.take(pa.array(list(judged.repeated), pa.int64())) if repeats else rows.slice(0, 0)
        if reasons or repeats:
            keep = np.ones(len(rows), dtype=bool)
            keep[[*reasons, *judged.repeated]] = False
            rows = rows.filter(pa.array(keep))
            found.sort(key=lambda record: record.position)
        return JudgedRows(rows, found, repeated, repeats, len(judged.held_us))

    def _columns(self, chunk: Chunk, reasons: dict[int, str]) -> dict[str, pa.Array]:
        """Every column typed; a value that does not fit is null and has its reason."""
        for index, name in chunk.lacking.items() if self._part.complete else ():
            if self._part.column(name) is not None and not _is_punctuation(chunk, index):
                reasons[index] = f"{name}: is missing, which CREATE TABLE demands (Q29)"
        count = len(chunk.positions)
        truncate = self._part.sub_microsecond == "truncate"
        columns: dict[str, pa.Array] = {}
        for field in self._schema:
            values: Any = chunk.columns.get(field.name)
            if values is None:
                columns[field.name] = pa.nulls(count, field.type)
                continue
            is_typed = isinstance(values, pa.Array)
            turn = convert_arrow if is_typed else convert
            if not is_typed:
                chunk.ignored.update(undeclared(values, field.type, field.name))
            columns[field.name], misfits = turn(values, field.type, truncate=truncate)
            for index, reason in misfits.items():
                reasons.setdefault(index, f"{field.name}: {reason}")
        columns["batch_id"] = pa.repeat(pa.scalar(self._batch_id), count)
        columns["arrival_date"] = _utc_date(columns["arrival_time"])
        return columns

    def _check(self, columns: dict[str, pa.Array], reasons: dict[int, str]) -> None:
        """The rules of the log's own columns; fills in ``kind``."""

        def refuse(wrong: Mask, reason: str) -> None:
            for index in np.flatnonzero(wrong):
                reasons.setdefault(int(index), reason)

        timed = _present(columns["punctuation_time"])
        kind = columns["kind"] = pc.if_else(
            columns["kind"].is_null(), pc.if_else(pa.array(timed), PUNCTUATION, EVENT), columns["kind"]
        )
        is_punctuation = _true(pc.equal(kind, PUNCTUATION))
        partition = columns["input_partition"]
        refuse(
            ~_true(pc.is_in(kind, value_set=pa.array([EVENT, PUNCTUATION]))), "kind is neither event nor punctuation"
        )
        refuse(~_present(columns["arrival_time"]), "arrival_time is missing")
        refuse(~_present(columns["sequence"]), "sequence is missing")
        refuse(_true(pc.less(columns["sequence"], 0)), "sequence is negative")
        refuse(~_present(partition) & ~is_punctuation, "input_partition is missing")
        refuse(_true(pc.less(partition, 0)), "input_partition is negative")
        if self._part.partitions is not None:
            last = self._part.partitions - 1
            refuse(_true(pc.greater(partition, last)), f"input_partition is beyond {last}, the input's last")
        refuse(is_punctuation & ~timed, "a punctuation without punctuation_time")
        refuse(~is_punctuation & timed, "an event with a punctuation_time")
        self._check_fine_text(columns, refuse)

    def _check_fine_text(self, columns: dict[str, pa.Array], refuse: Any) -> None:
        """Text read as an instant keeps to six digits too; whether it is one at all is for the policy to judge."""
        part = self._part
        if part.sub_microsecond == "truncate":
            return
        for name in (part.timestamp_by, part.end_by):
            column = part.column(name) if name else None
            if column is not None and pa.types.is_string(columns[column.name].type):
                fine = _true(pc.match_substring_regex(columns[column.name], FINE_FRACTION))
                refuse(fine, f"{column.name}: has more than six fractional digits")

    def _judge_order(self, columns: dict[str, pa.Array], reasons: dict[int, str]) -> Judged:
        """The order's judgement by position in the chunk; records held at the last arrival time get it."""
        good = np.ones(len(columns["sequence"]), dtype=bool)
        good[list(reasons)] = False
        places = np.flatnonzero(good)
        partition = columns["input_partition"].fill_null(FOR_ALL).to_numpy(zero_copy_only=False).astype(np.int64)
        sequence = columns["sequence"].fill_null(0).to_numpy(zero_copy_only=False)
        arrival_us = columns["arrival_time"].cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        of_good = self._order.judge(partition[places], sequence[places], arrival_us[places])
        judged = Judged(
            {int(places[index]): reason for index, reason in of_good.refused.items()},
            {int(places[index]): reason for index, reason in of_good.repeated.items()},
            {int(places[index]): held_us for index, held_us in of_good.held_us.items()},
        )
        reasons |= judged.refused
        if judged.held_us:
            held = np.zeros(len(good), dtype=bool)
            held[list(judged.held_us)] = True
            arrival_us = arrival_us.copy()
            arrival_us[list(judged.held_us)] = list(judged.held_us.values())
            missing = pa.nulls(len(good), TIMESTAMP)
            columns["source_time"] = pc.if_else(pa.array(held), columns["arrival_time"], missing)
            absent = ~_present(columns["arrival_time"])
            columns["arrival_time"] = pa.array(arrival_us, pa.int64(), mask=absent).cast(TIMESTAMP)
            columns["arrival_date"] = _utc_date(columns["arrival_time"])
        return judged


def _utc_date(instants: pa.Array) -> pa.Array:
    return instants.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)


def _present(column: pa.Array) -> Mask:
    mask: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def _true(column: pa.Array) -> Mask:
    mask: Mask = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _is_punctuation(chunk: Chunk, index: int) -> bool:
    if "kind" not in chunk.columns:  # a message of a source is an event
        return False
    return chunk.columns["kind"][index] == PUNCTUATION or chunk.columns["punctuation_time"][index] is not None
