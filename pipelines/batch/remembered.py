"""Numbers that a task remembers from row to row, inside the code that Spark generates for a query.

Spark compiles a method call on a Java object into its generated code (that is how it calls user-defined types), and
every task gets a copy of the object as it was when the query was made. An array of numbers of the JDK is all that a
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
from pyspark.sql.classic.column import Column as ClassicColumn


class Remembered:
    """So many BIGINT, each with its initial value, by their index (a Column of type INT)."""

    def __init__(self, spark: SparkSession, initial: Sequence[int]) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        # all of them in one call: ByteBuffer reads big-endian
        buffer = self._jvm.java.nio.ByteBuffer.wrap(np.asarray(initial, dtype=">i8").tobytes())
        values = context._gateway.new_array(self._jvm.long, len(initial))
        buffer.asLongBuffer().get(values)
        array = self._jvm.java.util.concurrent.atomic.AtomicLongArray(values)
        self._catalyst: Any = self._jvm.org.apache.spark.sql.catalyst.expressions
        self._columns: Any = self._jvm.org.apache.spark.sql.classic.ExpressionUtils
        types: Any = self._jvm.org.apache.spark.sql.types
        self._array = self._catalyst.Literal(array, types.ObjectType(array.getClass()))
        self._long = types.DataTypes.LongType

    def replace(self, index: Column, value: Column) -> Column:
        """What was there; from now on ``value`` is."""
        return self._call("getAndSet", index, value)

    def raise_to(self, index: Column, value: Column) -> Column:
        """What was there; from now on the greater of it and ``value`` is."""
        return self.replace(index, F.greatest(self._call("get", index), value))

    def _call(self, method: str, *arguments: Column) -> Column:
        given = self._sequence([self._columns.expression(one._jc) for one in arguments])
        # null in, null out and nothing done; the result may be null; not deterministic
        called = self._catalyst.objects.Invoke(
            self._array, method, self._long, given, self._sequence([]), True, True, False
        )
        return ClassicColumn(self._columns.column(called))

    def _sequence(self, items: Sequence[Any]) -> Any:
        listed = self._jvm.java.util.ArrayList()
        for item in items:
            listed.add(item)
        return self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(listed)
