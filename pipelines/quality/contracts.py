"""Contracts of ``arrivals/<input>`` and ``windows/<job>``, derived from the job and checked by pandera on Spark.

pandera decides whether a table keeps its contract. On Spark it neither raises nor names a row, so its result is read
from ``frame.pandera.errors`` and the rows are found here by the same rules. Types are compared here too: pandera takes
TIMESTAMP and TIMESTAMP_NTZ for one type, and compares the field names inside nested types.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from pipelines.core.expressions import quoted
from pipelines.core.model import AnyOf, Count, Grid, Input, Job, OutputRange, Session, SimpleWindow, Sliding, Snapshot
from pipelines.core.model import output_name as name_of
from pipelines.core.time import format_duration, format_instant
from pipelines.lakehouse.layout import ARRIVALS, WINDOWS, Layout, arrivals_table, windows_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.show import plain
from pipelines.quality.check_result import SAMPLE_ROWS, CheckResult, keys_are_unique
from pipelines.quality.result_types import payload_type, result_types
from pipelines.quality.table_rows import table_rows

if TYPE_CHECKING:
    from pandera.pyspark import DataFrameSchema


@dataclass(frozen=True, slots=True)
class Rule:
    """``violated`` is SQL over one row, true where it breaks the rule on ``column``; null counts as kept."""

    column: str
    name: str
    violated: str


@dataclass(frozen=True, slots=True)
class Contract:
    """``columns`` of a table as (name, type, may be null), its ``rules``, and the columns ``unique`` together, if any.

    ``key`` are the columns that identify a row in messages.
    """

    name: str
    table: str
    layout: Layout
    columns: tuple[tuple[str, T.DataType, bool], ...]
    rules: tuple[Rule, ...]
    key: tuple[str, ...]
    unique: tuple[str, ...] = ()


def arrivals_contract(part: Input) -> Contract:
    """The contract of ``arrivals/<input>``. Needs an active Spark session, which parses the payload's types."""
    rules = [
        Rule("arrival_time", "is in the years 1 to 9999", "NOT year(arrival_time) BETWEEN 1 AND 9999"),
        Rule("input_partition", "is set for every event", "kind = 'event' AND input_partition IS NULL"),
        Rule("input_partition", "is not negative", "input_partition < 0"),
        Rule("sequence", "is not negative", "sequence < 0"),
        Rule("kind", "is event or punctuation", "kind NOT IN ('event', 'punctuation')"),
        Rule("punctuation_time", "is set for every punctuation", "kind = 'punctuation' AND punctuation_time IS NULL"),
        Rule("punctuation_time", "is null for every event", "kind = 'event' AND punctuation_time IS NOT NULL"),
        Rule("arrival_date", "is the UTC date of arrival_time", "arrival_date <> to_date(arrival_time)"),
    ]
    if part.partitions is not None:
        limit = f"input_partition >= {part.partitions}"
        rules.append(Rule("input_partition", f"is at most {part.partitions - 1}, by the job file", limit))
    return Contract(
        name="arrival_contract",
        table=arrivals_table(part.name),
        layout=ARRIVALS,
        columns=(
            ("arrival_time", T.TimestampType(), False),
            ("input_partition", T.IntegerType(), True),
            ("sequence", T.LongType(), False),
            ("kind", T.StringType(), False),
            ("punctuation_time", T.TimestampType(), True),
            ("cause", T.StringType(), True),
            ("batch_id", T.StringType(), False),
            *((field.name, field.dataType, True) for field in payload_type(part)),
            ("arrival_date", T.DateType(), False),
        ),
        rules=tuple(rules),
        key=("input_partition", "sequence", "arrival_time"),
    )


def windows_contract(job: Job, spark: SparkSession) -> Contract:
    """The contract of ``windows/<job>``. Raises :class:`JobFileError` if Spark refuses an aggregate's argument."""
    keys, aggregates = result_types(job, spark)
    names = tuple(name_of(column) for column in job.query.group_by)
    rules = [
        Rule("window_end", "is in the years 1 to 9999", "NOT year(window_end) BETWEEN 1 AND 9999"),
        Rule("output_date", "is the UTC date of window_end", "output_date <> to_date(window_end)"),
        *_window_rules(job),
    ]
    rules += [
        Rule(one.name, "is at least 1: a group without events has no row", f"{quoted(one.name)} < 1")
        if one.argument is None
        else Rule(one.name, "is not negative", f"{quoted(one.name)} < 0")
        for one in job.query.aggregates
        if one.function == "count" or one.function.startswith(("stddev", "var"))
    ]
    never_null = {one.name for one in job.query.aggregates if one.function in ("count", "collect")}
    return Contract(
        name="window_schema",
        table=windows_table(job),
        layout=WINDOWS,
        columns=(
            ("window_start", T.TimestampType(), False),
            ("window_end", T.TimestampType(), False),
            ("window_id", T.StringType(), not isinstance(job.query.window, AnyOf)),
            *((name, kind, True) for name, kind in zip(names, keys, strict=True)),
            *(
                (one.name, kind, one.name not in never_null)
                for one, kind in zip(job.query.aggregates, aggregates, strict=True)
            ),
            ("output_date", T.DateType(), False),
        ),
        rules=tuple(rules),
        key=("window_start", "window_end", "window_id", *names),
        unique=("window_start", "window_end", "window_id", *names) if keys_are_unique(job) else (),
    )


