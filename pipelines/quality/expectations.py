"""Great Expectations suites over results: ``windows/<job>`` and ``reconciliations/<job>``, never raw events.

The rows go through pandas, where a suite takes a second; on Spark each expectation would be a job. Loading the library
takes 10 to 20 s, so it is loaded when a suite runs. It is told to send nothing anywhere.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.core.errors import UsageError
from pipelines.core.model import AnyOf, Job, OutputRange, Snapshot, output_name
from pipelines.lakehouse.documents import quality_document, write_document
from pipelines.lakehouse.layout import WINDOWS, OutputTable, reconciliations_table, row_keys, table_columns
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain, plain_rows, rows_of
from pipelines.quality.checks import SAMPLE, CheckResult, keys_are_unique

MAX_ROWS = 500_000
"""Rows that a suite takes; more belong to the contracts, which run on Spark."""

STATUSES = ("different", "missing_in_replay", "missing_in_stream", "duplicated_in_stream")
ROUNDING = "floating_point_only"
"""The one cause of a difference that is no difference: doubles that differ by less than rounding explains."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation by its class name in Great Expectations; ``told`` is what a broken one says of a row."""

    kind: str
    arguments: Mapping[str, Any]
    told: str


def window_expectations(job: Job, columns: Sequence[str]) -> list[Expectation]:
    """What the rows of ``windows/<job>`` promise; ``columns`` are those that the table should have."""
    query = job.window_query
    keys = ["window_start", "window_end", "window_id", *map(output_name, query.group_by)]
    never_null = ["window_start", "window_end", "output_date"]
    never_null += [one.name for one in query.aggregates if one.function in ("count", "collect")]
    found = [
        Expectation("ExpectTableColumnsToMatchSet", {"column_set": sorted(columns), "exact_match": True}, "columns"),
        *(Expectation("ExpectColumnValuesToNotBeNull", {"column": name}, f"{name} is null") for name in never_null),
        Expectation(
            "ExpectColumnPairValuesAToBeGreaterThanB",
            {"column_A": "window_end", "column_B": "window_start", "or_equal": _may_be_empty(job)},
            "window_end does not lie after window_start",
        ),
    ]
    if keys_are_unique(job):
        told = "there is another row of this key"
        found.append(Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": keys}, told))
    if isinstance(query.window, AnyOf):
        ids = [name for name, _ in query.window.members]
        arguments = {"column": "window_id", "value_set": ids}
        found.append(Expectation("ExpectColumnValuesToNotBeNull", {"column": "window_id"}, "window_id is null"))
        found.append(Expectation("ExpectColumnValuesToBeInSet", arguments, "window_id is no window of the job"))
    for one in query.aggregates:
        if one.function == "count":
            least = 1 if one.argument is None else 0
            bound = {"column": one.name, "min_value": least}
            found.append(Expectation("ExpectColumnValuesToBeBetween", bound, f"{one.name} is below {least}"))
    return found + _ordered_pairs(job)


def output_expectations(job: Job, one: OutputTable) -> list[Expectation]:
    """What the rows of an output of steps promise."""
    columns = table_columns(job, one)
    found = [
        Expectation("ExpectTableColumnsToMatchSet", {"column_set": sorted(columns), "exact_match": True}, "columns"),
        *(
            Expectation("ExpectColumnValuesToNotBeNull", {"column": name}, f"{name} is null")
            for name in (one.layout.time, one.layout.day)
        ),
    ]
    if one.has_windows:
        pair = {"column_A": "window_end", "column_B": "window_start", "or_equal": True}
        told = "window_end lies before window_start"
        found.append(Expectation("ExpectColumnPairValuesAToBeGreaterThanB", pair, told))
    keys = row_keys(job, one)
    if keys:
        told = "there is another row of this key"
        found.append(Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": list(keys)}, told))
    return found


def reconciliation_expectations() -> list[Expectation]:
    """What the rows of ``reconciliations/<job>`` promise, the last one being that there is no true difference."""
    return [
        Expectation(
            "ExpectColumnValuesToBeInSet", {"column": "status", "value_set": list(STATUSES)}, "the status is not known"
        ),
        Expectation("ExpectColumnValuesToNotBeNull", {"column": "status"}, "the status is null"),
        Expectation("ExpectColumnValuesToNotBeNull", {"column": "cause"}, "no cause is named"),
        Expectation(
            "ExpectColumnValuesToBeInSet",
            {"column": "cause", "value_set": [ROUNDING]},
            "the replay and the live run differ",
        ),
    ]


def check_results(
    lakehouse: Lakehouse, job: Job, one: OutputTable, output: OutputRange, *, blocking: bool = True
) -> CheckResult | None:
    """``window_contract``, of other outputs ``output_contract``: the suite over an output's table in ``output``; None
    where it is not written.

    Suite and result are kept as ``_quality/<job>/windows.json``, of other outputs ``_quality/<job>/<output>.json``.
    Raises :class:`UsageError` beyond :data:`MAX_ROWS`.
    """
    is_windows = one.layout is WINDOWS
    rows = rows_of(job, "windows" if is_windows else f"outputs/{one.output}", lakehouse, output)
    if rows is None:
        return None
    columns = table_columns(job, one)
    expectations = window_expectations(job, columns) if job.steps is None else output_expectations(job, one)
    keys = row_keys(job, one) or columns
    name = "window_contract" if is_windows else "output_contract"
    document = "windows" if is_windows else one.output
    return _check(lakehouse, job, name, one.table, document, rows, expectations, keys, blocking)


def check_matches_stream(
    lakehouse: Lakehouse, job: Job, one: OutputTable, output: OutputRange, *, blocking: bool = True
) -> CheckResult | None:
    """``matches_stream``: no true difference in the table of differences; None where nothing was ever reconciled.

    Suite and result are kept as ``_quality/<job>/reconciliations.json``, with the output's name in front where it is
    not in ``windows/<job>``.
    """
    is_windows = one.layout is WINDOWS
    rows = rows_of(job, "reconciliations" if is_windows else f"reconciliations/{one.output}", lakehouse, output)
    if rows is None:
        return None
    wanted = (*(row_keys(job, one) or table_columns(job, one)), "status", "cause")
    keys = tuple(name for name in wanted if name in rows.column_names)
    document = "reconciliations" if is_windows else f"{one.output}_reconciliations"
    table = reconciliations_table(job, one)
    return _check(
        lakehouse, job, "matches_stream", table, document, rows, reconciliation_expectations(), keys, blocking
    )


def _check(
    lakehouse: Lakehouse,
    job: Job,
    name: str,
    table: str,
    document: str,
    rows: pa.Table,
    expectations: Sequence[Expectation],
    keys: Sequence[str],
    blocking: bool,
) -> CheckResult:
    if rows.num_rows > MAX_ROWS:
        raise UsageError(
            f"{table} has {rows.num_rows} rows in this range, and a suite takes {MAX_ROWS}",
            hint="check a shorter range",
        )
    suite, answer = _validated(table, rows, expectations)
    result = _judged(name, table, rows, expectations, answer, keys, blocking)
    content = {"suite": suite, "result": result.as_dict(), "statistics": answer["statistics"]}
    text = json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True)
    write_document(lakehouse, quality_document(job.name, document), text + "\n")
    return result


def _validated(name: str, rows: pa.Table, expectations: Sequence[Expectation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The suite, and Great Expectations' answer over ``rows``, both as JSON-ready data."""
    gx = _library()
    frame = _pandas(rows)
    with _quiet():
        context = gx.get_context(mode="ephemeral", project_config=_in_memory())
        suite = gx.ExpectationSuite(
            name=name,
            # the answer promises no order, so each expectation carries its number
            expectations=[
                getattr(gx.expectations, one.kind)(**one.arguments, meta={"number": number})
                for number, one in enumerate(expectations)
            ],
        )
        suite = context.suites.add(suite)
        asset = context.data_sources.add_pandas("rows").add_dataframe_asset(name)
        batch = asset.add_batch_definition_whole_dataframe("range").get_batch({"dataframe": frame})
        answer = batch.validate(suite, result_format={"result_format": "COMPLETE"})
    return _without_ids(suite.to_json_dict()), answer.to_json_dict()


def _judged(
    name: str,
    table: str,
    rows: pa.Table,
    expectations: Sequence[Expectation],
    answer: Mapping[str, Any],
    keys: Sequence[str],
    blocking: bool,
) -> CheckResult:
    """The answer as a :class:`CheckResult`: which rows broke which expectation."""
    broken: dict[int, list[str]] = {}
    problems = []
    for one, result in _matched(expectations, answer["results"]):
        if result["success"]:
            continue
        found = [int(row) for row in result["result"].get("unexpected_index_list") or []]
        for row in found:
            broken.setdefault(row, []).append(one.told)
        problems.append(f"{one.told} in {len(found)} row(s)" if found else _whole_table(one, result))
    if not problems:
        text = f"{len(expectations)} expectations of {table} hold over {rows.num_rows} row(s)"
        return CheckResult(name, True, blocking, 0, (), text)
    sample = _sample(rows, broken, keys)
    return CheckResult(name, False, blocking, len(broken), sample, f"{table}: {'; '.join(problems)}")


def _matched(
    expectations: Sequence[Expectation], results: Sequence[Mapping[str, Any]]
) -> list[tuple[Expectation, Mapping[str, Any]]]:
    by_number = {result["expectation_config"]["meta"]["number"]: result for result in results}
    assert sorted(by_number) == list(range(len(expectations))), "there is one answer for each expectation"
    return [(one, by_number[number]) for number, one in enumerate(expectations)]


def _whole_table(one: Expectation, result: Mapping[str, Any]) -> str:
    raised = result.get("exception_info") or {}
    text = raised.get("exception_message") or json.dumps(result["result"].get("details") or {}, default=str)
    return f"{one.told}: {text}"


def _sample(rows: pa.Table, broken: Mapping[int, Sequence[str]], keys: Sequence[str]) -> tuple[dict[str, object], ...]:
    first = sorted(broken)[:SAMPLE]
    told = plain_rows(rows.select(list(keys)).take(pa.array(first, pa.int64())))
    return tuple({**row, "problem": "; ".join(broken[place])} for row, place in zip(told, first, strict=True))


def _pandas(rows: pa.Table) -> Any:
    """``rows`` for pandas, numbered by its index: nested values as text, no whole number made inexact by a null."""
    columns: dict[str, pa.ChunkedArray | pa.Array] = {}
    for name in rows.column_names:
        column = rows[name]
        if pa.types.is_nested(column.type):
            values = column.to_pylist(maps_as_pydicts="strict")
            column = pa.array([None if value is None else json.dumps(plain(value)) for value in values], pa.string())
        columns[name] = column
    return pa.table(columns).to_pandas(integer_object_nulls=True)


def _library() -> Any:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with _quiet():
        return importlib.import_module("great_expectations")


def _in_memory() -> Any:
    """A project that lives in memory alone: no folder for a docs site, no bars, nothing sent."""
    base = importlib.import_module("great_expectations.data_context.types.base")
    return base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


class _quiet(warnings.catch_warnings):  # noqa: N801  # used as the context manager that it is
    """Great Expectations' own deprecations, bars and notes are not the user's."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
        logging.getLogger("great_expectations").setLevel(logging.ERROR)


def _without_ids(suite: dict[str, Any]) -> dict[str, Any]:
    """The suite without the random ids: the same job gives the same suite."""
    kept = [{name: value for name, value in one.items() if name != "id"} for one in suite["expectations"]]
    return {**{name: value for name, value in suite.items() if name != "id"}, "expectations": kept}


def _may_be_empty(job: Job) -> bool:
    """Whether a window may begin where it ends, as stream_analytics' snapshots do."""
    members = (
        job.window_query.window.members
        if isinstance(job.window_query.window, AnyOf)
        else (("", job.window_query.window),)
    )
    return job.profile == "stream_analytics" and any(isinstance(window, Snapshot) for _, window in members)


def _ordered_pairs(job: Job) -> list[Expectation]:
    """The greatest of an argument is not less than its least."""
    least = {one.argument: one.name for one in job.window_query.aggregates if one.function == "min"}
    return [
        Expectation(
            "ExpectColumnPairValuesAToBeGreaterThanB",
            {
                "column_A": one.name,
                "column_B": least[one.argument],
                "or_equal": True,
                "ignore_row_if": "either_value_is_missing",
            },
            f"{one.name} is less than {least[one.argument]}",
        )
        for one in job.window_query.aggregates
        if one.function == "max" and one.argument in least
    ]
