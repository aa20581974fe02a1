"""Columns, row-local expressions and aggregates of a job file, parsed and checked against the payload.

Expressions are Spark SQL. They are parsed without Spark, so that a typo, an unknown column, or a function that does
not belong in a row-local expression is refused before anything runs.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipelines.core.columns import stored_name, stored_property
from pipelines.core.errors import did_you_mean
from pipelines.core.model import AGGREGATE_FUNCTIONS, Aggregate, Column

_PROPERTY_OR_WORD = re.compile(r"(`[^`]*`|\w+)(:)?")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_CALL = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)\s*\((.*)\)\s*", re.DOTALL)
_FRACTION = re.compile(r"(.*),\s*([0-9.eE+-]+)\s*", re.DOTALL)

_NOT_ROW_LOCAL = (exp.Query, exp.Subquery, exp.Window, exp.AggFunc, exp.UDTF, exp.Star, exp.Command, exp.Parameter)
_FORBIDDEN_FUNCTIONS = frozenset(
    {
        *("current_catalog", "current_database", "current_date", "current_schema", "current_time"),
        *("current_timestamp", "current_timezone", "current_user", "curdate", "getdate", "localtimestamp", "now"),
        *("session_user", "user", "version"),
        *("rand", "randn", "random", "randstr", "shuffle", "uniform", "uuid"),
        *("input_file_block_length", "input_file_block_start", "input_file_name", "java_method"),
        *("monotonically_increasing_id", "reflect", "spark_partition_id", "try_reflect"),
        *("explode", "explode_outer", "inline", "inline_outer", "posexplode", "posexplode_outer", "session_window"),
        *("stack", "window", "window_time"),
        *("assert_true", "raise_error"),
    }
)
"""Functions that read the clock or the session, random numbers, files or the JVM, make several rows, or fail."""

_REFUSED_TYPES = {
    "timestamp_ntz": "instants are TIMESTAMP here",
    "timestampntz": "instants are TIMESTAMP here",
    "variant": "use STRING",
    "interval": "use BIGINT",
    "void": "give it a type",
}


def parse_columns(ddl: str) -> tuple[Column, ...]:
    """The columns of a Spark DDL text such as ``"at TIMESTAMP, booth STRING"``; ValueError names the problem."""
    try:
        statement = sqlglot.parse_one(f"CREATE TABLE t ({ddl})", read="spark")
    except SqlglotError as error:
        raise ValueError(f"not a column list: {_first_line(error)}") from None
    schema = statement.this if isinstance(statement, exp.Create) else None
    definitions = schema.expressions if isinstance(schema, exp.Schema) else []
    if not definitions or set(statement.args) - {"this", "kind"} - {
        key for key, value in statement.args.items() if not value
    }:
        raise ValueError('not a column list; write it like "at TIMESTAMP, booth STRING"')
    columns: list[Column] = []
    for definition in definitions:
        if not isinstance(definition, exp.ColumnDef) or definition.args.get("kind") is None:
            raise ValueError(f"'{definition.sql('spark')}' is not a column and a type")
        if definition.args.get("constraints"):
            raise ValueError(f"column '{definition.name}' has a constraint; write its name and type only")
        columns.append(Column(_column_name(definition.name, columns), _type_name(definition.args["kind"])))
    return tuple(columns)


def _column_name(written: str, before: Collection[Column]) -> str:
    name = stored_name(written)
    if not _IDENTIFIER.fullmatch(name):
        raise ValueError(f"column '{written}' has no name of at most 128 letters, digits and underscores")
    if name.startswith("__"):
        raise ValueError(f"column '{name}' begins with two underscores, which are reserved for Tailrace's own columns")
    if any(name.lower() == column.name.lower() for column in before):
        raise ValueError(f"column '{name}' is listed twice")
    return name


def _type_name(kind: exp.DataType) -> str:
    if any(part.this == exp.DataType.Type.USERDEFINED for part in kind.find_all(exp.DataType)):
        raise ValueError(f"'{kind.sql('spark')}' is not a Spark type")
    name = _PROPERTY_OR_WORD.sub(_property_or_word, kind.sql("spark"))
    for refused, hint in _REFUSED_TYPES.items():
        if refused in name:
            raise ValueError(f"type {name.upper()} cannot be used; {hint}")
    return re.sub(r"\s*,\s*", ",", name)


def _property_or_word(found: re.Match[str]) -> str:
    """The name of a property as a table has it, in its case; any other word in lower case."""
    if not found[2]:
        return found[0].lower()
    mark = "`" if found[1].startswith("`") else ""
    return f"{mark}{stored_property(found[1].strip('`'))}{mark}:"


def check_expression(text: str, columns: Collection[str]) -> str:
    """``text``, if it is one row-local Spark SQL expression over ``columns``; else ValueError names the problem."""
    try:
        tree = sqlglot.parse_one(text, read="spark")
    except SqlglotError as error:
        raise ValueError(f"'{text}' is not an expression: {_first_line(error)}") from None
    if tree is None or not isinstance(tree, exp.Expression) or isinstance(tree, (exp.Alias, exp.DDL, exp.DML)):
        raise ValueError(f"'{text}' is not one expression")
    for node in tree.walk():
        if isinstance(node, _NOT_ROW_LOCAL):
            raise ValueError(f"'{node.sql('spark')}' depends on other rows; only row-local expressions are allowed")
        if isinstance(node, exp.Func):
            name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()
            spelled = node.sql("spark").split("(")[0].strip().lower()
            if {name, spelled} & _FORBIDDEN_FUNCTIONS:
                raise ValueError(f"function '{spelled or name}' may not be used: a replay would not be reproducible")
    known = {column.lower() for column in columns}
    for column in tree.find_all(exp.Column):
        full = ".".join(part.name for part in column.parts)
        if full.lower() not in known and column.parts[0].name.lower() not in known:
            raise ValueError(f"there is no column '{full}'; {did_you_mean(full, columns)}")
    return text.strip()


def check_column(name: str, columns: Collection[str]) -> str:
    """The name in ``columns`` that equals ``name`` without case; ValueError with a hint if there is none."""
    for column in columns:
        if column.lower() == name.lower():
            return column
    raise ValueError(f"there is no column '{name}'; {did_you_mean(name, columns)}")


def columns_read(expressions: Iterable[str]) -> set[str]:
    """Columns that checked expressions read, in lower case; for a field of a struct, the struct.

    >>> sorted(columns_read(["Speed * 1.609 > 80", "car.plate"]))
    ['car', 'speed']
    """
    trees = [sqlglot.parse_one(text, read="spark") for text in expressions]
    return {column.parts[0].name.lower() for tree in trees for column in tree.find_all(exp.Column)}


def parse_aggregate(name: str, text: str, columns: Collection[str]) -> Aggregate:
    """``count(*)``, ``sum(x)``, ``percentile_cont(x, 0.95)`` as an :class:`Aggregate`; ValueError otherwise."""
    call = _CALL.fullmatch(text)
    if call is None:
        raise ValueError(f"'{text}' is not an aggregate; write it like count(*) or sum(x)")
    function, inner = call[1].lower(), call[2].strip()
    if function not in AGGREGATE_FUNCTIONS:
        raise ValueError(f"there is no aggregate '{function}'; {did_you_mean(function, AGGREGATE_FUNCTIONS)}")
    if function == "count" and inner == "*":
        return Aggregate(name, "count")
    parameter: float | None = None
    distinct = False
    if function.startswith("percentile"):
        parts = _FRACTION.fullmatch(inner)
        if parts is None:
            raise ValueError(f"'{text}' lacks its fraction; write it like {function}(x, 0.95)")
        inner, parameter = parts[1].strip(), _fraction(parts[2], text)
    elif inner[:9].lower() == "distinct " or inner[:9].lower() == "distinct(":
        if function != "count":
            raise ValueError(f"'{text}': distinct goes with count only")
        inner, distinct = inner[8:].strip(), True
    if not inner:
        raise ValueError(f"'{text}' lacks its argument")
    return Aggregate(name, function, check_expression(inner, columns), distinct, parameter)


def _fraction(digits: str, text: str) -> float:
    try:
        fraction = float(digits)
    except ValueError:
        raise ValueError(f"'{text}': '{digits}' is not a number between 0 and 1") from None
    if not 0.0 <= fraction <= 1.0:
        raise ValueError(f"'{text}': the fraction must be between 0 and 1")
    return fraction


def _first_line(error: Exception) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines()[0].rstrip(".")


def instant_sql(expression: str) -> str:
    """Spark SQL that converts a checked ``timestamp_by`` expression to a TIMESTAMP, or null (G7).

    Text must begin with a full date: Spark adds the current date to a bare time of day.
    """
    return (
        f"CAST(CASE WHEN typeof({expression}) <> 'string'"
        f" OR CAST(({expression}) AS STRING) RLIKE '^ *[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}'"
        f" THEN ({expression}) END AS TIMESTAMP)"
    )