def check_arrivals(spark: SparkSession, lakehouse: Lakehouse, part: Input, output: OutputRange) -> CheckResult:
    """Whether ``arrivals/<input>`` keeps its contract over ``output``; a log that is not written has no rows."""
    return _check(spark, lakehouse, arrivals_contract(part), output)


def check_windows(spark: SparkSession, lakehouse: Lakehouse, job: Job, output: OutputRange) -> CheckResult:
    """Whether ``windows/<job>`` keeps its contract over the window ends in ``output``."""
    return _check(spark, lakehouse, windows_contract(job, spark), output)


def _check(spark: SparkSession, lakehouse: Lakehouse, contract: Contract, output: OutputRange) -> CheckResult:
    if lakehouse.open(contract.table) is None:
        return CheckResult(contract.name, True, True, 0, (), f"{contract.table} is not written yet: no rows")
    return check_frame(table_rows(spark, lakehouse, contract.table, contract.layout.condition(output)), contract)


def check_frame(frame: DataFrame, contract: Contract) -> CheckResult:
    """Whether ``frame`` keeps ``contract``."""
    wrong = _wrong_columns(frame.schema, contract)
    if wrong:
        # rules assume the right types, so with a wrong one every row fails
        return CheckResult(contract.name, False, True, frame.count(), (), _sentence(contract, wrong))
    with _cached(frame) as rows:
        found = _pandera_problems(rows, contract)
        if not found:
            checked = f"{contract.table} keeps {len(contract.columns)} columns and {len(contract.rules)} rules"
            return CheckResult(contract.name, True, True, 0, (), checked)
        counts, failed, sample = _broken_rows(rows, contract)
    # if pandera fails and no row is found, the check fails with pandera's own messages
    problems = [f"{rule.column} {_broken(rule)} in {count} row(s)" for rule, count in counts] or found
    return CheckResult(contract.name, False, True, failed, sample, _sentence(contract, problems))


def _pandera_schema(contract: Contract) -> DataFrameSchema:
    # importing pandera takes about two seconds, so it waits until a check runs
    pandera = importlib.import_module("pandera.pyspark")
    checks: dict[str, list[Any]] = {}
    for rule in contract.rules:
        checks.setdefault(rule.column, []).append(pandera.Check(_holds(rule.violated), name=rule.name, error=rule.name))
    columns = {
        name: pandera.Column(kind, nullable=nullable, checks=checks.get(name))
        for name, kind, nullable in contract.columns
    }
    schema: DataFrameSchema = pandera.DataFrameSchema(
        columns, name=contract.table, strict=True, unique=list(contract.unique) or None
    )
    return schema


def _holds(violated: str) -> Callable[[DataFrame], bool]:
    return lambda frame: frame.filter(violated).limit(1).count() == 0


def _pandera_problems(rows: DataFrame, contract: Contract) -> list[str]:
    """One line of pandera for each rule that is broken; empty if all are kept."""
    schema = _pandera_schema(contract)
    config = importlib.import_module("pandera.config")
    # an environment variable may turn validation off; then everything would pass
    with config.config_context(validation_enabled=True, validation_depth=config.ValidationDepth.SCHEMA_AND_DATA):
        errors: dict[str, dict[str, list[dict[str, str]]]] = schema.validate(rows, lazy=True).pandera.errors or {}
    found = [one for kinds in errors.values() for group in kinds.values() for one in group]
    return [f"{one.get('column')}: {one.get('error')}" for one in found]


def _broken_rows(
    rows: DataFrame, contract: Contract
) -> tuple[list[tuple[Rule, int]], int, tuple[dict[str, object], ...]]:
    """Every broken rule with its number of rows, the number of rows that break any, and the first of them."""
    rules, judged = _all_rules(rows, contract)
    flags = [F.coalesce(F.expr(rule.violated), F.lit(False)) for rule in rules]
    judged = judged.withColumns({f"__broken_{index}": flag for index, flag in enumerate(flags)})
    anywhere = reduce(lambda left, right: left | right, (F.col(f"__broken_{index}") for index in range(len(rules))))
    counted = judged.agg(
        F.count_if(anywhere).alias("any"), *(F.count_if(F.col(f"__broken_{index}")) for index in range(len(rules)))
    ).collect()[0]
    counts = [(rule, counted[index + 1]) for index, rule in enumerate(rules) if counted[index + 1]]
    first = judged.filter(anywhere).orderBy(*_total_order(contract)).limit(SAMPLE_ROWS).collect()
    return counts, counted["any"], tuple(_described(row.asDict(), rules, contract) for row in first)


