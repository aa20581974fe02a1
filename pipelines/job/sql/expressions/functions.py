"""Calls: the functions of the language by name, and what to do instead of those that are none."""

from __future__ import annotations

from sqlglot import exp

from pipelines.core.errors import did_you_mean
from pipelines.job.sql.expressions import conditional, dates, nested, numbers, patterns, texts
from pipelines.job.sql.expressions.call import Call, Function
from pipelines.job.sql.expressions.context import Context
from pipelines.job.sql.expressions.values import Value

FUNCTIONS: dict[str, Function] = {
    **conditional.FUNCTIONS,
    **dates.FUNCTIONS,
    **nested.FUNCTIONS,
    **numbers.FUNCTIONS,
    **patterns.FUNCTIONS,
    **texts.FUNCTIONS,
}
_CLOCK = "a clock gives another value at each replay; use System.Timestamp()"
_APPLY = "it gives several rows; write CROSS APPLY after FROM"
_GEOMETRY = "its results depend on an unpublished projection; compute them before ingest and declare a column"
NOT_IN_THE_LANGUAGE = {
    **dict.fromkeys(("GETDATE", "GETUTCDATE", "SYSDATETIME", "SYSUTCDATETIME", "CURRENT_TIMESTAMP"), _CLOCK),
    **dict.fromkeys(("GETARRAYELEMENTS", "GETRECORDPROPERTIES"), _APPLY),
    **dict.fromkeys(("CREATEPOINT", "CREATELINESTRING", "CREATEPOLYGON"), _GEOMETRY),
    **dict.fromkeys(("ST_DISTANCE", "ST_INTERSECTS", "ST_OVERLAPS", "ST_WITHIN"), _GEOMETRY),
    "ISNUMERIC": "write TRY_CAST(x AS float) IS NOT NULL",
    "ISDATE": "write TRY_CAST(x AS datetime) IS NOT NULL",
    "IIF": "write CASE WHEN .. THEN .. ELSE .. END",
    "IF": "write CASE WHEN .. THEN .. ELSE .. END",
    "CHOOSE": "write CASE",
    "CONVERT": "write CAST(x AS type)",
    "TRY_CONVERT": "write TRY_CAST(x AS type)",
    "PARSE": "write CAST(x AS type)",
    "FORMAT": "write CAST(x AS nvarchar(max)), DATENAME or CONCAT",
    "STRING_AGG": "write Collect",
    "CHAR": "write NCHAR",
    "ASCII": "write UNICODE",
    "CEIL": "write CEILING",
    "EOMONTH": "write DATEADD and DATETIMEFROMPARTS",
    "GETTYPE": "the type of a null is not settled; columns have declared types here, so the type is known",
    "JSON_PARSE": "the type of its result is not known; declare the column as STRUCT, ARRAY or MAP in the job file",
    "JSON_VALUE": "declare the column as STRUCT in the job file and write column.property",
    "JSON_QUERY": "declare the column as STRUCT in the job file and write column.property",
}
_MODELS = ("ANOMALYDETECTION",)


def call(context: Context, node: exp.Anonymous) -> Value:
    """The value of a call of a function; Refused if it is none of the language or has other arguments."""
    name = node.name.upper()
    function = FUNCTIONS.get(name)
    if function is None:
        raise context.refused(node, f"{node.name}: {_instead(name)}")
    count = len(node.expressions)
    if count < function.least or (function.most is not None and count > function.most):
        raise context.refused(node, f"{name} takes {_count(function)}, not {count}")
    return function.build(Call(context, node, name, tuple(node.expressions)))


def _instead(name: str) -> str:
    if name.startswith(_MODELS):
        return "its model is not published, so that a replay cannot give its results; take them from the log"
    if name in NOT_IN_THE_LANGUAGE:
        return f"not offered; {NOT_IN_THE_LANGUAGE[name]}"
    return f"there is no such function; {did_you_mean(name, FUNCTIONS)}"


def _count(function: Function) -> str:
    if function.most is None:
        return f"{function.least} or more arguments"
    several = f"{function.least} to {function.most}" if function.least < function.most else str(function.least)
    return f"{several} argument{'' if function.most == 1 else 's'}"
