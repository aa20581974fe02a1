"""Great Expectations suites over results: ``windows/<job>`` and ``reconciliations/<job>``, never raw events.

The rows are checked in pandas, where a suite takes a second; on Spark each expectation would be a job. Importing the
library takes 10 to 20 s, so it is imported when a suite runs. Its analytics are turned off.
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
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain, plain_rows, rows_of
from pipelines.quality.check_result import SAMPLE_ROWS, CheckResult, keys_are_unique

MAX_ROWS = 500_000
"""The most rows that a suite checks; the contracts, which run on Spark, have no limit."""

STATUSES = ("different", "missing_in_replay", "missing_in_stream", "duplicated_in_stream")
ROUNDING = "floating_point_only"
"""The cause of a difference that passes: doubles that differ by no more than rounding explains."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation by its class name in Great Expectations; ``problem`` describes a row that breaks it."""

    kind: str
    arguments: Mapping[str, Any]
    problem: str


def window_expectations(job: Job, columns: Sequence[str]) -> list[Expectation]:
    """What every row of ``windows/<job>`` must satisfy; ``columns`` are those that the table must have."""
    query = job.query
    keys = ["window_start", "window_end", "window_id", *map(output_name, query.group_by)]
    never_null = ["window_start", "window_end", "output_date"]
    never_null += [one.name for one in query.aggregates if one.function in ("count", "collect")]
    found = [
        Expectation("ExpectTableColumnsToMatchSet", {"column_set": sorted(columns), "exact_match": True}, "columns"),
        *(Expectation("ExpectColumnValuesToNotBeNull", {"column": name}, f"{name} is null") for name in never_null),
        Expectation(
            "ExpectColumnPairValuesAToBeGreaterThanB",
            {"column_A": "window_end", "column_B": "window_start", "or_equal": _may_be_empty(job)},
            "window_end is not after window_start",
        ),
    ]
    if keys_are_unique(job):
        problem = "there is another row of this key"
        found.append(Expectation("ExpectCompoundColumnsToBeUnique", {"column_list": keys}, problem))
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


def reconciliation_expectations() -> list[Expectation]:
    """What every row of ``reconciliations/<job>`` must satisfy; the last one: the sides do not differ."""
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


