"""Relations made row by row: filters, projections, a row for each element, unions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.normalise import condition
from pipelines.batch.steps.relation import ORDER, Relation, analysed_by, in_order, then_by
from pipelines.core.expressions import quoted
from pipelines.core.steps import Applied, Computed

_ARGUMENT = "__argument"
_AT = "__at"


def filtered(rows: Relation, text: str) -> Relation:
    """The rows for which the condition is true (Q31)."""
    visible = rows.visible
    with analysed_by(visible, rows.ansi, (text,)):
        kept = visible.filter(condition(visible, text, "query"))
    return replace(rows, frame=kept.select(*map(quoted, rows.frame.columns)))


def projected(rows: Relation, columns: Sequence[Computed]) -> Relation:
    """One row for each row, with other columns (Q20)."""
    expressions = {one.name: one.expression for one in columns}
    return rows.with_columns(rows.computed(expressions, *rows.hidden), tuple(expressions))


def applied(rows: Relation, one: Applied) -> Relation:
    """A row for each element of an array or property of a record, which become a struct column (Q44)."""
    names = ["ArrayIndex", "ArrayValue"] if one.of == "array" else ["PropertyName", "PropertyValue"]
    kept = rows.frame.columns
    given = rows.computed({_ARGUMENT: one.argument}, *kept)
    explode = F.posexplode_outer if one.outer else F.posexplode
    parts = [_AT, "__value"] if one.of == "array" else [_AT, "__name", "__value"]
    each = given.select(*map(quoted, kept), explode(_ARGUMENT).alias(*parts))
    values = [F.col(_AT).cast("bigint"), F.col("__value")] if one.of == "array" else map(F.col, parts[1:])
    element = F.struct(*(value.alias(name) for name, value in zip(names, values, strict=True)))
    added = {one.name: F.when(F.col(_AT).isNotNull(), element), ORDER: then_by(F.col(_AT))}
    return rows.with_columns(each.withColumns(added).drop(*parts), (*rows.columns, one.name))


def united(branches: Sequence[Relation]) -> Relation:
    """The rows of all branches, whose columns match by position (Q14).

    Where all stem from events, their own order decides, then the branch (Q6); else the branch, then their own order.
    """
    first, *others = branches
    of_events = all(one.origin == "event" for one in branches)
    alike = all(one.origin == first.origin for one in others)
    origin = first.origin if alike else "rows"
    hidden = replace(first, origin=origin).hidden
    orders = [one.frame.schema[ORDER].dataType for one in branches]
    frames = []
    for index, branch in enumerate(branches):
        own = [F.col(ORDER) if at == index else F.lit(None).cast(kind) for at, kind in enumerate(orders)]
        by_branch = in_order(F.struct(F.lit(index).alias("branch"), *(F.struct(one) for one in own)))
        frame = branch.frame.withColumn(ORDER, then_by(F.lit(index)) if of_events else by_branch)
        frames.append(frame.select(*map(quoted, branch.columns), *hidden))
    return replace(first, frame=reduce(DataFrame.union, frames), origin=origin)
