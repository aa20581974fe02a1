"""Types of the query language and of Spark, each as the other (Q27)."""

from __future__ import annotations

from sqlglot import exp

from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Map, Opaque, Record, Scalar, Type

_Kind = exp.DType
_SCALARS: dict[exp.DType, Scalar] = {
    **dict.fromkeys((_Kind.TINYINT, _Kind.SMALLINT, _Kind.INT, _Kind.BIGINT), BIGINT),
    **dict.fromkeys((_Kind.FLOAT, _Kind.DOUBLE, _Kind.DECIMAL), FLOAT),
    **dict.fromkeys((_Kind.TEXT, _Kind.VARCHAR, _Kind.CHAR, _Kind.NVARCHAR), TEXT),
    **dict.fromkeys((_Kind.TIMESTAMP, _Kind.TIMESTAMPTZ, _Kind.TIMESTAMPLTZ, _Kind.DATE), DATETIME),
    _Kind.BOOLEAN: BIT,
}


def spark_type(type_: Type) -> str:
    """The type as Spark writes it."""
    match type_:
        case Record(properties):
            return f"STRUCT<{', '.join(f'`{name}`: {spark_type(one)}' for name, one in properties)}>"
        case Array(element):
            return f"ARRAY<{spark_type(element)}>"
        case Map(value):
            return f"MAP<STRING, {spark_type(value)}>"
        case Opaque(spark):
            return spark
        case _:
            return {BIGINT: "BIGINT", FLOAT: "DOUBLE", TEXT: "STRING", DATETIME: "TIMESTAMP", BIT: "BOOLEAN"}.get(
                type_, "VOID"
            )


def type_of(spark: str) -> Type:
    """The type of values that Spark has as ``spark``; whole numbers are bigint, others float, dates datetime."""
    return _type(exp.DataType.build(spark, dialect="spark"))


def _type(kind: exp.DataType) -> Type:
    if kind.this in _SCALARS:
        return _SCALARS[kind.this]
    if kind.this == _Kind.ARRAY:
        return Array(_type(kind.expressions[0]))
    if kind.this == _Kind.MAP:
        key, value = kind.expressions
        return Map(_type(value)) if _type(key) == TEXT else Opaque(kind.sql("spark"))
    if kind.this == _Kind.STRUCT:
        return Record(tuple((part.name, _type(part.args["kind"])) for part in kind.expressions))
    return Opaque(kind.sql("spark"))


def differs(spark: str) -> bool:
    """Has Spark the column in another type than the one for its type of the query language?"""
    as_is, wanted = (exp.DataType.build(text, dialect="spark") for text in (spark, spark_type(type_of(spark))))
    return as_is.sql("spark", identify=True) != wanted.sql("spark", identify=True)
