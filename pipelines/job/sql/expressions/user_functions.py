"""``udf.name(..)`` and ``uda.name(..)`` of a script: the Spark SQL that the job file gives for it."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot import exp
from sqlglot.optimizer.annotate_types import annotate_types

from pipelines.job import schema
from pipelines.job.expressions import check_expression
from pipelines.job.sql.expressions.context import Context
from pipelines.job.sql.expressions.values import Value, lenient
from pipelines.job.sql.scope import UserFunction
from pipelines.job.sql.spark_types import spark_type, type_of
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, NULL, TEXT, Type

_PARAMETERS = ("x", "y", "z")
"""The arguments of a function that does not name them."""

_TYPES: dict[exp.DType, Type] = {
    **dict.fromkeys((exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT), BIGINT),
    **dict.fromkeys((exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL), FLOAT),
    **dict.fromkeys((exp.DType.TEXT, exp.DType.VARCHAR), TEXT),
    **dict.fromkeys((exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPLTZ, exp.DType.DATE), DATETIME),
    exp.DType.BOOLEAN: BIT,
}


def user_function(given: str | schema.FunctionSection) -> UserFunction:
    """A function of the job file, checked as its other expressions are; ValueError states what is wrong."""
    if isinstance(given, schema.FunctionSection):
        return UserFunction(tuple(given.args), check_expression(given.as_, given.args))
    sql = check_expression(given, _PARAMETERS)
    read = {column.name.lower() for column, _, _ in _arguments_read(sql)}
    count = max((index + 1 for index, name in enumerate(_PARAMETERS) if name in read), default=0)
    return UserFunction(_PARAMETERS[:count], sql)


def call_user_function(context: Context, node: exp.Dot) -> Value:
    """The body, with the values in the places of its arguments."""
    call, arguments = node.expression, node.expression.expressions
    name = f"{node.this.name.lower()}.{call.name}"
    function = context.settings.functions.get(call.name.lower())
    if function is None:
        what = f"{name} is code that is not in the script; give Spark SQL for it under 'functions' of the job file"
        raise context.refused(node, f"{what}: {call.name}: {{args: [..], as: ..}}")
    if len(arguments) != len(function.arguments):
        wanted = ", ".join(function.arguments) or "none"
        raise context.refused(node, f"{name} has the arguments ({wanted}), but {len(arguments)} stand here")
    values = [context.translate(one) for one in arguments]
    type_ = _result_type(context, node, name, function, values)
    return lenient(f"CAST({_body(function)} AS {spark_type(type_)})", type_, *values)


def _body(function: UserFunction) -> str:
    """The body with ``{0}``, ``{1}``, .. for its arguments. The rest stays as it was checked, letter by letter."""
    names = [name.lower() for name in function.arguments]
    parts, position = [], 0
    for column, start, end in _arguments_read(function.sql):
        parts += [_escaped(function.sql[position:start]), f"{{{names.index(column.parts[0].name.lower())}}}"]
        position = end + 1
    return f"({''.join(parts)}{_escaped(function.sql[position:])})"


def _escaped(sql: str) -> str:
    return sql.replace("{", "{{").replace("}", "}}")


def _arguments_read(sql: str) -> list[tuple[exp.Column, int, int]]:
    """Where arguments stand in the body, in order: the first and the last index of their names."""
    columns = sqlglot.parse_one(sql, read="spark").find_all(exp.Column)
    places = [(column, column.parts[0].meta["start"], column.parts[0].meta["end"]) for column in columns]
    return sorted(places, key=lambda place: place[1])


def _result_type(context: Context, node: exp.Expr, name: str, function: UserFunction, values: Sequence[Value]) -> Type:
    given = dict(zip((one.lower() for one in function.arguments), values, strict=True))

    def argument(part: exp.Expr) -> exp.Expr:
        if not isinstance(part, exp.Column):
            return part
        type_ = given[part.parts[0].name.lower()].type
        null = exp.Null()
        return null if type_ == NULL else exp.cast(null, spark_type(type_), dialect="spark")

    tree = annotate_types(sqlglot.parse_one(function.sql, read="spark").transform(argument), dialect="spark")
    found = _TYPES.get(tree.type.this) if isinstance(tree.type, exp.DataType) else None
    if found is None and isinstance(tree, exp.Cast):
        found = type_of(tree.to.sql("spark"))
    if found is None:
        what = f"the type of {name} is not clear; write its body as CAST(.. AS DOUBLE), BIGINT, STRING, TIMESTAMP"
        raise context.refused(node, f"{what} or BOOLEAN")
    return found
