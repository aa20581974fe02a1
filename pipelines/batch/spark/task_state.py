"""Numbers that a task remembers from row to row, inside the code that Spark generates for a query.

Every task gets a copy of an object as it was when the query was made, and an array of numbers of the JDK is all that a
running maximum needs: the expressions here put a value in and yield what was there before. Such an expression is not
deterministic to Spark, so the optimiser neither moves nor repeats it; it means what it says where one task sees its
rows in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from pipelines.batch.spark.jdk import Jdk


class TaskState:
    """So many BIGINT, each with its initial value, by their index (a Column of type INT)."""

    def __init__(self, spark: SparkSession, initial: Sequence[int]) -> None:
        context: Any = spark.sparkContext
        # all of them in one call: ByteBuffer reads big-endian
        buffer = context._jvm.java.nio.ByteBuffer.wrap(np.asarray(initial, dtype=">i8").tobytes())
        values = context._gateway.new_array(context._jvm.long, len(initial))
        buffer.asLongBuffer().get(values)
        self._jdk = Jdk(spark)
        self._array = self._jdk.object(context._jvm.java.util.concurrent.atomic.AtomicLongArray(values))

    def replace(self, index: Column, value: Column) -> Column:
        """What was there; from now on ``value`` is."""
        return self._call("getAndSet", index, value)

    def raise_to(self, index: Column, value: Column) -> Column:
        """What was there; from now on the greater of it and ``value`` is."""
        return self.replace(index, F.greatest(self._call("get", index), value))

    def _call(self, method: str, *arguments: Column) -> Column:
        given = map(self._jdk.expression, arguments)
        return self._jdk.column(self._jdk.call(self._array, method, self._jdk.bigint, *given, pure=False))
