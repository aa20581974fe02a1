"""What the policy of atlas asks of the steps before the first window, which is of sessions: whom they let through, and
how they chain sessions."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch.columns import PARTITION, SEQUENCE
from pipelines.batch.decisions import WindowRules
from pipelines.batch.steps.outputs import Evaluator, counted
from pipelines.batch.steps.relation import ORDER
from pipelines.batch.stream_analytics.windows import windowed
from pipelines.core.model import EVERYTHING, Input, Job, Session
from pipelines.core.steps import Applied, Filtered, Projected, Rows, StepRows, Steps, first_window

PASSES = "__passes"
"""Whether no filter removes the event before the first window (G2)."""


def with_marks(job: Job, source: Input, events: DataFrame, at: str) -> tuple[DataFrame, Session]:
    """``events`` with PASSES and the columns that sessions are chained by, which filters do not take away; and the
    window over these columns.

    Column ``at`` is the time that counts. Of an event that becomes several rows the first one says the chain.
    """
    assert job.steps is not None
    first = first_window(job.steps)
    assert first is not None
    assert isinstance(first.window, Session)
    counting = counted(events.filter(F.col(at).isNotNull()), source, at)
    evaluator = Evaluator(job, job.steps, {source.name: counting}, {}, EVERYTHING, WindowRules(windowed))
    place = F.col(ORDER)["place"]
    names = ["__of_partition", "__of_sequence"]
    event = [place[of].alias(name) for of, name in zip(("input_partition", "sequence"), names, strict=True)]
    kept = evaluator.relation(first.rows).frame.select(*event, F.lit(True).alias(PASSES)).distinct()
    chains = {f"__chain_of_{index}": text for index, text in enumerate(first.window.partition_by)}
    unfiltered = evaluator.relation(_without_filters(first.rows, job.steps)).computed(chains, ORDER)
    of_first = (F.min_by(F.col(name), F.col(ORDER)).alias(name) for name in chains)
    marks = unfiltered.select(*event, ORDER, *chains).groupBy(*names).agg(F.count(F.lit(1)).alias("__rows"), *of_first)
    marked = marks.drop("__rows").join(kept, names, "left")
    same = (F.col(PARTITION) == F.col(names[0])) & (F.col(SEQUENCE) == F.col(names[1]))
    found = events.join(marked, same, "left").drop(*names)
    passes = F.coalesce(F.col(PASSES), F.lit(False))
    return found.withColumn(PASSES, passes), replace(first.window, partition_by=tuple(chains))


def _without_filters(rows: Rows, steps: Steps) -> Rows:
    """The relation in which each event is still there."""
    match rows:
        case Filtered(inner):
            return _without_filters(inner, steps)
        case StepRows(name):
            return _without_filters(steps.step(name), steps)
        case Projected(inner):
            return replace(rows, rows=_without_filters(inner, steps))
        case Applied(inner):
            return replace(rows, rows=_without_filters(inner, steps), outer=True)
        case _:
            return rows
