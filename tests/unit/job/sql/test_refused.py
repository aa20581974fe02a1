"""What of a script is refused: where it stands, what it is, and what to do instead."""

from collections.abc import Callable

import pytest

from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.script import Loaded

Script = Callable[[str], Loaded]
WINDOW = "GROUP BY TumblingWindow(minute, 5)"
JOIN = "JOIN b ON DATEDIFF(minute, a, b) = 0"

CASES = [
    # names
    ("SELECT x FROM nothing", 15, "there is no step, input or reference data 'nothing'"),
    ("SELECT z FROM a", 8, "there is no column 'z'"),
    ("SELECT a.z FROM a", 8, "there is no column 'z'"),
    ("SELECT r.z FROM a", 8, "the record has no property 'z'; known here: p, q"),
    ("SELECT k.z FROM a", 8, "taken from what is no record"),
    ("SELECT l.z FROM a", 8, "taken from an array: use GetArrayElement"),
    (f"SELECT k FROM a {JOIN}", 8, "column 'k' is ambiguous: write a.k or b.k"),
    ("SELECT a.x FROM a JOIN b a ON DATEDIFF(ss, a, b) = 0", 26, "two sources are called 'a'"),
    ("WITH a AS (SELECT x FROM b) SELECT x FROM a", 6, "'a' is the name of another step or input"),
    ("WITH s AS (SELECT x FROM a), S AS (SELECT x FROM a) SELECT x FROM s", 30, "'S' is the name of another step"),
    ("WITH s AS (SELECT x FROM later), later AS (SELECT x FROM a) SELECT x FROM s", 26, "there is no step"),
    ("SELECT EventProcessedUtcTime FROM a", 8, "a wall clock that no log holds"),
    ("SELECT AnomalyDetection_ChangePoint(x, 80, 9) OVER (LIMIT DURATION(mi, 1)) AS p FROM a", 8, "is not published"),
    ("SELECT AnomalyDetection(x) OVER (LIMIT DURATION(hour, 1)) AS p FROM a", 8, "AnomalyDetection: its model"),
    ("SELECT UPPER(k) OVER (LIMIT DURATION(mi, 1)) AS u FROM a", 8, "UPPER takes no OVER"),
    # select lists
    ("SELECT x, y AS X FROM a", 11, "two columns are called 'X'"),
    (f"SELECT * FROM a {JOIN}", 8, "* does not go with JOIN and APPLY: write a.*"),
    (f"SELECT *, COUNT(*) AS n FROM a {WINDOW}", 8, "* does not go with GROUP BY"),
    ("SELECT k.* FROM a", 8, ".* takes a source or a record"),
    ("SELECT x AS __x FROM a", 13, "begins with two underscores"),
    ("SELECT x AS system_timestamp FROM a", 13, "is the name of the time that each row has"),
    # outputs
    ("SELECT x FROM a SELECT y FROM a", 17, "a second SELECT writes output 'output': UNION the two"),
    ("SELECT x INTO o FROM a SELECT y INTO O FROM a", 38, "a second SELECT writes output 'o'"),
    ("SELECT x AS [two words], y AS two_words FROM a", 1, "two columns would be stored as 'two_words'"),
    ("SELECT k FROM ref", 15, "reference data alone is no output"),
    # groups
    ("SELECT k, COUNT(*) AS n FROM a GROUP BY k", 41, "aggregates need a window"),
    ("SELECT COUNT(*) AS n FROM a", 8, "aggregates need a window"),
    (f"SELECT k, COUNT(*) AS n FROM a {WINDOW}", 8, "column 'k' is neither a group key nor inside an aggregate"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY SlidingWindow(mi, 1), SlidingWindow(mi, 2)", 60, "one window stands in"),
    (f"SELECT COUNT(*) AS n FROM a WHERE COUNT(*) > 1 {WINDOW}", 35, "COUNT stands in the select list or HAVING"),
    (f"SELECT SUM(COUNT(*)) AS n FROM a {WINDOW}", 12, "COUNT stands in the select list or HAVING"),
    ("SELECT TumblingWindow(minute, 5) AS w FROM a", 8, "TUMBLINGWINDOW stands in GROUP BY only"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(month, 1)", 53, "'month' is not a unit of constant length"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(minute, x)", 61, "a constant whole number must stand here"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(day, 99999)", 58, "a duration of more than 100 years"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(ms, 9999999999999)", 57, "a number beyond 1,000,000,000,000"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(minute, 0)", 61, "must be 1 or more"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY TumblingWindow(minute)", 38, "TUMBLINGWINDOW takes"),
    ("SELECT COUNT(*) AS n FROM a GROUP BY SessionWindow(minute, 5)", 38, "needs its greatest duration"),
    (
        "SELECT COUNT(*) AS n FROM a GROUP BY Windows(Window('x', SlidingWindow(mi, 1)), SlidingWindow(mi, 2))",
        81,
        "names all of its windows or none",
    ),
    ("SELECT COUNT(*) AS n FROM ref GROUP BY TumblingWindow(minute, 1)", 1, "reference data has no time to group by"),
    ("SELECT x FROM a PARTITION BY k GROUP BY x, TumblingWindow(minute, 1)", 41, "is partitioned by k, which is no"),
    # aggregates
    (f"SELECT SUM(DISTINCT x) AS n FROM a {WINDOW}", 8, "SUM takes no DISTINCT"),
    (f"SELECT SUM(r) AS n FROM a {WINDOW}", 12, "a number must stand here, not a value of type record"),
    (f"SELECT TopOne() AS n FROM a {WINDOW}", 8, "TOPONE needs OVER (ORDER BY ..)"),
    (f"SELECT TopOne() OVER (ORDER BY k) AS n FROM a {WINDOW}", 32, "ORDER BY takes bigint, float and datetime"),
    (f"SELECT CollectTop(0) OVER (ORDER BY x) AS n FROM a {WINDOW}", 8, "collects one row at least"),
    (f"SELECT PERCENTILE_CONT(2) OVER (ORDER BY x) AS n FROM a {WINDOW}", 8, "takes a fraction from 0 to 1"),
    # analytic functions
    ("SELECT LAG(x) AS p FROM a", 8, "LAG needs OVER (LIMIT DURATION(unit, length))"),
    ("SELECT LAG(x, 0) OVER (LIMIT DURATION(mi, 1)) AS p FROM a", 8, "LAG looks back by one row at least"),
    ("SELECT LAG(x, 1, 'a') OVER (LIMIT DURATION(mi, 1)) AS p FROM a", 18, "the default has another type"),
    ("SELECT LAG(x) OVER (ORDER BY t LIMIT DURATION(mi, 1)) AS p FROM a", 8, "takes no ORDER BY"),
    ("SELECT ISFIRST(mi, 1) OVER (LIMIT DURATION(mi, 1)) AS p FROM a", 8, "takes PARTITION BY and WHEN alone"),
    (
        "SELECT LAG(LAST(x) OVER (LIMIT DURATION(mi, 1))) OVER (LIMIT DURATION(mi, 1)) AS p FROM a",
        12,
        "LAST OVER cannot stand here: compute it in an earlier step",
    ),
    ("SELECT COUNT(DISTINCT x) OVER (LIMIT DURATION(mi, 1)) AS p FROM a", 8, "(DISTINCT ..) does not go with OVER"),
    (f"SELECT LAG(a.x + b.x) OVER (LIMIT DURATION(mi, 1)) AS p FROM a {JOIN}", 8, "looks at columns of one stream"),
    (f"SELECT ISFIRST(mi, 5) AS p FROM a {JOIN}", 8, "looks at columns of one stream"),
    (
        f"SELECT LAG(x) OVER (LIMIT DURATION(mi, 1)) AS p, COUNT(*) AS n FROM a {WINDOW}",
        8,
        "LAG OVER is neither a group key nor inside an aggregate",
    ),
    # joins
    ("SELECT a.x FROM a JOIN b ON a.k = b.k", 29, "the join is not bounded in time: add DATEDIFF(minute, a, b)"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(minute, a, b) > 0", 29, "the join is not bounded in time"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(day, a, b) = -99999", 51, "a duration of more than 100 years"),
    ("SELECT x FROM a WHERE x > 1e999", 27, "the number that begins here is too large"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(minute, a.t, b.t) = 0", 29, "the join is not bounded in time"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(mi, a, b) BETWEEN 5 AND 1", 29, "exclude each other: nothing can match"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(mi, a, b) < 5 AND DATEDIFF(ss, a, b) > 0", 29, "have different units"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(year, a, b) = 0", 38, "'year' is not a unit of constant length"),
    ("SELECT a.x FROM a JOIN b ON DATEDIFF(mi, a, a) = 0", 29, "between a source and itself"),
    ("SELECT a.x FROM a JOIN b ON a.k = b.x AND DATEDIFF(mi, a, b) = 0", 29, "a text never equals a number in ON"),
    ("SELECT a.x FROM a JOIN b ON System.Timestamp() = b.t AND DATEDIFF(mi, a, b) = 0", 29, "has no meaning in ON"),
    ("SELECT ref.k FROM ref JOIN a ON a.k = ref.k", 19, "begin FROM with the stream"),
    ("SELECT a.x FROM a JOIN ref ON DATEDIFF(mi, a, ref) = 0", 31, "ref has no time"),
    ("SELECT a.x FROM a PARTITION BY PartitionId JOIN b ON DATEDIFF(mi, a, b) = 0", 49, "on both sources of a join"),
    ("SELECT a.x FROM a PARTITION BY k JOIN b PARTITION BY k ON DATEDIFF(mi, a, b) = 0", 59, "ON must equate"),
    # apply
    ("SELECT e.ArrayValue FROM a CROSS APPLY GetArrayElements(k) e", 57, "takes an array"),
    ("SELECT e.PropertyName FROM a CROSS APPLY GetRecordProperties(r) e", 62, "have several types: declare"),
    ("SELECT x FROM a CROSS APPLY UDF.split(k) e", 29, "APPLY takes GetArrayElements(array)"),
    ("SELECT k FROM ref CROSS APPLY GetArrayElements(k) e", 19, "APPLY over reference data is not offered"),
    # unions
    ("SELECT x FROM a UNION SELECT y FROM a", 23, "give the same columns: x, not y"),
    ("SELECT x FROM a UNION SELECT k AS x FROM a", 23, "column 'x' is nvarchar(max) here and bigint before"),
    ("WITH s AS (SELECT k FROM a UNION SELECT k FROM ref) SELECT k FROM s", 48, "reference data cannot be part"),
    # time
    ("SELECT x FROM a TIMESTAMP BY x", 30, "TIMESTAMP BY takes a datetime, not bigint"),
    ("SELECT x FROM a TIMESTAMP BY System.Timestamp()", 30, "has no meaning in TIMESTAMP BY"),
    ("WITH s AS (SELECT x, t FROM a) SELECT x FROM s TIMESTAMP BY t", 61, "stands at an input, not at a step"),
    ("SELECT a.x FROM a JOIN ref TIMESTAMP BY k ON 1 = 1", 41, "reference data has no time"),
    ("SELECT x FROM a TIMESTAMP BY t OVER x + 1", 37, "OVER takes columns of the input"),
    # tables
    ("CREATE TABLE nothing (x bigint) SELECT x FROM a", 14, "there is no step, input or reference data 'nothing'"),
    ("CREATE TABLE c (k nvarchar(max), t datetime, z bit) SELECT k FROM c", 46, "the job file has no column 'z'"),
    ("CREATE TABLE c (k bigint, t datetime) SELECT k FROM c", 19, "is bigint here and STRING in the job file"),
    ("CREATE TABLE c (k nvarchar(max), t thing) SELECT k FROM c", 36, "is thing here and TIMESTAMP in the job file"),
    ("CREATE TABLE c (k nvarchar(max)) SELECT k FROM c", 14, "lacks columns of the job file: t"),
]


@pytest.mark.parametrize(("text", "column", "part"), CASES)
def test_it_is_refused_where_it_stands(script: Script, text: str, column: int, part: str) -> None:
    with pytest.raises(Refused) as caught:
        script(text)
    assert part in caught.value.what
    assert (caught.value.line, caught.value.column) == (1, column)


def test_deep_nesting_is_refused(script: Script) -> None:
    for text in ("SELECT " + "(" * 400 + "x" + ")" * 400 + " AS y FROM a", "SELECT " + "x + " * 3000 + "x AS y FROM a"):
        with pytest.raises(Refused, match="nested too deeply"):
            script(text)
