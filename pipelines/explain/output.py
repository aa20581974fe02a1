"""The story of rows of an output of steps: which events and which reference data they may be made of.

Steps are not traced row by row: named is what is in reach of the rows' time (:mod:`pipelines.plan.extent`), with what
the policy made of each event. Nothing outside of it decides about them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import Decision, Job, OutputRange
from pipelines.core.time import format_instant
from pipelines.explain.recomputation import Recomputation
from pipelines.explain.story import Story, shown_decision, shown_instant
from pipelines.lakehouse.layout import WINDOWS, OutputTable, output_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain_rows, rows_of
from pipelines.plan.definition import ReadReference
from pipelines.plan.extent import Extent
from pipelines.plan.paths import output_extents
from pipelines.recompute.naming import listed
from pipelines.replay.builder import make_plan

NAMED = 50
"""So many events of a kind are named for each input."""


def why_row(job: Job, name: str | None, at_us: int, keys: Mapping[str, str], lakehouse: str | Path) -> Story:
    """What the rows of an output at an instant may be made of; ``keys``: only rows with these values.

    Reads the arrivals of their read range. Raises :class:`UsageError` if the job has no such output or column.
    """
    place = Lakehouse.at(lakehouse)
    one = output_table(job, name)
    at = OutputRange(at_us, at_us + 1)
    shown = "windows" if one.layout is WINDOWS else f"outputs/{one.output}"
    rows = _rows(job, shown, place, at, keys)
    live = _rows(job, f"stream_{shown}", place, at, keys)
    recomputation = Recomputation(job, place)
    decisions = list(recomputation.around(at).decisions.values())
    read = output_extents(job, one.output)
    inputs = [
        _Reach(part.name, extent, at_us, [decision for decision in decisions if decision.input == part.name])
        for part in job.inputs
        if (extent := read.get(part.name)) is not None
    ]
    references = [reference for reference in make_plan(job, at, place).references if reference.reference in read]
    sentences = [
        _rows_sentence(one, at_us, rows),
        *(sentence for reach in inputs for sentence in reach.sentences()),
        *(f"It looks up {stage}." for stage in map(_reference_text, references)),
        *([] if live is None else [_live_sentence(one, rows, live)]),
    ]
    data: dict[str, object] = {
        "job": job.name,
        "output": one.output,
        "at": format_instant(at_us),
        "rows": rows,
        "inputs": [reach.as_dict() for reach in inputs],
        "references": [reference.as_dict() for reference in references],
        "stream": live,
    }
    return Story(data, tuple(sentences), tuple(recomputation.notes))


class _Reach:
    """The events of one input that are in reach of an instant, by what the policy made of them."""

    def __init__(self, name: str, extent: Extent, at_us: int, decisions: Sequence[Decision]) -> None:
        self.name = name
        self.from_us = None if extent.back_us is None else at_us - extent.back_us
        self.to_us = at_us + extent.ahead_us
        self.counting = [decision for decision in decisions if self._contains(decision.system_timestamp_us)]
        self.moved = [decision for decision in self.counting if decision.reasons]
        away = [decision for decision in decisions if not self._contains(decision.system_timestamp_us)]
        self.elsewhere = [decision for decision in away if self._contains(decision.event_time_us)]

    def _contains(self, time_us: int | None) -> bool:
        return time_us is not None and (self.from_us is None or time_us >= self.from_us) and time_us <= self.to_us

    def sentences(self) -> list[str]:
        first = "the beginning" if self.from_us is None else format_instant(self.from_us)
        ids = listed([_id(decision) for decision in self.counting])
        named = f": {ids}" if self.counting else ""
        found = [
            f"It may be made of the events of {self.name} that count from {first} to {format_instant(self.to_us)}:"
            f" there are {len(self.counting)}{named}."
        ]
        if self.moved:
            found.append(f"The policy moved {len(self.moved)} of them there: {listed([*map(_moved, self.moved)])}.")
        if self.elsewhere:
            found.append(
                f"{len(self.elsewhere)} event(s) of {self.name} happened there and do not count there:"
                f" {listed([*map(_moved, self.elsewhere)])}."
            )
        return found

    def as_dict(self) -> dict[str, object]:
        return {
            "input": self.name,
            "from": shown_instant(self.from_us),
            "to": format_instant(self.to_us),
            "events": len(self.counting),
            "moved": len(self.moved),
            "happened_there_only": len(self.elsewhere),
            "counting": [_shown(decision) for decision in self.counting[:NAMED]],
            "elsewhere": [_shown(decision) for decision in self.elsewhere[:NAMED]],
        }


def _rows(
    job: Job, table: str, lakehouse: Lakehouse, at: OutputRange, keys: Mapping[str, str]
) -> list[dict[str, object]] | None:
    """The rows of the instant with these values; None where the table is not written."""
    found = rows_of(job, table, lakehouse, at)
    if found is None:
        return None
    for name in keys:
        if name not in found.column_names:
            raise UsageError(f"{table} has no column '{name}'; {did_you_mean(name, found.column_names)}", key="--key")
    rows = plain_rows(found.drop_columns([name for name in ("output_date",) if name in found.column_names]))
    return [row for row in rows if all(_text(row[name]) == text for name, text in keys.items())]


def _text(value: object) -> str:
    return "null" if value is None else str(value)


def _rows_sentence(one: OutputTable, at_us: int, rows: Sequence[Mapping[str, object]] | None) -> str:
    if rows is None:
        return f"{one.table} is not written yet; this is what its rows at {format_instant(at_us)} depend on."
    if not rows:
        return f"{one.table} has no such row at {format_instant(at_us)}."
    times = ("system_timestamp", "window_start", "window_end", "window_id")
    values = ", ".join(f"{name} {_text(value)}" for name, value in rows[0].items() if name not in times)
    count = f"{len(rows)} rows, the first with" if len(rows) > 1 else "a row with"
    return f"{one.table} has at {format_instant(at_us)} {count} {values}."


def _live_sentence(
    one: OutputTable, rows: Sequence[Mapping[str, object]] | None, live: Sequence[Mapping[str, object]]
) -> str:
    ours = len(rows or ())
    return f"The live run has {len(live)} such row(s) in {one.live}, the replay {ours}."


def _reference_text(one: ReadReference) -> str:
    snapshots = "" if one.snapshots_us is None else f", snapshots of {listed([*map(format_instant, one.snapshots_us)])}"
    return f"{one.table} at version {one.version}{snapshots}"


def _id(decision: Decision) -> str:
    return f"{decision.input}/{decision.input_partition}/{decision.sequence}"


def _moved(decision: Decision) -> str:
    why = ", ".join(decision.reasons)
    at_us = decision.system_timestamp_us
    where = "dropped" if at_us is None else f"counts at {format_instant(at_us)}"
    return f"{_id(decision)} ({why}: {where})" if why else f"{_id(decision)} ({where})"


def _shown(decision: Decision) -> dict[str, object]:
    return {"event": _id(decision), "event_time": shown_instant(decision.event_time_us), **shown_decision(decision)}
