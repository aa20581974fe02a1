"""The result of a reconciliation: counts, and the first difference in output order as a story."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.core.model import OutputRange
from pipelines.core.time import format_instant
from pipelines.lakehouse.show import plain_rows
from pipelines.reconcile.compare import DUPLICATED_IN_STREAM, STATUSES


@dataclass(frozen=True, kw_only=True)
class Reconciliation:
    """One range compared: rows by status, differences by cause, and the first of them as a row of plain data."""

    job: str
    against: str
    output: OutputRange
    equal: int
    by_status: dict[str, int]
    by_cause: dict[str, int]
    first: Mapping[str, object] | None
    notes: tuple[str, ...]
    table: str
    version: int
    versions_read: dict[str, int]

    @classmethod
    def of(cls, rows: pa.Table, **known: Any) -> Reconciliation:
        """Of the rows of ``reconciliations/<job>`` in output order; ``known`` are the fields that they do not give."""
        by_status, by_cause = (Counter(rows[name].to_pylist()) for name in ("status", "cause"))
        first = next(iter(plain_rows(rows.slice(0, 1).drop_columns(["output_date"]))), None)
        return cls(
            by_status={name: by_status[name] for name in STATUSES if name in by_status},
            by_cause=dict(sorted(by_cause.items(), key=lambda one: (-one[1], one[0]))),
            first=first,
            **known,
        )

    @property
    def differing(self) -> int:
        """How many keys differ."""
        return sum(self.by_status.values())

    @property
    def story(self) -> list[str]:
        """The first difference in output order, in sentences; nothing where all agrees."""
        return [] if self.first is None else _story(self.first)

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "job": self.job,
            "against": self.against,
            "from": None if self.output.from_us is None else format_instant(self.output.from_us),
            "to": None if self.output.to_us is None else format_instant(self.output.to_us),
            "agrees": not self.differing,
            "equal": self.equal,
            "differing": self.differing,
            "by_status": self.by_status,
            "by_cause": self.by_cause,
            "first": None if self.first is None else dict(self.first),
            "story": self.story,
            "notes": list(self.notes),
            "table": self.table,
            "version": self.version,
            "versions_read": self.versions_read,
        }


_TIMES = ("system_timestamp", "window_start", "window_end", "window_id")
_NO_KEYS = {*_TIMES, "status", "cause", "evidence", "replay", "stream", "copies_in_replay", "copies", "emitted_at"}


def _story(row: Mapping[str, object]) -> list[str]:
    """Sentences about one row of a table of differences, given as plain data."""
    keys = ", ".join(f"{name} {_shown(value)}" for name, value in row.items() if name not in _NO_KEYS)
    which = f" of {keys}" if keys else ""
    if "window_end" in row:
        what = f"the window from {row['window_start']} to {row['window_end']}{which}"
    else:
        what = f"the row at {_shown(row.get('system_timestamp'))}{which}"
    if row.get("window_id") is not None:
        what += f" ({row['window_id']})"
    evidence = json.loads(str(row["evidence"]))
    sides = _sides(row) if "replay" in row else _copies(row)
    return [f"The first difference is {what}: {sides}.", f"Cause: {row['cause']}. {evidence['says']}"]


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def _copies(row: Mapping[str, object]) -> str:
    """How often a row without a key is on each side."""
    return f"the replay has it {row['copies_in_replay']} time(s), the live run {row['copies']} time(s)"


def _sides(row: Mapping[str, object]) -> str:
    replay, stream = row["replay"], row["stream"]
    if stream is None:
        return f"the replay has {_values(replay)}, the live run has no such row"
    if replay is None:
        return f"the live run has {_values(stream)}, the replay has no such row"
    copies = f", in {row['copies']} copies" if row["status"] == DUPLICATED_IN_STREAM else ""
    return f"the replay has {_values(replay, stream)}, the live run {_values(stream, replay)}{copies}"


def _values(values: object, other: object = None) -> str:
    """``cars 11, mean 2.5``; next to another side only what differs, unless nothing does."""
    assert isinstance(values, Mapping)
    shown = dict(values)
    if isinstance(other, Mapping):
        shown = {name: value for name, value in values.items() if value != other.get(name)} or shown
    return ", ".join(f"{name} {_shown(value)}" for name, value in shown.items())
