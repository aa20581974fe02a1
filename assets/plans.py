"""A plan in sentences, for a run's log."""

from collections.abc import Iterator

from pipelines.core.time import format_instant
from pipelines.plan.definition import Plan


def sentences(plan: Plan) -> Iterator[str]:
    """What the plan will read and write, before it does."""
    output = ends(plan.output.from_us, plan.output.to_us)
    yield f"plan: replay {plan.job} over [{output})"
    yield f"plan: reads the arrivals [{ends(plan.read.from_us, plan.read.to_us)}] by the rule {plan.read.rule}"
    for reason in plan.read.reasons:
        yield f"plan: {reason}"
    for table in plan.reads:
        rows = "an unknown number of" if table.rows is None else f"at most {table.rows}"
        yield (
            f"plan: opens {table.files} of {table.files_total} files of {table.table} at version {table.version}:"
            f" {rows} rows, {table.size_bytes} bytes"
        )
    for written in plan.writes:
        rows = "an unknown number of" if written.replaced_rows is None else f"at most {written.replaced_rows}"
        yield f"plan: replaces {written.table} where {written.column} lies in [{output}): {rows} rows are there now"
    yield (
        "plan: settled, no later arrival can change the result"
        if plan.settled
        else f"plan: unsettled, {plan.unsettled}"
    )
    for note in plan.notes:
        yield f"plan: note: {note}"


def ends(from_us: int | None, to_us: int | None) -> str:
    """Both ends of a range in words, without its brackets."""
    begin = "the beginning" if from_us is None else format_instant(from_us)
    return f"{begin}, {'the end' if to_us is None else format_instant(to_us)}"
