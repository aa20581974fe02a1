"""The types of aggregates, as Spark SQL has them."""

from __future__ import annotations

from pyspark.sql import types as T

from pipelines.core.errors import JobFileError
from pipelines.core.model import Aggregate

_ANY_TYPE = frozenset({"min", "max", "first", "last", "collect"})


def result_type(one: Aggregate, argument: T.DataType | None) -> T.DataType:
    """The type of an aggregate over an argument of that type; :class:`JobFileError` where it needs a number."""
    if argument is None or one.function == "count":
        return T.LongType()
    if isinstance(argument, T.NullType):
        argument = T.StringType() if one.function in _ANY_TYPE else T.DoubleType()
    if one.function not in _ANY_TYPE and not isinstance(argument, T.NumericType):
        raise JobFileError(
            f"'{one.argument}' is {argument.simpleString().upper()}, not a number, which {one.function} needs",
            key=f"query.aggregates.{one.name}",
            hint=f"write {one.function}(CAST({one.argument} AS DOUBLE))",
        )
    match one.function:
        case "collect":
            return T.ArrayType(argument)
        case function if function in _ANY_TYPE:
            return argument
        case "sum" if isinstance(argument, T.IntegralType):
            return T.LongType()
        case "sum" | "avg" if isinstance(argument, T.DecimalType):
            digits, more = (10, 0) if one.function == "sum" else (4, 4)
            return T.DecimalType(min(argument.precision + digits, 38), min(argument.scale + more, 38))
    return T.DoubleType()
