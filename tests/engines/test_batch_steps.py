"""Steps in the batch engine: each rule over a few rows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession
from steps_rows import Answer, answers, columns_of, input_frame, job_of

from pipelines.batch.spark.failures import named_failures
from pipelines.batch.steps.outputs import evaluate, shared_steps
from pipelines.core.errors import DataRefused, JobFileError
from pipelines.core.model import OutputRange, Reference
from pipelines.core.query import Aggregate, AnyOf, Grid, Session, Sliding, Snapshot, SortKey, Window
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Applied,
    Computed,
    Filtered,
    InputRows,
    Joined,
    Projected,
    Referenced,
    ReferenceRows,
    Rows,
    Side,
    StepRows,
    United,
    Windowed,
)
from pipelines.core.time import DAY, MINUTE, SECOND, parse_instant

pytestmark = pytest.mark.spark

CARS = InputRows("cars")
INPUTS = {"cars": "k STRING, x BIGINT, d DOUBLE", "vans": "k STRING, x BIGINT, d DOUBLE"}
ROWS = {
    "cars": [
        {"at": "12:00", "k": "a", "x": 1, "d": 0.1},
        {"at": "12:01", "k": "b", "x": 2, "d": 0.2},
        {"at": "12:01", "k": "a", "x": None, "d": 0.3},
        {"at": "12:03:30", "k": "a", "x": 4, "d": 1e300},
        {"at": "12:05", "k": "a", "x": 5, "d": -1e300},
    ],
    "vans": [{"at": "12:01", "k": "a", "x": 7}, {"at": "12:05", "k": None, "x": 8}],
}
COUNT = Aggregate("n", "count")
FIVE = Grid(5 * MINUTE, 5 * MINUTE)


def select(rows: Rows, **columns: str) -> Projected:
    return Projected(rows, tuple(Computed(name, text) for name, text in columns.items()))


def group(rows: Rows, window: Window, *aggregates: Aggregate, **keys: str) -> Windowed:
    return Windowed(rows, window, tuple(Computed(name, text) for name, text in keys.items()), aggregates)


def analytic(function: str, argument: str | None = "x", minutes: float = 5, **settings: object) -> Analytic:
    return Analytic("v", function, argument, within_us=int(minutes * MINUTE), **settings)  # type: ignore[arg-type]


def over(function: str, argument: str | None = "x", minutes: float = 2, **settings: object) -> Analytic:
    keys = {name: settings.pop(name) for name in ("partition_by", "when") if name in settings}
    return analytic("aggregate", None, minutes, aggregate=Aggregate("v", function, argument, **settings), **keys)  # type: ignore[arg-type]


def with_value(one: Analytic, rows: Rows = CARS) -> Projected:
    return select(Analysed(rows, (one,)), v="v")


def pairs(minutes: tuple[int, int], kind: str = "inner", keys: bool = True, condition: str | None = None) -> Rows:
    """Cars with vans, so many boundaries of minutes later."""
    equal = (("k", "k"),) if keys else ()
    sides = Side("c", CARS), Side("w", InputRows("vans"))
    return select(Joined(*sides, MINUTE, *minutes, equal, condition, kind), c="c.x", w="w.x")  # type: ignore[arg-type]


ROW_BY_ROW: dict[str, tuple[Rows, Answer]] = {
    "a projection keeps the time, and sees it and where the row comes from": (
        select(select(Filtered(CARS, "x = 2"), y="x"), y="y + 1", s="sequence", t="system_timestamp"),
        [("12:01", 3, 1, "12:01")],
    ),
    "a column hides what is known of the event": (
        select(select(Filtered(CARS, "x = 2"), sequence="'mine'"), s="sequence", p="input_partition"),
        [("12:01", "mine", 0)],
    ),
    "a condition that is null removes": (
        select(Filtered(CARS, "NOT x > 4"), x="x"),
        [("12:00", 1), ("12:01", 2), ("12:03:30", 4)],
    ),
    "names are found in any case": (select(Filtered(CARS, "X = 2"), K="K"), [("12:01", "b")]),
    "an array gives a row for each element, from 0, null elements too": (
        select(Applied(Filtered(CARS, "x = 1"), "array(x, NULL)", "e"), i="e.ArrayIndex", v="e.ArrayValue", k="k"),
        [("12:00", 0, 1, "a"), ("12:00", 1, None, "a")],
    ),
    "an array without elements gives no row": (
        select(Applied(CARS, "IF(x = 1, array(), NULL)", "e"), i="e.ArrayIndex"),
        [],
    ),
    "outer, an array without elements gives one row with null": (
        select(Applied(Filtered(CARS, "x < 3"), "IF(x = 1, array(), NULL)", "e", outer=True), e="e"),
        [("12:00", None), ("12:01", None)],
    ),
    "a record gives a row for each property in its order": (
        select(
            Applied(Filtered(CARS, "x = 1"), "map('q', x, 'p', 2)", "e", "record"),
            n="e.PropertyName",
            v="e.PropertyValue",
        ),
        [("12:00", "p", 2), ("12:00", "q", 1)],
    ),
    "a union keeps duplicates; names are the first branch's": (
        United((select(Filtered(CARS, "x < 3"), y="x"), select(Filtered(CARS, "x = 2"), z="x"))),
        [("12:00", 1), ("12:01", 2), ("12:01", 2)],
    ),
    "analytic functions over window rows go by window ends": (
        with_value(analytic("lag", "n"), group(CARS, Grid(MINUTE, MINUTE), COUNT)),
        [("12:00", None), ("12:01", 1), ("12:04", 2), ("12:05", 1)],
    ),
    "analytic functions see rows that a filter over them removes": (
        select(Filtered(Analysed(CARS, (analytic("lag"),)), "x = 5"), v="v"),
        [("12:05", 4)],
    ),
    "a union of BIGINT and DOUBLE is DOUBLE": (
        United((select(Filtered(CARS, "x = 1"), y="x"), select(Filtered(CARS, "x = 1"), y="d"))),
        [("12:00", 0.1), ("12:00", 1.0)],
    ),
}

BY_K = {"partition_by": ("k",)}
BY_X = (SortKey("x", True),)
LOOKED_UP: dict[str, tuple[Analytic, list[object]]] = {
    "LAG finds the row before in the total order, its null too": (analytic("lag"), [None, 1, 2, None, 4]),
    "LAG by key": (analytic("lag", **BY_K), [None, None, 1, None, 4]),
    "LAG n counts rows that fulfil WHEN, of which the row itself is none": (
        analytic("lag", offset=2, when="x IS NOT NULL"),
        [None, None, 1, 1, 2],
    ),
    "LAG reaches less far than its duration, and else gives the default of the row itself": (
        analytic("lag", minutes=1.5, default="x * 10", **BY_K),
        [10, 20, 1, 40, 50],
    ),
    "a row exactly the duration ago is out of reach": (
        analytic("lag", minutes=1, default="-1", **BY_K),
        [-1, -1, -1, -1, -1],
    ),
    "LAST counts the row itself if it fulfils WHEN": (analytic("last", when="x > 1", minutes=3), [None, 2, 2, 4, 5]),
    "LAST finds null as it finds a value": (analytic("last", default="-1", **BY_K), [1, 2, None, 4, 5]),
    "LAST of a whole row is a record": (
        analytic("last", "struct(k, x)", when="k = 'b'"),
        [None, *[{"k": "b", "x": 2}] * 4],
    ),
    "ISFIRST: once in each tumbling interval, which ends with its last instant": (
        analytic("is_first", None),
        [1, 1, 0, 0, 0],
    ),
    "ISFIRST by key, with WHEN": (analytic("is_first", None, when="x > 1", **BY_K), [0, 1, 0, 1, 0]),
    "COUNT OVER takes what is in reach up to the row, not its later peers": (over("count", None, 3), [1, 2, 3, 3, 2]),
    "COUNT OVER of a column leaves nulls out": (over("count", "x", 3, **BY_K), [1, 1, 1, 1, 2]),
    "SUM OVER is null over nothing": (over("sum", "x", 2, when="x > 1", **BY_K), [None, 2, None, 4, 9]),
    "AVG OVER of whole numbers": (over("avg"), [1.0, 1.5, 1.5, 4.0, 4.5]),
    "SUM OVER of doubles is exact, in and out of the ordinary": (
        over("sum", "d", 10),
        [0.1, 0.1 + 0.2, 0.6, 1e300, 0.6],
    ),
    "SUM OVER of doubles forgets what is out of reach": (over("sum", "d", 3), [0.1, 0.1 + 0.2, 0.6, 1e300, 0.0]),
    "MIN OVER": (over("min"), [1, 1, 1, 4, 4]),
    "MAX OVER": (over("max", **BY_K), [1, 2, 1, 4, 5]),
    "MAX OVER a microsecond takes peers up to the row": (over("max", "x", 1 / MINUTE), [1, 2, 2, 4, 5]),
    "STDEV OVER": (over("stddev_pop"), [0.0, 0.5, 0.5, 0.0, 0.5]),
    "TopOne OVER takes the greatest, of equal ones the earlier": (
        over("top_one", "d", 10, order_by=(SortKey("x IS NULL", True), SortKey("k", True))),
        [0.1, 0.2, 0.3, 0.3, 0.3],
    ),
    "CollectTop OVER ranks from 1": (
        over("collect_top", "x", 10, order_by=BY_X, limit=2, when="x <> 4"),
        [
            [{"rank": 1, "value": 1}],
            *[[{"rank": 1, "value": 2}, {"rank": 2, "value": 1}]] * 3,
            [{"rank": 1, "value": 5}, {"rank": 2, "value": 2}],
        ],
    ),
    "Collect OVER": (over("collect", "x", 10, when="x <> 2"), [[1], [1], [1], [1, 4], [1, 4, 5]]),
}
HOUR_OF_FIVES = group(
    group(CARS, FIVE, COUNT, k="k"), Grid(60 * MINUTE, 60 * MINUTE), Aggregate("n", "sum", "n"), k="k"
)
BOTH = AnyOf((("long", FIVE), ("short", Grid(MINUTE, MINUTE))))
WINDOWS: dict[str, tuple[Rows, Answer]] = {
    "a window gives a row at its end": (
        group(Filtered(CARS, "x < 3"), FIVE, COUNT, key="upper(k)"),
        [("12:00", "A", 1), ("12:05", "B", 1)],
    ),
    "a row on an edge lies in the window that ends there, also of a second window": (
        select(HOUR_OF_FIVES, k="k", n="n", e="window_end"),
        [("12:00", "a", 1, "12:00"), ("13:00", "a", 3, "13:00"), ("13:00", "b", 1, "13:00")],
    ),
    "HAVING filters afterwards; window columns stay known": (
        select(Filtered(group(CARS, FIVE, COUNT), "n > 1"), s="window_start"),
        [("12:05", "12:00")],
    ),
    "a snapshot groups what ends together": (
        select(
            group(group(CARS, FIVE, COUNT, k="k"), Snapshot(), COUNT, Aggregate("ks", "collect", "k")), n="n", k="ks"
        ),
        [("12:00", 1, ["a"]), ("12:05", 2, ["a", "b"])],
    ),
    "several windows: each row knows which, and ties of groups go by it": (
        select(group(Filtered(CARS, "x = 5"), BOTH, COUNT), i="window_id", s="window_start"),
        [("12:05", "long", "12:00"), ("12:05", "short", "12:04")],
    ),
    "windows of each partition apart": (
        select(replace(group(CARS, FIVE, COUNT), partition_by=("k",)), n="n"),
        [("12:00", 1), ("12:05", 1), ("12:05", 3)],
    ),
    "a session ends at its timeout": (
        select(group(CARS, Session(2 * MINUTE, 60 * MINUTE), COUNT), n="n", s="window_start"),
        [("12:03", 3, "12:00"), ("12:07", 2, "12:03:30")],
    ),
    "sessions of windows": (
        select(group(group(CARS, Grid(MINUTE, MINUTE), COUNT), Session(2 * MINUTE, 60 * MINUTE), COUNT), n="n"),
        [("12:03", 2), ("12:07", 2)],
    ),
    "sessions chain by their own keys, and partition_by": (
        select(replace(group(CARS, Session(2 * MINUTE, 60 * MINUTE, ("k",)), COUNT), partition_by=("x = 5",)), n="n"),
        [("12:02", 1), ("12:03", 1), ("12:03", 1), ("12:05:30", 1), ("12:07", 1)],
    ),
    "a sliding window ends where its content changes": (
        select(group(Filtered(CARS, "x < 3"), Sliding(MINUTE), COUNT), n="n"),
        [("12:00", 1), ("12:01", 1)],
    ),
    "a row's own time in an argument, and the end of the window": (
        select(group(CARS, FIVE, Aggregate("t", "max", "system_timestamp")), t="t", e="system_timestamp"),
        [("12:00", "12:00", "12:00"), ("12:05", "12:05", "12:05")],
    ),
    "TopOne takes the first in order; null is lowest; of equal rows the earlier": (
        select(
            group(
                CARS,
                Grid(DAY, DAY),
                Aggregate("low", "top_one", "d", order_by=(SortKey("x"),)),
                Aggregate("high", "top_one", "struct(k, x)", order_by=(SortKey("k = 'a'", True), SortKey("d", True))),
                Aggregate("word", "top_one", "x", order_by=(SortKey("k", True),)),
                Aggregate("tie", "top_one", "x", order_by=(SortKey("1"),)),
            ),
            low="low",
            high="high.x",
            word="word",
            tie="tie",
        ),
        [("00:00", 0.3, 4, 2, 1)],
    ),
    "CollectTop ranks from 1": (
        select(
            group(
                Filtered(CARS, "k = 'a'"),
                Grid(DAY, DAY),
                Aggregate("top", "collect_top", "x", order_by=(SortKey("x", True),), limit=2),
                Aggregate("all", "collect_top", "x", order_by=(SortKey("x"),), limit=9),
            ),
            top="top",
            all="transform(all, one -> one.value)",
        ),
        [("00:00", [{"rank": 1, "value": 5}, {"rank": 2, "value": 4}], [None, 1, 4, 5])],
    ),
    "percentiles from the greatest value": (
        select(
            group(
                CARS,
                Grid(DAY, DAY),
                Aggregate("c", "percentile_cont", "x", parameter=0.25, order_by=(SortKey("x", True),)),
                Aggregate("d", "percentile_disc", "x", parameter=0.25, order_by=(SortKey("x", True),)),
            ),
            c="c",
            d="d",
        ),
        [("00:00", 4.25, 5.0)],
    ),
    "distinct whole rows": (
        select(group(CARS, Grid(DAY, DAY), Aggregate("n", "count", "struct(k, x > 1)", distinct=True)), n="n"),
        [("00:00", 4)],
    ),
}
JOINS: dict[str, tuple[Rows, Answer]] = {
    "bounds count boundaries, both ends included; null keys match nothing": (
        pairs((0, 2)),
        [("12:01", 1, 7), ("12:01", None, 7)],
    ),
    "a pair counts at its later row": (pairs((-4, 0)), [("12:01", None, 7), ("12:03:30", 4, 7), ("12:05", 5, 7)]),
    "without keys every pair within the bounds": (
        pairs((0, 0), keys=False),
        [("12:01", 2, 7), ("12:01", None, 7), ("12:05", 5, 8)],
    ),
    "a left row without a partner stays, and counts when none can come any more": (
        pairs((0, 1), "left"),
        [("12:01", 1, 7), ("12:01", None, 7), ("12:02", 2, None), ("12:04:30", 4, None), ("12:06", 5, None)],
    ),
    "a left row is alone if nothing fulfils the whole condition": (
        pairs((-9, 0), "left", condition="w.x + c.x > 10"),
        [("12:00", 1, None), ("12:01", 2, None), ("12:01", None, None), ("12:03:30", 4, 7), ("12:05", 5, 7)],
    ),
    "absence of events": (
        select(
            Filtered(
                Joined(Side("c", CARS), Side("w", InputRows("vans")), MINUTE, 0, 1, (("k", "k"),), None, "left"),
                "w.k IS NULL",
            ),
            x="c.x",
        ),
        [("12:02", 2), ("12:04:30", 4), ("12:06", 5)],
    ),
    "a stream with itself; the sides know their times": (
        select(
            Joined(Side("a", CARS), Side("b", CARS), SECOND, 1, 90, (("k", "k"),)),
            a="a.x",
            b="b.system_timestamp",
        ),
        [("12:01", 1, "12:01"), ("12:05", 4, "12:05")],
    ),
    "window rows that end together": (
        select(
            Joined(Side("a", group(CARS, FIVE, COUNT)), Side("b", group(InputRows("vans"), FIVE, COUNT)), SECOND, 0, 0),
            a="a.n",
            b="b.n",
        ),
        [("12:05", 4, 2)],
    ),
}
VANS = select(InputRows("vans"), k="k", x="x", d="d")
PAIRS = Joined(Side("c", CARS), Side("w", InputRows("vans")), MINUTE, -9, 9)


def in_order(rows: Rows, value: str) -> Projected:
    """All values in the order of the rows."""
    return select(group(rows, Grid(DAY, DAY), Aggregate("v", "collect", value)), v="v")


ORDERS: dict[str, tuple[Rows, Answer]] = {
    "events by arrival, input, partition and sequence": (
        in_order(
            United((select(InputRows("late"), x="x"), select(InputRows("first"), x="x"))),
            "x",
        ),
        [("00:00", [1, 2, 3, 4, 5])],
    ),
    "elements of a row one after the other, before the next row": (
        in_order(Applied(Filtered(InputRows("late"), "x > 2"), "array(x, 10 * x)", "e"), "e.ArrayValue"),
        [("00:00", [4, 40, 5, 50])],
    ),
    "of one event by branch": (
        in_order(United((select(InputRows("late"), y="x"), select(InputRows("late"), y="-x"))), "y"),
        [("00:00", [2, -2, 4, -4, 5, -5])],
    ),
    "of rows that do not all stem from events by branch first": (
        in_order(
            United((select(group(InputRows("late"), Snapshot(), COUNT), y="n"), select(InputRows("late"), y="x"))), "y"
        ),
        [("00:00", [3, 2, 4, 5])],
    ),
    "of windows by id, then keys, null first": (
        in_order(
            group(InputRows("late"), AnyOf((("b", FIVE), ("a", FIVE))), COUNT, k="IF(x = 4, NULL, -x)"),
            "concat(window_id, coalesce(string(k), ''))",
        ),
        [("00:00", ["a", "a-5", "a-2", "b", "b-5", "b-2"])],
    ),
    "of pairs by the later row, then the other; of equally late ones the left one's first": (
        in_order(Joined(Side("a", CARS), Side("b", CARS), MINUTE, -1, 1), "concat(a.sequence, b.sequence)"),
        [("00:00", ["00", "10", "01", "11", "12", "20", "02", "21", "22", "33", "44"])],
    ),
    "a left row that is alone comes before the pairs that begin with it": (
        in_order(
            Joined(Side("a", CARS), Side("b", CARS), MINUTE, -9, 0, condition="a.x = 5 AND b.x > 3", kind="left"),
            "concat(a.sequence, '-', coalesce(string(b.sequence), ''))",
        ),
        [("00:00", ["0-", "1-", "2-", "3-", "4-3", "4-4"])],
    ),
}
LATE_ROWS = [
    {"at": "12:00", "arrival": "12:00:02", "partition": 0, "sequence": 9, "x": 5},
    {"at": "12:00", "arrival": "12:00:01", "partition": 0, "sequence": 8, "x": 2},
    {"at": "12:00", "arrival": "12:00:02", "partition": 0, "sequence": 7, "x": 4},
]
FIRST_ROWS = [
    {"at": "12:00", "arrival": "12:00:02", "partition": 1, "sequence": 0, "x": 3},
    {"at": "12:00", "arrival": "12:00:01", "partition": 3, "sequence": 5, "x": 1},
]
TABLES = {"rows": ROW_BY_ROW, "windows": WINDOWS, "joins": JOINS, "orders": ORDERS}


@pytest.fixture(scope="module")
def answered(spark: SparkSession) -> dict[str, dict[str, Answer]]:
    inputs = {"first": "x BIGINT", "late": "x BIGINT", **INPUTS}
    data = {**ROWS, "first": FIRST_ROWS, "late": LATE_ROWS}
    jobs = {title: job_of(inputs, {name: rows for name, (rows, _) in cases.items()}) for title, cases in TABLES.items()}
    return {title: answers(spark, job, data) for title, job in jobs.items()}


@pytest.mark.parametrize(("title", "name"), [(title, name) for title, cases in TABLES.items() for name in cases])
def test_each_relation_gives_its_rows(answered: dict[str, dict[str, Answer]], title: str, name: str) -> None:
    assert answered[title][name] == sorted(TABLES[title][name][1], key=repr)


@pytest.fixture(scope="module")
def looked_up_values(spark: SparkSession) -> list[dict[str, object]]:
    """For each car, in their order, the values of all functions."""
    functions = tuple(replace(one, name=f"v{at}") for at, (one, _) in enumerate(LOOKED_UP.values()))
    names = {name: f"v{at}" for at, name in enumerate(LOOKED_UP)}
    job = job_of({"cars": INPUTS["cars"]}, {"o": select(Analysed(CARS, functions), s="sequence", **names)})
    found = sorted(answers(spark, job, ROWS)["o"], key=lambda row: row[1])
    return [dict(zip(LOOKED_UP, values, strict=True)) for _, _, *values in found]


@pytest.mark.parametrize("name", LOOKED_UP)
def test_each_function_finds_its_value_for_each_row(looked_up_values: list[dict[str, object]], name: str) -> None:
    assert [values[name] for values in looked_up_values] == LOOKED_UP[name][1]


def test_an_output_of_windows_shows_their_bounds_first(spark: SparkSession) -> None:
    cases: dict[str, Rows] = {
        "plain": group(CARS, FIVE, COUNT),
        "own": select(group(CARS, FIVE, COUNT), window_start="'mine'", n="n"),
    }
    job = job_of({"cars": INPUTS["cars"]}, cases)
    found = evaluate(job, {"cars": input_frame(spark, job.inputs[0], ROWS["cars"])}, {}).outputs
    assert found["plain"].columns == ["system_timestamp", "window_start", "window_end", "window_id", "n"]
    assert found["own"].columns == ["system_timestamp", "window_end", "window_id", "window_start", "n"]
    assert {row["window_start"].minute for row in found["plain"].collect()} == {55, 0}
    assert {row["window_start"] for row in found["own"].collect()} == {"mine"}


def test_the_output_range_is_half_open_on_the_system_timestamp(spark: SparkSession) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"rows": select(CARS, x="x"), "windows": group(CARS, FIVE, COUNT)})
    inputs = {"cars": input_frame(spark, job.inputs[0], ROWS["cars"])}
    output = OutputRange(parse_instant("2026-01-01T12:01:00Z"), parse_instant("2026-01-01T12:05:00Z"))
    found = evaluate(job, inputs, {}, output=output).outputs
    assert sorted(row.x or 0 for row in found["rows"].collect()) == [0, 2, 4]
    assert found["windows"].collect() == []
    assert set(evaluate(job, inputs, {}, ["windows"]).outputs) == {"windows"}


SNAPSHOTS = Reference("makers", columns_of("k STRING, v BIGINT, since TIMESTAMP"), "since")
STATIC = Reference("names", columns_of("k STRING, v BIGINT"))
MAKERS = [
    {"k": "a", "v": 1, "from": "11:00"},
    {"k": "b", "v": 2, "from": "11:00"},
    {"k": "a", "v": 4, "from": "12:01"},
    {"k": "a", "v": 3, "from": "12:01"},
]
NAMES = [{"k": "b", "v": 20}, {"k": None, "v": 30}, {"k": "a", "v": 10}]


def looked_up(name: str, kind: str = "inner", keys: bool = True, condition: str | None = None, **columns: str) -> Rows:
    sides = Side("c", CARS), Side("r", ReferenceRows(name))
    found = Referenced(*sides, (("k", "k"),) if keys else (), condition, kind)  # type: ignore[arg-type]
    return select(found, **(columns or {"x": "c.x", "v": "r.v"}))


REFERENCED: dict[str, tuple[Rows, Answer]] = {
    "static rows match by key; the time stays": (
        looked_up("names"),
        [("12:00", 1, 10), ("12:01", 2, 20), ("12:01", None, 10), ("12:03:30", 4, 10), ("12:05", 5, 10)],
    ),
    "rows without a match stay once in a left join": (
        looked_up("names", "left", condition="c.x > 1 AND r.v < 20"),
        [("12:00", 1, None), ("12:01", 2, None), ("12:01", None, None), ("12:03:30", 4, 10), ("12:05", 5, 10)],
    ),
    "without keys every row of the reference matches": (
        looked_up("names", keys=False, condition="c.x = 2"),
        [("12:01", 2, 10), ("12:01", 2, 20), ("12:01", 2, 30)],
    ),
    "a snapshot serves from its time on, until the next": (
        looked_up("makers", "left"),
        [
            ("12:00", 1, 1),
            ("12:01", 2, None),
            ("12:01", None, 3),
            ("12:01", None, 4),
            ("12:03:30", 4, 3),
            ("12:03:30", 4, 4),
            ("12:05", 5, 3),
            ("12:05", 5, 4),
        ],
    ),
    "matches stand in the order of the file": (
        in_order(looked_up("makers"), "concat(x, ':', v)"),
        [("00:00", ["1:1", "4:4", "4:3", "5:4", "5:3"])],
    ),
    "a filter of the reference does not bring back an older snapshot": (
        select(
            Referenced(Side("c", CARS), Side("r", Filtered(ReferenceRows("makers"), "v < 3")), (("k", "k"),)), v="r.v"
        ),
        [("12:00", 1)],
    ),
    "a step may prepare a reference": (
        select(Referenced(Side("c", CARS), Side("r", StepRows("prepared")), (("k", "k"),)), v="r.w"),
        [("12:00", 11), ("12:01", 21), ("12:01", 11), ("12:03:30", 11), ("12:05", 11)],
    ),
    "window rows look up by their end": (
        select(
            Referenced(Side("c", group(CARS, FIVE, COUNT, k="k")), Side("r", ReferenceRows("makers")), (("k", "k"),)),
            n="c.n",
            v="r.v",
        ),
        [("12:00", 1, 1), ("12:05", 3, 3), ("12:05", 3, 4)],
    ),
}


def test_rows_look_up_reference_data(spark: SparkSession) -> None:
    steps = {"prepared": select(ReferenceRows("names"), k="k", w="v + 1")}
    job = job_of(
        {"cars": INPUTS["cars"]}, {name: rows for name, (rows, _) in REFERENCED.items()}, steps, [SNAPSHOTS, STATIC]
    )
    found = answers(spark, job, ROWS, {"makers": MAKERS, "names": NAMES})
    assert found == {name: sorted(answer, key=repr) for name, (_, answer) in REFERENCED.items()}


def test_a_reference_may_be_looked_up_by_the_arrival_time(spark: SparkSession) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"o": looked_up("makers")}, references=[replace(SNAPSHOTS, time="arrival")])
    rows = [{"at": "12:02", "arrival": "12:00:59.999999", "k": "a", "x": 1}]
    assert answers(spark, job, {"cars": rows}, {"makers": MAKERS}) == {"o": [("12:02", 1, 1)]}


def test_a_row_before_the_first_snapshot_ends_the_run(spark: SparkSession) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"o": looked_up("makers", "left")}, references=[SNAPSHOTS])
    rows = [{"at": "10:59:59", "k": "a", "x": 1}]
    sentence = "'makers' has no snapshot for a row of 2026-01-01 10:59:59: the first one is of 2026-01-01 11:00:00"
    with pytest.raises(DataRefused, match=sentence), named_failures():
        answers(spark, job, {"cars": rows}, {"makers": MAKERS})


@pytest.mark.parametrize(
    ("expression", "sentence"),
    [
        ("raise_error('the price is negative')", "^the price is negative$"),
        ("CAST(k AS BIGINT)", 'The value \'a\' of the type "STRING" cannot be cast to "BIGINT".*in \'CAST'),
        ("x + 9223372036854775807", "BIGINT_ADD|overflow"),
        ("1 div (x - 1)", "Division by zero"),
    ],
)
def test_an_expression_without_a_value_ends_the_run_in_a_sentence(
    spark: SparkSession, expression: str, sentence: str
) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"o": select(CARS, y=expression)})
    with pytest.raises(DataRefused, match=sentence), named_failures():
        answers(spark, job, ROWS)


def test_without_ansi_rules_an_expression_without_a_value_is_null(spark: SparkSession) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"o": select(CARS, y="CAST(k AS BIGINT)")}, ansi=False)
    assert {row[1] for row in answers(spark, job, ROWS)["o"]} == {None}


def test_an_expression_that_spark_refuses_is_named(spark: SparkSession) -> None:
    job = job_of({"cars": INPUTS["cars"]}, {"o": select(CARS, y="nowhere + 1")})
    with pytest.raises(JobFileError, match=r"Spark cannot evaluate 'nowhere \+ 1'"):
        answers(spark, job, ROWS)


def test_steps_that_are_read_more_than_once_are_shared_if_making_them_shuffles() -> None:
    last = StepRows("last")
    twice = United((StepRows("counted"), StepRows("counted")))
    named = {"counted": group(CARS, FIVE, COUNT), "kept": Filtered(CARS, "x > 1"), "last": twice}
    read = {"one": last, "two": Filtered(last, "n > 1"), "three": StepRows("kept"), "four": StepRows("kept")}
    steps = job_of({"cars": INPUTS["cars"]}, read, named).steps
    assert steps is not None
    assert shared_steps(steps, ["one", "two", "three", "four"]) == ("counted", "last")
    assert shared_steps(steps, ["one", "three"]) == ("counted",)
    assert shared_steps(steps, ["three", "four"]) == ()
