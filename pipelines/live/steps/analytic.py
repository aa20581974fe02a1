"""Analytic functions: what a row finds among the rows up to itself (Q61 to Q78), by one pass over the rows in order."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_type

from pipelines.core.steps import Analytic
from pipelines.core.time import ORIGIN_0001_US
from pipelines.live.state.columns import numbered
from pipelines.live.steps.aggregates import Aggregator, expressions_of
from pipelines.live.steps.expressions import Evaluate
from pipelines.live.steps.relation import Columns, Relation, column_of, taken
from pipelines.live.steps.row_by_row import where_true


def analysed(rows: Relation, functions: Sequence[Analytic], evaluate: Evaluate) -> Relation:
    """Every row with the functions' values over all rows of the relation (Q41)."""
    found = evaluate(rows.named, [text for one in functions for text in _texts(one)])
    defaults = _defaults(rows, functions, found, evaluate)
    added = {one.name: _values(one, rows.times, found, defaults) for one in functions}
    return replace(rows, columns={**rows.columns, **added})


def _texts(one: Analytic) -> list[str]:
    own = [text for text in (one.argument, one.when) if text is not None]
    return [*own, *one.partition_by, *([] if one.aggregate is None else expressions_of(one.aggregate))]


def _defaults(rows: Relation, functions: Sequence[Analytic], found: Columns, evaluate: Evaluate) -> Columns:
    """The default of each function that has one, on the row itself and of the argument's type (Q69)."""
    texts = {one.name: one.default for one in functions if one.default is not None}
    values = evaluate(rows.named, texts.values())
    for one in functions:
        wanted = None if one.argument is None else found[one.argument].type
        if one.name in texts and wanted is not None and values[texts[one.name]].type != wanted:
            texts[one.name] = f"CAST(({one.default}) AS {from_arrow_type(wanted).simpleString()})"
    values = evaluate(rows.named, texts.values())
    return {name: values[text] for name, text in texts.items()}


def _values(one: Analytic, times: Sequence[int], found: Columns, defaults: Columns) -> pa.ChunkedArray:
    """The function's value for each row."""
    fulfils = [one.when is None] * len(times)
    for place in [] if one.when is None else where_true(one.when, found):
        fulfils[place] = True
    partition = numbered([found[text] for text in one.partition_by], len(times))[0].tolist()
    if one.function == "is_first":
        return column_of(list(_are_first(one, times, partition, fulfils)), pa.int64())
    if one.aggregate is not None:
        return Aggregator(one.aggregate, found).over_each(_reached(one, times, partition, fulfils))
    assert one.argument is not None
    looked_up = _looked_up(one, times, partition, fulfils)
    if one.name not in defaults:
        return taken({one.name: found[one.argument]}, looked_up)[one.name]
    # the defaults come after the values
    both = [*found[one.argument].chunks, *defaults[one.name].chunks]
    places = [len(times) + row if place is None else place for row, place in enumerate(looked_up)]
    return pa.chunked_array(both, found[one.argument].type).take(pa.array(places, pa.int64()))


def _looked_up(
    one: Analytic, times: Sequence[int], partition: Sequence[int], fulfils: Sequence[bool]
) -> list[int | None]:
    """For each row the place of the row that LAG or LAST finds; it must itself be in reach (Q65)."""
    seen: defaultdict[int, list[int]] = defaultdict(list)
    found: list[int | None] = []
    for place, time in enumerate(times):
        earlier = seen[partition[place]]
        if one.function == "last" and fulfils[place]:
            earlier.append(place)
        back = one.offset if one.function == "lag" else 1
        wanted = earlier[-back] if len(earlier) >= back else None
        found.append(wanted if wanted is not None and times[wanted] > time - one.within_us else None)
        if one.function == "lag" and fulfils[place]:
            earlier.append(place)
    return found


def _reached(
    one: Analytic, times: Sequence[int], partition: Sequence[int], fulfils: Sequence[bool]
) -> Iterator[list[int]]:
    """For each row the rows in reach, itself included: ``(system timestamp - within, system timestamp]`` (Q62, Q73)."""
    seen: defaultdict[int, list[int]] = defaultdict(list)
    for place, time in enumerate(times):
        earlier = seen[partition[place]]
        if fulfils[place]:
            earlier.append(place)
        yield earlier[bisect_right(earlier, time - one.within_us, key=times.__getitem__) :]


def _are_first(one: Analytic, times: Sequence[int], partition: Sequence[int], fulfils: Sequence[bool]) -> Iterator[int]:
    """1 for the first row of each tumbling window that fulfils the condition, else 0 (Q71)."""
    newest: dict[int, int] = {}
    for place, time in enumerate(times):
        # windows are (start, end]
        window = -((ORIGIN_0001_US - time) // one.within_us)
        is_first = fulfils[place] and newest.get(partition[place]) != window
        if is_first:
            newest[partition[place]] = window
        yield int(is_first)