def _all_rules(rows: DataFrame, contract: Contract) -> tuple[list[Rule], DataFrame]:
    """The contract's rules with nullability and uniqueness written as rules too, and the rows these need."""
    rules = [
        Rule(name, "is not null", f"{quoted(name)} IS NULL") for name, _, nullable in contract.columns if not nullable
    ]
    rules += contract.rules
    if contract.unique:
        from pyspark.sql import Window

        same = Window.partitionBy(*(quoted(name) for name in contract.unique))
        rows = rows.withColumn("__copies", F.count(F.lit(1)).over(same))
        rules.append(Rule(", ".join(contract.unique), "is unique", "__copies > 1"))
    return rules, rows


def _total_order(contract: Contract) -> list[Column]:
    order = [name for name in contract.layout.order if name in contract.key]
    order += [name for name in contract.key if name not in order]
    return [F.col(quoted(name)) for name in order]


def _described(row: dict[str, Any], rules: Sequence[Rule], contract: Contract) -> dict[str, object]:
    broken = [rule for index, rule in enumerate(rules) if row[f"__broken_{index}"]]
    found = {name: plain(row[name]) for name in contract.key}
    found["problem"] = "; ".join(f"{rule.column} {_broken(rule)}" for rule in broken)
    if len(broken) == 1 and broken[0].column in row:
        found["column"], found["value"] = broken[0].column, plain(row[broken[0].column])
    return found


def _broken(rule: Rule) -> str:
    return f"breaks '{rule.name}'"


def _wrong_columns(schema: T.StructType, contract: Contract) -> list[str]:
    """Columns that are missing, of another type, or not in the contract."""
    types = {field.name: field.dataType for field in schema}
    wanted = {name: kind for name, kind, _ in contract.columns}
    wrong = []
    for name, kind in wanted.items():
        if name not in types:
            wrong.append(f"the column {name} is missing")
        elif _bare(types[name]) != _bare(kind):
            is_, be = types[name].simpleString().upper(), kind.simpleString().upper()
            wrong.append(f"the column {name} is {is_}, not {be}")
    return wrong + [f"the column {name} is not in the contract" for name in types if name not in wanted]


def _bare(kind: T.DataType) -> str:
    """The type alone: VARCHAR is text, and whether elements may be null is not part of it."""
    text = kind.simpleString()
    return "string" if isinstance(kind, (T.VarcharType, T.CharType)) else text


def _window_rules(job: Job) -> list[Rule]:
    window = job.query.window
    if not isinstance(window, AnyOf):
        rules = [Rule("window_id", "is null: the job has one window", "window_id IS NOT NULL")]
        return rules + _span_rules(window, job, None)
    ids = ", ".join(f"'{name}'" for name, _ in window.members)
    rules = [Rule("window_id", f"is one of {ids}", f"window_id NOT IN ({ids})")]
    return rules + [rule for name, member in window.members for rule in _span_rules(member, job, name)]


def _span_rules(window: SimpleWindow, job: Job, window_id: str | None) -> list[Rule]:
    """The length of a window, and the grid that it is on."""
    mine = "" if window_id is None else f"window_id = '{window_id}' AND "
    whose = "" if window_id is None else f" ({window_id})"
    length_us = "(unix_micros(window_end) - unix_micros(window_start))"

    def rule(column: str, name: str, violated: str) -> Rule:
        return Rule(column, f"{name}{whose}", f"{mine}({violated})")

    match window:
        case Grid(size_us=size_us, hop_us=hop_us, offset_us=offset_us, align_us=align_us):
            edge = "window_end" if job.profile == "stream_analytics" else "window_start"
            grid = f"{format_instant(align_us + offset_us)} + k * {format_duration(hop_us)}"
            off = f"pmod(unix_micros({edge}) - ({align_us + offset_us}), {hop_us}) <> 0"
            return [_length(rule, size_us, length_us), rule(edge, f"is on the grid {grid}", off)]
        case Sliding(size_us=size_us):
            return [_length(rule, size_us, length_us)]
        case Snapshot() if job.profile == "stream_analytics":
            return [_length(rule, 0, length_us)]
        case Snapshot() | Count() | Session(max_duration_us=None):
            return [rule("window_end", "is after window_start", f"{length_us} <= 0")]
        case Session(max_duration_us=limit_us):
            assert limit_us is not None
            # at most two segments between check points; its only event may be on the check point that closes it
            name = f"is at or after window_start, by less than {format_duration(2 * limit_us)}"
            return [rule("window_end", name, f"{length_us} NOT BETWEEN 0 AND {2 * limit_us - 1}")]


def _length(rule: Callable[[str, str, str], Rule], size_us: int, length_us: str) -> Rule:
    return rule("window_end", f"is {format_duration(size_us)} after window_start", f"{length_us} <> {size_us}")


def _sentence(contract: Contract, problems: Sequence[str]) -> str:
    return f"{contract.table}: {'; '.join(problems)}"


@contextmanager
def _cached(frame: DataFrame) -> Iterator[DataFrame]:
    """``frame`` cached, because pandera runs a Spark job for each rule."""
    frame.persist()
    try:
        yield frame
    finally:
        frame.unpersist()
