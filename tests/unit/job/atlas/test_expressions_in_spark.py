"""Every operator over one document, computed by Spark: the value that the product's documentation gives."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest
from atlas_jobs import job_text
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from pipelines.core.steps import Filtered, Projected, walk
from pipelines.job.load import parse_job

COLUMNS = (
    "n BIGINT, x DOUBLE, none DOUBLE, s STRING, at TIMESTAMP, a ARRAY<BIGINT>,"
    " d STRUCT<p: BIGINT, q: STRING>, docs ARRAY<STRUCT<k: STRING, v: BIGINT>>"
)
DOCUMENT = {
    "n": 7,
    "x": 2.5,
    "none": None,
    "s": "Straße 12",
    "at": "2026-03-15T10:20:30.456Z",
    "a": [3, 1, 2],
    "d": {"p": 1, "q": "one"},
    "docs": [{"k": "b", "v": 2}, {"k": "a", "v": 1}, {"k": "c", "v": None}],
}
FAILS = "the document goes to the dead letter queue"


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


def reduced(start: Any, step: Any) -> dict[str, Any]:
    return {"$reduce": {"input": "$a", "initialValue": start, "in": step}}


CASES: list[tuple[Any, Any]] = [
    # numbers
    ({"$add": ["$n", 1, "$x"]}, 10.5),
    ({"$add": ["$at", 1500]}, at("2026-03-15T10:20:31.956")),
    ({"$subtract": ["$n", "$none"]}, None),
    ({"$subtract": ["$at", {"$toDate": "2026-03-15"}]}, 37230456),
    ({"$subtract": ["$at", 456]}, at("2026-03-15T10:20:30")),
    ({"$multiply": ["$n", "$n"]}, 49),
    ({"$divide": ["$n", 2]}, 3.5),
    ({"$divide": ["$n", 0]}, FAILS),
    ({"$mod": ["$n", 4]}, 3),
    ({"$abs": -5}, 5),
    ({"$ceil": "$x"}, 3.0),
    ({"$floor": {"$multiply": ["$x", -1]}}, -3.0),
    ({"$round": ["$x", 0]}, 2.0),
    ({"$round": [3.5]}, 4.0),
    ({"$round": [1234, -2]}, 1200),
    ({"$trunc": [-2.567, 1]}, -2.5),
    ({"$pow": [2, 10]}, 1024.0),
    ({"$sqrt": 9}, 3.0),
    ({"$sqrt": -9}, FAILS),
    ({"$log10": 1000}, 3.0),
    ({"$ln": 1}, 0.0),
    ({"$exp": 0}, 1.0),
    ({"$sum": "$a"}, 6),
    ({"$sum": ["$n", "$none", 3]}, 10.0),
    ({"$avg": "$a"}, 2.0),
    ({"$min": "$a"}, 1),
    ({"$max": ["$n", 9]}, 9),
    # comparisons and conditions
    ({"$eq": ["$none", None]}, True),
    ({"$ne": ["$s", "x"]}, True),
    ({"$eq": ["$n", "7"]}, False),
    ({"$lt": ["$none", 5]}, True),
    ({"$gt": ["$n", "$none"]}, True),
    ({"$gte": ["$none", None]}, True),
    ({"$lt": ["$n", "a text"]}, True),
    ({"$cmp": ["$n", 8]}, -1),
    ({"$in": ["$n", [1, 7]]}, True),
    ({"$in": [2, "$a"]}, True),
    ({"$and": ["$n", {"$gt": ["$x", 2]}]}, True),
    ({"$or": [0, "$none"]}, False),
    ({"$not": ["$n"]}, False),
    ({"$cond": ["$none", "a", "b"]}, "b"),
    ({"$cond": {"if": {"$gt": ["$n", 5]}, "then": 1, "else": 0.5}}, 1.0),
    ({"$cond": [False, {"$divide": [1, 0]}, "$n"]}, 7.0),
    ({"$ifNull": ["$none", "$x"]}, 2.5),
    ({"$switch": {"branches": [{"case": {"$eq": ["$n", 1]}, "then": "one"}], "default": "other"}}, "other"),
    ({"$switch": {"branches": [{"case": {"$eq": ["$n", 1]}, "then": "one"}]}}, FAILS),
    # texts
    ({"$concat": ["$s", "-", "x"]}, "Straße 12-x"),
    ({"$concat": ["$s", None]}, None),
    ({"$toUpper": None}, ""),
    ({"$toLower": "$s"}, "straße 12"),
    ({"$strLenCP": "$s"}, 9),
    ({"$strLenBytes": "$s"}, 10),
    ({"$substrCP": ["$s", 0, 6]}, "Straße"),
    ({"$substrBytes": ["abc", 1, -1]}, "bc"),
    ({"$indexOfCP": ["$s", "1"]}, 7),
    ({"$indexOfCP": ["$s", "z"]}, -1),
    ({"$split": ["a.b.c", "."]}, ["a", "b", "c"]),
    ({"$trim": {"input": "  x  "}}, "x"),
    ({"$ltrim": {"input": "00x0", "chars": "0"}}, "x0"),
    ({"$rtrim": {"input": "x]]", "chars": "]"}}, "x"),
    ({"$replaceOne": {"input": "aaa", "find": "a", "replacement": "b"}}, "baa"),
    ({"$replaceAll": {"input": "aaa", "find": "a", "replacement": "b"}}, "bbb"),
    ({"$regexMatch": {"input": "$s", "regex": "^str", "options": "i"}}, True),
    ({"$strcasecmp": ["ABC", "abd"]}, -1),
    ({"$literal": "$n"}, "$n"),
    # conversions
    ({"$toString": "$x"}, "2.5"),
    ({"$toString": 3.0}, "3"),
    ({"$toString": "$n"}, "7"),
    ({"$toString": "$at"}, "2026-03-15T10:20:30.456Z"),
    ({"$toInt": "12"}, 12),
    ({"$toInt": "12.5"}, FAILS),
    ({"$toLong": "$at"}, 1773570030456),
    ({"$toDouble": "1e3"}, 1000.0),
    ({"$toBool": "$n"}, True),
    ({"$toDate": 1500}, at("1970-01-01T00:00:01.500")),
    ({"$toDate": "2026-01-01T00:00:00.123456Z"}, at("2026-01-01T00:00:00.123")),
    ({"$toDate": "soon"}, FAILS),
    ({"$convert": {"input": "soon", "to": "int", "onError": -1}}, -1),
    ({"$convert": {"input": None, "to": "double", "onNull": 0.5}}, 0.5),
    ({"$isNumber": "$x"}, True),
    ({"$type": "$s"}, "string"),
    # dates
    ({"$dateTrunc": {"date": "$at", "unit": "hour"}}, at("2026-03-15T10:00:00")),
    ({"$dateTrunc": {"date": "$at", "unit": "minute", "binSize": 15}}, at("2026-03-15T10:15:00")),
    ({"$dateTrunc": {"date": "$at", "unit": "week"}}, at("2026-03-15T00:00:00")),
    ({"$dateTrunc": {"date": "$at", "unit": "week", "startOfWeek": "monday"}}, at("2026-03-09T00:00:00")),
    ({"$dateTrunc": {"date": "$at", "unit": "quarter"}}, at("2026-01-01T00:00:00")),
    ({"$dateTrunc": {"date": "$at", "unit": "month", "binSize": 5}}, at("2025-11-01T00:00:00")),
    ({"$dateDiff": {"startDate": {"$toDate": "2025-12-31T23:59:59Z"}, "endDate": "$at", "unit": "year"}}, 1),
    ({"$dateDiff": {"startDate": {"$toDate": "2026-03-14T23:00:00Z"}, "endDate": "$at", "unit": "week"}}, 1),
    ({"$dateDiff": {"startDate": {"$toDate": "2026-03-15T10:59:59Z"}, "endDate": "$at", "unit": "hour"}}, 0),
    ({"$dateAdd": {"startDate": {"$toDate": "2026-01-31T05:00:00Z"}, "unit": "month", "amount": 1}},
     at("2026-02-28T05:00:00")),
    ({"$dateSubtract": {"startDate": "$at", "unit": "second", "amount": 30}}, at("2026-03-15T10:20:00.456")),
    ({"$dateToString": {"date": "$at", "format": "%Y/%m/%d at %H:%M:%S.%L%z"}}, "2026/03/15 at 10:20:30.456+0000"),
    ({"$dateFromString": {"dateString": "15.03.2026", "format": "%d.%m.%Y"}}, at("2026-03-15T00:00:00")),
    ({"$dateFromString": {"dateString": "no date", "onError": None}}, None),
    ({"$dateFromParts": {"year": 2026, "month": 14, "day": 0, "hour": 25}}, at("2027-02-01T01:00:00")),
    ({"$year": "$at"}, 2026),
    ({"$week": {"date": "$at"}}, 11),
    ({"$isoWeek": "$at"}, 11),
    ({"$dayOfWeek": "$at"}, 1),
    ({"$isoDayOfWeek": "$at"}, 7),
    ({"$dayOfYear": "$at"}, 74),
    ({"$millisecond": "$at"}, 456),
    # arrays
    ({"$arrayElemAt": ["$a", 0]}, 3),
    ({"$arrayElemAt": ["$a", -1]}, 2),
    ({"$arrayElemAt": ["$a", 5]}, None),
    ({"$arrayElemAt": [["$n", "$s"], 1]}, "Straße 12"),
    ({"$first": "$a"}, 3),
    ({"$size": "$a"}, 3),
    ({"$filter": {"input": "$a", "as": "e", "cond": {"$gte": ["$$e", 2]}}}, [3, 2]),
    ({"$map": {"input": "$docs", "in": "$$this.k"}}, ["b", "a", "c"]),
    ({"$map": {"input": "$a", "in": {"$divide": [6, {"$subtract": ["$$this", 1]}]}}}, FAILS),
    (reduced(0, {"$add": ["$$value", "$$this"]}), 6),
    (reduced({"n": 0, "big": []},
             {"n": {"$add": ["$$value.n", 1]}, "big": {"$concatArrays": ["$$value.big", ["$$this"]]}}),
     Row(n=3, big=[3, 1, 2])),
    ({"$concatArrays": ["$a", [9]]}, [3, 1, 2, 9]),
    ({"$slice": ["$a", 2]}, [3, 1]),
    ({"$slice": ["$a", -2]}, [1, 2]),
    ({"$slice": ["$a", 1, 1]}, [1]),
    ({"$range": [0, 10, 4]}, [0, 4, 8]),
    ({"$range": [3, 3]}, []),
    ({"$reverseArray": "$a"}, [2, 1, 3]),
    ({"$sortArray": {"input": "$a", "sortBy": -1}}, [3, 2, 1]),
    ({"$map": {"input": {"$sortArray": {"input": "$docs", "sortBy": {"v": 1}}}, "in": "$$this.k"}}, ["c", "a", "b"]),
    ({"$indexOfArray": ["$a", 2]}, 2),
    ({"$setUnion": ["$a", [1, 5]]}, [3, 1, 2, 5]),
    ({"$setDifference": ["$a", [1]]}, [3, 2]),
    ({"$anyElementTrue": [[0, "$n"]]}, True),
    ("$docs.k", ["b", "a", "c"]),
    # documents
    ("$d.q", "one"),
    ({"a": "$n", "b": {"c": "$d.p"}}, Row(a=7, b=Row(c=1))),
    ({"$mergeObjects": ["$d", {"q": "two", "r": True}]}, Row(p=1, q="two", r=True)),
    ({"$mergeObjects": [{"n": 1}, {"n": "$none"}]}, Row(n=1.0)),
    ({"$getField": {"field": "q", "input": "$d"}}, "one"),
    ({"$setField": {"field": "p", "input": "$d", "value": 5}}, Row(p=5, q="one")),
    ({"$let": {"vars": {"twice": {"$multiply": ["$n", 2]}}, "in": {"$add": ["$$twice", 1]}}}, 15),
    ({"$arrayToObject": [[["k1", 1], ["k2", "b"]]]}, Row(k1=1, k2="b")),
    ({"$arrayToObject": "$docs"}, {"b": 2, "a": 1, "c": None}),
    ({"$arrayToObject": {"$filter": {"input": {"$objectToArray": "$d"}, "cond": {"$ne": ["$$this.v", 1]}}}},
     Row(p=None, q="one")),
]  # fmt: skip


def projected(expression: Any) -> tuple[str, list[str]]:
    """(the expression as Spark SQL, the conditions that a document must fulfil)."""
    stages = [{"$source": {"topic": "t"}}, {"$project": {"it": expression}}]
    job = parse_job(job_text(json.dumps(stages, default=str), COLUMNS))
    assert job.steps is not None
    relations = list(walk(job.steps.outputs[0].rows))
    kept = [one.condition for one in relations if isinstance(one, Filtered)]
    (project,) = [one for one in relations if isinstance(one, Projected)]
    return project.columns[0].expression, kept


@pytest.mark.spark
def test_each_expression_has_the_documented_value(spark: SparkSession) -> None:
    schema = COLUMNS.replace("at TIMESTAMP", "at STRING")
    frame = spark.createDataFrame([DOCUMENT], schema).withColumn("at", F.col("at").cast("timestamp"))
    texts = []
    for index, (expression, _) in enumerate(CASES):
        sql, kept = projected(expression)
        texts += [f"{sql} AS v{index}", f"{' AND '.join(kept) or 'true'} AS ok{index}"]
    row = frame.selectExpr(*texts).first()
    assert row is not None
    found = [FAILS if not row[f"ok{index}"] else row[f"v{index}"] for index in range(len(CASES))]
    wrong = [
        f"{json.dumps(expression)}: {value!r}, not {wanted!r}"
        for (expression, wanted), value in zip(CASES, found, strict=True)
        if value != wanted or type(value) is not type(wanted)
    ]
    assert not wrong, "\n" + "\n".join(wrong)
