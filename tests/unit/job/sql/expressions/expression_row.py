"""One row to evaluate expressions of scripts on, and the names that they see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import sqlglot
from sqlglot import exp
from sqlglot.dialects.tsql import TSQL

from pipelines.core.expressions import quoted
from pipelines.job.sql.expressions import translate
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.scope import Settings
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Map, Record, Type, Typed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTINGS = Settings("alerts.asaql")
MAX = 9223372036854775807


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


SENSOR = Record((("id", TEXT), ("Value", FLOAT), ("limits", Record((("low", BIGINT), ("high", BIGINT))))))

COLUMNS: dict[str, tuple[Type, str, object]] = {
    "system_timestamp": (DATETIME, "TIMESTAMP", at("2024-05-06T07:08:09.123456")),
    "n": (BIGINT, "BIGINT", 7),
    "zero": (BIGINT, "BIGINT", 0),
    "big": (BIGINT, "BIGINT", MAX),
    "f": (FLOAT, "DOUBLE", 2.5),
    "none": (FLOAT, "DOUBLE", 0.0),
    "s": (TEXT, "STRING", "Abc"),
    "digits": (TEXT, "STRING", "12"),
    "padded": (TEXT, "STRING", "\u00a0\t Abc \u2003 "),
    "blank": (TEXT, "STRING", ""),
    "smile": (TEXT, "STRING", "a\U0001f600bc"),
    "t": (DATETIME, "TIMESTAMP", at("2024-02-29T23:59:59.999999")),
    "old": (DATETIME, "TIMESTAMP", at("1969-12-31T23:30:15.250000")),
    "yes": (BIT, "BOOLEAN", True),
    "no": (BIT, "BOOLEAN", False),
    "no_n": (BIGINT, "BIGINT", None),
    "no_f": (FLOAT, "DOUBLE", None),
    "no_s": (TEXT, "STRING", None),
    "no_t": (DATETIME, "TIMESTAMP", None),
    "no_b": (BIT, "BOOLEAN", None),
    "r": (
        SENSOR,
        "STRUCT<id: STRING, Value: DOUBLE, limits: STRUCT<low: BIGINT, high: BIGINT>>",
        ("x1", 1.5, (1, 9)),
    ),
    "no_r": (SENSOR, "STRUCT<id: STRING, Value: DOUBLE, limits: STRUCT<low: BIGINT, high: BIGINT>>", None),
    "a": (Array(BIGINT), "ARRAY<BIGINT>", [10, None, 30]),
    "rs": (
        Array(SENSOR),
        "ARRAY<STRUCT<id: STRING, Value: DOUBLE, limits: STRUCT<low: BIGINT, high: BIGINT>>>",
        [("x1", 1.5, (1, 9)), None],
    ),
    "no_a": (Array(BIGINT), "ARRAY<BIGINT>", None),
    "m": (Map(FLOAT), "MAP<STRING, DOUBLE>", {"x": 1.5, "Y": None}),
}


class Dialect(TSQL):
    """The tsql of sqlglot, in which calls stay calls."""

    class Parser(TSQL.Parser):
        FUNCTIONS = {}  # noqa: RUF012 - as sqlglot declares it
        FUNCTION_PARSERS = {  # noqa: RUF012
            name: parser for name, parser in TSQL.Parser.FUNCTION_PARSERS.items() if name in ("CAST", "TRY_CAST")
        }


class RowScope:
    """The columns of :data:`COLUMNS`; nothing is computed by the clause."""

    time = "system_timestamp"

    def resolve(self, path: tuple[str, ...], node: exp.Expr) -> Typed:
        if path[0].lower() == "readings" and len(path) > 1:
            path = path[1:]
        if path[0].lower() not in COLUMNS:
            raise Refused(f"there is no column '{path[0]}'", *self.place(node))
        return self.within(Typed(quoted(path[0]), COLUMNS[path[0].lower()][0]), path[1:], node)

    def within(self, record: Typed, path: tuple[str, ...], node: exp.Expr) -> Typed:
        for name in path:
            properties = record.type.properties if isinstance(record.type, Record) else ()
            found = next((one for one in properties if one[0].lower() == name.lower()), None)
            if found is None:
                raise Refused(f"the record has no property '{name}'", *self.place(node))
            record = Typed(f"{record.sql}.{quoted(found[0])}", found[1])
        return record

    def call(self, node: exp.Expr) -> Typed | None:
        is_timestamp = node.sql().lower().replace("()", "") == "system.timestamp"
        return Typed(self.time, DATETIME) if is_timestamp else None

    def place(self, node: exp.Expr) -> tuple[int, int]:
        metas = [part.meta for part in node.walk(bfs=False) if "line" in part.meta]
        first = min(metas, key=lambda meta: meta["start"], default={"line": 1, "col": 1, "start": 0, "end": 0})
        return first["line"], first["col"] - (first["end"] - first["start"])


def translated(text: str, settings: Settings = SETTINGS) -> Typed:
    return translate(sqlglot.parse_one(text, read=Dialect), RowScope(), settings)


def row_frame(spark: SparkSession, **changed: object) -> DataFrame:
    """The row, with other values in the columns that ``changed`` names."""
    values = {name: changed.get(name, value) for name, (_, _, value) in COLUMNS.items()}
    ddl = ", ".join(f"`{name}` {kind}" for name, (_, kind, _) in COLUMNS.items())
    return spark.createDataFrame([tuple(values.values())], ddl)


def evaluated(frame: DataFrame, texts: Sequence[str], settings: Settings = SETTINGS) -> list[object]:
    """The values of all expressions, by one action."""
    columns = [f"{translated(text, settings).sql} AS c{index}" for index, text in enumerate(texts)]
    return [_plain(value) for value in frame.selectExpr(*columns).collect()[0]]


def ignoring_case(settings: Settings = SETTINGS) -> Settings:
    return replace(settings, string_comparison="ignore_case")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value
