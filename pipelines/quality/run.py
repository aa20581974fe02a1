"""All checks of a job over a range, in one go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pipelines.core.errors import TailraceError
from pipelines.core.model import Job, OutputRange
from pipelines.lakehouse.layout import OutputTable, arrivals_table, output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.arrivals import OrderReport
from pipelines.quality.checks import CheckResult
from pipelines.quality.conservation import Conservation

STEPS = 4
"""How often :func:`run_checks` calls ``progress``."""


def run_checks(
    job: Job, lakehouse: Lakehouse, output: OutputRange, progress: Callable[[str], None] | None = None
) -> tuple[list[CheckResult], list[str]]:
    """Every check of ``job`` over ``output``, and in sentences which were not run and why. Starts Spark.

    In order: ``arrival_order`` and ``arrival_contract`` of each input, ``conservation``; of each output
    ``window_schema`` and ``window_contract`` (``output_schema`` and ``output_contract`` if it is one of steps), and
    ``matches_stream``. All are blocking.
    """
    tell = progress or (lambda _: None)
    tell("starting Spark")
    from pipelines.quality.outputs import check_output
    from pipelines.runtime.session import session

    spark = session()
    found: list[CheckResult] = []
    skipped: list[str] = []
    tell("checking the logs")
    for part in job.logs:
        if lakehouse.open(arrivals_table(part.name)) is None:
            skipped.append(f"The log of {part.name} is not written, so it was not checked.")
            continue
        found += _of_log(job, lakehouse, part.name, output)
    tell("checking the outputs")
    outputs = [one for one in output_tables(job) if lakehouse.open(one.table) is not None]
    if not outputs:
        names = ", ".join(one.table for one in output_tables(job))
        skipped.append(f"No replay has written {names}, so neither results nor the events' fates were checked.")
        return found, skipped
    from pipelines.quality.conservation import conservation

    if len(skipped) == 0:
        found.append(_conserved(conservation(spark, lakehouse, job, output)))
    tell("checking the results")
    for one in outputs:
        results = [check_output(spark, lakehouse, job, one, output), *_suites(job, lakehouse, one, output, skipped)]
        suffix = f": {one.output}" if len(outputs) > 1 else ""
        found += [replace(result, name=f"{result.name}{suffix}") for result in results]
    return found, skipped


def _of_log(job: Job, lakehouse: Lakehouse, name: str, output: OutputRange) -> list[CheckResult]:
    from pipelines.quality.arrivals import arrival_order
    from pipelines.quality.contracts import check_arrivals
    from pipelines.runtime.session import session

    order = _ordered(name, arrival_order(session(), lakehouse, name, output))
    contract = check_arrivals(session(), lakehouse, job.input(name), output)
    suffix = f": {name}" if len(job.inputs) > 1 else ""
    return [replace(result, name=f"{result.name}{suffix}") for result in (order, contract)]


def _suites(
    job: Job, lakehouse: Lakehouse, one: OutputTable, output: OutputRange, skipped: list[str]
) -> list[CheckResult]:
    from pipelines.quality.expectations import check_matches_stream, check_results

    found = []
    for check, otherwise in (
        (check_results, f"No replay has written {one.table}."),
        (
            check_matches_stream,
            f"{one.table} was not reconciled, so whether the results match the live run's was not checked.",
        ),
    ):
        try:
            result = check(lakehouse, job, one, output)
        except TailraceError as error:
            skipped.append(f"{str(error)[:1].upper()}{str(error)[1:]}.")
            continue
        if result is None:
            skipped.append(otherwise)
        else:
            found.append(result)
    return found


def _ordered(name: str, report: OrderReport) -> CheckResult:
    if not report.broken:
        told = f"the {report.rows} row(s) of {arrivals_table(name)} stand in arrival order"
        return CheckResult("arrival_order", True, True, 0, (), told)
    sample = tuple(row.as_dict() for row in report.named)
    told = f"{report.broken} of {report.rows} row(s) of {arrivals_table(name)} break arrival order"
    return CheckResult("arrival_order", False, True, report.broken, sample, told)


def _conserved(report: Conservation) -> CheckResult:
    if report.holds:
        told = f"each of {report.events} event(s) has exactly one fate"
        return CheckResult("conservation", True, True, 0, (), told)
    sample: Sequence[dict[str, object]] = [{"problem": problem} for problem in report.problems]
    told = f"{len(report.problems)} problem(s); the first: {report.problems[0]}"
    return CheckResult("conservation", False, True, len(sample), tuple(sample[:20]), told)
