"""Rows joined with reference data: one static set, or the snapshot that holds at the row's time (Q79 to Q87)."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import SYSTEM_US
from pipelines.batch.steps.joined import side
from pipelines.batch.steps.relation import EFFECTIVE_US, ORDER, POSITION, Relation, analysed_by, then_by
from pipelines.core.expressions import quoted
from pipelines.core.model import Reference
from pipelines.core.steps import Gathered, Referenced

_LEFT, _RIGHT = "__left", "__right"
_SNAPSHOTS = "__snapshots"
_ROW = "__row"
_MOST_BITS = 24
"""So many binary digits has the number of snapshots at most."""


@dataclass(frozen=True)
class Snapshots:
    """The times from which each snapshot of ``reference`` holds, in column EFFECTIVE_US of ``rows``.

    Rows that count before ``from_us`` may come before the first snapshot: nothing asks for them.
    """

    reference: Reference
    rows: DataFrame
    from_us: int | None


def referenced(rows: Relation, reference: Relation, one: Referenced, snapshots: Snapshots | None) -> Relation:
    """A row for each matching row of the reference, in the order of its file; of a LEFT join rows alone too.

    The query fails where a row comes before the first snapshot (Q87).
    """
    names = one.rows.name, one.reference.name
    served = rows if snapshots is None else _with_snapshot(rows, snapshots)
    a = side(served, names[0], _LEFT, [key for key, _ in one.keys], *([] if snapshots is None else [EFFECTIVE_US]))
    b = side(reference, names[1], _RIGHT, [key for _, key in one.keys])
    same = F.lit(True) if snapshots is None else F.col(_LEFT + EFFECTIVE_US) == F.col(_RIGHT + EFFECTIVE_US)
    for index in range(len(one.keys)):
        same = same & (F.col(f"{_LEFT}_key{index}") == F.col(f"{_RIGHT}_key{index}"))
    if one.condition is not None:
        same = same & F.expr(one.condition)
    with analysed_by(a.crossJoin(b), rows.ansi, () if one.condition is None else (one.condition,)):
        found = a.join(b, same, one.kind)
    hidden = (F.col(_LEFT + name).alias(name) for name in rows.hidden)
    frame = found.select(*map(quoted, names), *hidden, _RIGHT + POSITION)
    in_file = frame.withColumn(ORDER, then_by(F.col(_RIGHT + POSITION))).drop(_RIGHT + POSITION)
    return rows.with_columns(in_file, names)


def gathered(rows: Relation, one: Gathered) -> Relation:
    """A row for each snapshot and key, at the place of the first of its rows (Q105)."""
    row = F.struct(*map(quoted, rows.columns)).alias("row")
    given = rows.with_columns(rows.frame.withColumn(_ROW, row), (*rows.columns, _ROW))
    found = given.computed({one.key.name: one.key.expression}, *rows.hidden, _ROW)
    found_rows = F.collect_list(F.struct(POSITION, _ROW))
    in_file = F.array_sort(found_rows, lambda left, right: F.signum(left[POSITION] - right[POSITION]).cast("int"))
    grouped = found.groupBy(EFFECTIVE_US, quoted(one.key.name)).agg(
        F.min(POSITION).alias(POSITION), in_file[_ROW].alias(one.name)
    )
    return rows.with_columns(grouped, (one.key.name, one.name))


def _with_snapshot(rows: Relation, snapshots: Snapshots) -> Relation:
    """``rows`` with EFFECTIVE_US, the time of the snapshot that serves each."""
    times = snapshots.rows.agg(F.sort_array(F.collect_set(EFFECTIVE_US)).alias(_SNAPSHOTS))
    by_arrival = snapshots.reference.time == "arrival"
    at = F.col(ORDER)["place"]["arrival_us"] if by_arrival else F.col(SYSTEM_US)
    snapshot = _last_until(F.col(_SNAPSHOTS), at)
    is_asked_for = F.lit(True) if snapshots.from_us is None else F.col(SYSTEM_US) >= snapshots.from_us
    sentence = F.concat(
        F.lit(f"reference '{snapshots.reference.name}' has no snapshot for a row of "),
        F.timestamp_micros(at).cast("string"),
        F.lit(": the first one is of "),
        F.coalesce(F.timestamp_micros(F.get(_SNAPSHOTS, F.lit(0))).cast("string"), F.lit("never")),
        F.lit("; ingest an earlier snapshot, or begin the range later"),
    )
    checked = F.when(snapshot.isNull() & is_asked_for, F.raise_error(sentence).cast("bigint")).otherwise(snapshot)
    served = rows.frame.crossJoin(F.broadcast(times)).withColumn(EFFECTIVE_US, checked).drop(_SNAPSHOTS)
    return rows.with_columns(served, rows.columns)


def _last_until(times: Column, at: Column) -> Column:
    """The last of ascending ``times`` that is not after ``at``, by halving; null if there is none."""
    widths = F.array(*(F.lit(1 << bit) for bit in reversed(range(_MOST_BITS))))

    def passed(found: Column, width: Column) -> Column:
        return F.when(F.get(times, found + width - 1) <= at, found + width).otherwise(found)

    return F.get(times, F.aggregate(widths, F.lit(0), passed) - 1)
