"""Which expressions are evaluated for each row of an arrival log before the stateful operator gets it."""

from __future__ import annotations

from pipelines.core.errors import UsageError
from pipelines.core.expressions import quoted
from pipelines.core.model import Input, Job, Session
from pipelines.job.expressions import instant_sql
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.plan.extent import first_windows


def readings(compiled: CompiledJob, part: Input) -> dict[str, str]:
    """Spark SQL by column name for the rows of an input.

    ``time`` and ``end`` are BIGINT microseconds; ``passes`` is whether ``where`` keeps the row (G2). ``o0`` and so on
    are the columns in ``over``, ``m`` those in ``match_on``, ``j`` those that a join compares (S14), ``v`` the values
    of a row (:attr:`CompiledJob.texts`, of steps the input's columns).
    """
    times = {"time": part.timestamp_by, "end": part.end_by}
    read = {name: f"unix_micros({instant(text, part)})" for name, text in times.items() if text is not None}
    if part.edge_by is not None:
        read["edge"] = f"CAST({part.edge_by} AS STRING)"
    lists = {"o": part.over, "m": part.match_on}
    if compiled.job.steps is not None:
        lists["v"] = tuple(quoted(column.name) for column in part.columns) if compiled.reads(part.name) else ()
    elif compiled.reads(part.name):
        query = compiled.job.window_query
        lists |= {"j": query.join.on if query.join is not None else (), "v": compiled.texts}
        if query.join is None and query.where is not None:
            read["passes"] = f"coalesce(CAST(({query.where}) AS BOOLEAN), false)"
    for letter, texts in lists.items():
        read |= {f"{letter}{index}": text for index, text in enumerate(texts)}
    return read


def instant(text: str, part: Input) -> str:
    """The text of an expression of time: a TIMESTAMP column as it is, anything else converted."""
    column = part.column(text.strip())
    return text if column is not None and column.type == "timestamp" else instant_sql(text)


def refuse(job: Job) -> None:
    """:class:`UsageError` for what the live run cannot do; docs/live.md lists it."""
    compiled = CompiledJob(job)
    if job.steps is not None:
        _refuse_steps(job)
        return
    if job.window_query.join is not None:
        _ = compiled.sides
    _ = compiled.decision_ranks
    if job.profile == "atlas" and len(job.window_query.sources) > 1 and isinstance(job.window_query.window, Session):
        raise UsageError(
            "the live run has no sessions over a union in profile atlas", key="query.window", hint="replay the job"
        )


def _refuse_steps(job: Job) -> None:
    firsts = first_windows(job)
    what = None
    if job.profile == "stream_insight":
        what = "computes no steps in profile stream_insight"
    elif job.profile == "atlas" and any(isinstance(one.window, Session) for one in firsts):
        what = "has no sessions in a query of steps in profile atlas"
    elif job.profile == "atlas" and len({one.window for one in firsts}) > 1:
        what = "takes one window over the documents of a job in profile atlas, or none"
    if what is not None:
        raise UsageError(f"the live run {what}", key="query", hint="replay the job")
