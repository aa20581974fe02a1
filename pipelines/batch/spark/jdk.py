"""Methods of the JDK, called inside the code that Spark generates for a query.

Spark compiles a method call on a Java object into its generated code: that is how it calls user-defined types. So what
the JDK has and SQL has not needs neither a class of ours nor a row outside the JVM.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, SparkSession
from pyspark.sql.classic.column import Column as ClassicColumn


class Jdk:
    """Makes expressions of calls; an expression and a type are the JVM's own objects.

    A call whose target or an argument is null is null. ``result`` is the type of what the method gives.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._catalyst: Any = jvm.org.apache.spark.sql.catalyst.expressions
        self._columns: Any = jvm.org.apache.spark.sql.classic.ExpressionUtils
        self._types: Any = jvm.org.apache.spark.sql.types
        self._class: Any = jvm.java.lang.Class
        self._option: Any = jvm.scala.Option
        self._list: Any = jvm.java.util.ArrayList
        self._to_seq: Any = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self.bigint: Any = self._types.DataTypes.LongType
        self.double: Any = self._types.DataTypes.DoubleType

    def of_class(self, name: str) -> Any:
        """The type of the objects of a class."""
        return self._types.ObjectType(self._class.forName(name))

    def object(self, value: Any) -> Any:
        """An object of the JVM as an expression; every task gets a copy of its own."""
        return self._catalyst.Literal(value, self._types.ObjectType(value.getClass()))

    def expression(self, column: Column) -> Any:
        return self._columns.expression(column._jc)

    def column(self, expression: Any) -> Column:
        return ClassicColumn(self._columns.column(expression))

    def call(self, target: Any, method: str, result: Any, *arguments: Any, pure: bool = True) -> Any:
        """``pure``: whether a call gives the same whenever it is made, so that the optimiser may move and repeat it."""
        given = self._sequence(arguments)
        return self._catalyst.objects.Invoke(target, method, result, given, self._sequence(()), True, True, pure)

    def static(self, kind: Any, method: str, result: Any, *arguments: Any) -> Any:
        """A static method of the class that ``kind`` (:meth:`of_class`) is the type of."""
        given, nothing = self._sequence(arguments), self._option.apply(None)
        made = self._catalyst.objects.StaticInvoke
        return made(kind.cls(), result, method, given, self._sequence(()), True, True, True, nothing)

    def _sequence(self, items: Sequence[Any]) -> Any:
        listed = self._list()
        for item in items:
            listed.add(item)
        return self._to_seq(listed)
