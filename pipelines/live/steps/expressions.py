"""Expressions over the rows of a relation: Spark computes them, all of one relation in one select."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipelines.core.errors import DataRefused, JobFileError
from pipelines.live.steps.relation import Columns

Evaluate = Callable[[Columns, Iterable[str]], dict[str, pa.ChunkedArray]]
"""Columns and SQL texts in, the value of each text for each row out."""
_NAME = re.compile(r"`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_]*")
_PATH = re.compile(rf"(?:{_NAME.pattern})(?:\.(?:{_NAME.pattern}))*")
_ROW = "__row"


class Expressions:
    """An :data:`Evaluate` that asks Spark for all that is more than a column or a field.

    ``ansi``: under ANSI rules, where a value that cannot be computed stops the run (Q37).
    """

    def __init__(self, spark: SparkSession, *, ansi: bool) -> None:
        self._spark = spark.newSession()
        for key, value in {
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.ansi.enabled": str(ansi).lower(),
            "spark.sql.adaptive.enabled": "false",
        }.items():
            self._spark.conf.set(key, value)

    def __call__(self, columns: Columns, texts: Iterable[str]) -> dict[str, pa.ChunkedArray]:
        """Raises :class:`JobFileError` for a text that Spark refuses, :class:`DataRefused` for a value that it cannot
        compute."""
        wanted = list(dict.fromkeys(texts))
        known = {text: column for text in wanted if (column := plain(columns, text)) is not None}
        others = [text for text in wanted if text not in known]
        return {**known, **self._computed(columns, others)} if others else known

    def _computed(self, columns: Columns, texts: list[str]) -> dict[str, pa.ChunkedArray]:
        rows = pa.table(dict(columns))
        rows = rows.append_column(_ROW, pa.array(np.arange(len(rows))))
        # without rows only the types are wanted
        frame = self._spark.createDataFrame(rows if len(rows) else [], from_arrow_schema(rows.schema))
        values = [F.expr(text).alias(f"v{index}") for index, text in enumerate(texts)]
        try:
            selected = frame.select(_ROW, *values)
        except (AnalysisException, ParseException):
            for text in texts:
                _check(frame, text)
            raise
        found = (
            _collected(selected) if len(rows) else to_arrow_schema(selected.schema, timestamp_utc=True).empty_table()
        )
        return {text: found[f"v{index}"] for index, text in enumerate(texts)}


def plain(columns: Columns, text: str) -> pa.ChunkedArray | None:
    """The column, or the field of a struct, that the text names and nothing more, in any case; None if it is more."""
    names = _NAME.findall(text) if _PATH.fullmatch(text.strip()) else []
    found: pa.ChunkedArray | None = None
    for name in names:
        wanted = (name[1:-1].replace("``", "`") if name.startswith("`") else name).lower()
        if found is None:
            found = next((column for own, column in columns.items() if own.lower() == wanted), None)
        else:
            kind = found.type if pa.types.is_struct(found.type) else pa.struct([])
            field = next((index for index, one in enumerate(kind) if one.name.lower() == wanted), None)
            found = None if field is None else pc.struct_field(found, field)
        if found is None:
            return None
    return found


def _collected(frame: DataFrame) -> pa.Table:
    try:
        return frame.toArrow().sort_by(_ROW)
    except PySparkException as error:
        raise DataRefused(str(error).strip().splitlines()[0]) from None


def _check(frame: DataFrame, text: str) -> None:
    try:
        frame.select(F.expr(text))
    except (AnalysisException, ParseException) as error:
        raise JobFileError(f"Spark cannot evaluate '{text}': {str(error).strip().splitlines()[0]}") from None