def check_window_results(lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult | None:
    """``window_contract``: the suite over ``windows/<job>`` in ``output``; None where the table is not written.

    Suite and result are kept as ``_quality/<job>/windows.json``. Raises :class:`UsageError` beyond :data:`MAX_ROWS`.
    """
    rows = rows_of(job, "windows", lakehouse, output)
    if rows is None:
        return None
    keys = ["window_start", "window_end", "window_id", *map(output_name, job.query.group_by)]
    columns = [*keys, *(one.name for one in job.query.aggregates), "output_date"]
    return _check(lakehouse, job, "window_contract", "windows", rows, window_expectations(job, columns), keys)


def check_matches_stream(lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult | None:
    """``matches_stream``: no true difference in ``reconciliations/<job>``; None where nothing was ever reconciled.

    Suite and result are kept as ``_quality/<job>/reconciliations.json``.
    """
    rows = rows_of(job, "reconciliations", lakehouse, output)
    if rows is None:
        return None
    wanted = ("window_start", "window_end", "window_id", *map(output_name, job.query.group_by), "status", "cause")
    keys = [name for name in wanted if name in rows.column_names]
    return _check(lakehouse, job, "matches_stream", "reconciliations", rows, reconciliation_expectations(), keys)


def _check(
    lakehouse: Lakehouse,
    job: Job,
    name: str,
    table: str,
    rows: pa.Table,
    expectations: Sequence[Expectation],
    keys: Sequence[str],
) -> CheckResult:
    if rows.num_rows > MAX_ROWS:
        raise UsageError(
            f"{table}/{job.name} has {rows.num_rows} rows in this range; a suite checks at most {MAX_ROWS}",
            hint="check a shorter range",
        )
    suite, answer = _validated(f"{table}/{job.name}", rows, expectations)
    result = _judged(name, f"{table}/{job.name}", rows, expectations, answer, keys)
    document = {"suite": suite, "result": result.as_dict(), "statistics": answer["statistics"]}
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
    write_document(lakehouse, quality_document(job.name, table), text + "\n")
    return result


def _validated(name: str, rows: pa.Table, expectations: Sequence[Expectation]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The suite, and the result of Great Expectations over ``rows``, both as JSON-ready data."""
    gx = _library()
    frame = _pandas(rows)
    with _quiet():
        context = gx.get_context(mode="ephemeral", project_config=_in_memory())
        suite = gx.ExpectationSuite(
            name=name,
            # results come in no fixed order, so each expectation has its number
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
) -> CheckResult:
    """The result as a :class:`CheckResult`: which rows broke which expectation."""
    broken: dict[int, list[str]] = {}
    problems = []
    for one, result in _matched(expectations, answer["results"]):
        if result["success"]:
            continue
        found = [int(row) for row in result["result"].get("unexpected_index_list") or []]
        for row in found:
            broken.setdefault(row, []).append(one.problem)
        problems.append(f"{one.problem} in {len(found)} row(s)" if found else _whole_table(one, result))
    if not problems:
        text = f"{rows.num_rows} row(s) of {table} meet {len(expectations)} expectations"
        return CheckResult(name, True, True, 0, (), text)
    sample = _sample(rows, broken, keys)
    return CheckResult(name, False, True, len(broken), sample, f"{table}: {'; '.join(problems)}")


def _matched(
    expectations: Sequence[Expectation], results: Sequence[Mapping[str, Any]]
) -> list[tuple[Expectation, Mapping[str, Any]]]:
    by_number = {result["expectation_config"]["meta"]["number"]: result for result in results}
    assert sorted(by_number) == list(range(len(expectations))), "there is one result for each expectation"
    return [(one, by_number[number]) for number, one in enumerate(expectations)]


def _whole_table(one: Expectation, result: Mapping[str, Any]) -> str:
    raised = result.get("exception_info") or {}
    text = raised.get("exception_message") or json.dumps(result["result"].get("details") or {}, default=str)
    return f"{one.problem}: {text}"


def _sample(rows: pa.Table, broken: Mapping[int, Sequence[str]], keys: Sequence[str]) -> tuple[dict[str, object], ...]:
    first = sorted(broken)[:SAMPLE_ROWS]
    named = plain_rows(rows.select(list(keys)).take(pa.array(first, pa.int64())))
    return tuple({**row, "problem": "; ".join(broken[place])} for row, place in zip(named, first, strict=True))


def _pandas(rows: pa.Table) -> Any:
    """``rows`` for pandas, numbered by its index: nested values as text, integers exact where a column has nulls."""
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
    """A project in memory: no folder for a docs site, no progress bars, no analytics."""
    base = importlib.import_module("great_expectations.data_context.types.base")
    return base.DataContextConfig(
        store_backend_defaults=base.InMemoryStoreBackendDefaults(init_temp_docs_sites=False),
        progress_bars=base.ProgressBarsConfig(globally=False),
        analytics_enabled=False,
    )


class _quiet(warnings.catch_warnings):  # noqa: N801  # used as a context manager
    """Hides the deprecation warnings and notes of Great Expectations, which a user cannot act on."""

    def __enter__(self) -> None:
        super().__enter__()
        warnings.simplefilter("ignore")
        logging.getLogger("great_expectations").setLevel(logging.ERROR)


def _without_ids(suite: dict[str, Any]) -> dict[str, Any]:
    """The suite without the random ids: the same job gives the same suite."""
    kept = [{name: value for name, value in one.items() if name != "id"} for one in suite["expectations"]]
    return {**{name: value for name, value in suite.items() if name != "id"}, "expectations": kept}


def _may_be_empty(job: Job) -> bool:
    """Whether a window may start where it ends, as snapshots of stream_analytics do."""
    members = job.query.window.members if isinstance(job.query.window, AnyOf) else (("", job.query.window),)
    return job.profile == "stream_analytics" and any(isinstance(window, Snapshot) for _, window in members)


def _ordered_pairs(job: Job) -> list[Expectation]:
    """The greatest of an argument is not less than its least."""
    least = {one.argument: one.name for one in job.query.aggregates if one.function == "min"}
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
        for one in job.query.aggregates
        if one.function == "max" and one.argument in least
    ]
