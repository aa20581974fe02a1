"""What one SELECT of a script is as relations, in the order of Q41."""

from collections.abc import Callable

import pytest

from pipelines.core.query import Aggregate, AnyOf, Grid, Session, Sliding, Snapshot, SortKey, Window
from pipelines.core.steps import (
    Analysed,
    Analytic,
    Applied,
    Computed,
    Filtered,
    InputRows,
    Output,
    Projected,
    ReferenceRows,
    Rows,
    StepRows,
    United,
    Windowed,
)
from pipelines.core.time import HOUR, MILLISECOND, MINUTE, SECOND
from pipelines.job.sql.script import Loaded

Of = Callable[[str], Rows]
ScriptOf = Callable[[str], Loaded]


def names(rows: Rows) -> list[str]:
    assert isinstance(rows, Projected)
    return [one.name for one in rows.columns]


def windowed(rows: Rows) -> Windowed:
    while not isinstance(rows, Windowed):
        assert isinstance(rows, Projected | Filtered)
        rows = rows.rows
    return rows


def test_a_projection_keeps_where_below_it(rows: Of) -> None:
    assert rows("SELECT x, y AS Why, z = k FROM a WHERE x > 1") == Projected(
        Filtered(InputRows("a"), "(`x` > 1L)"),
        (Computed("x", "`x`"), Computed("Why", "`y`"), Computed("z", "`k`")),
    )


def test_columns_are_found_in_any_case_and_keep_the_one_of_the_script(rows: Of) -> None:
    assert rows("SELECT X, A.Y FROM A") == Projected(InputRows("a"), (Computed("X", "`x`"), Computed("Y", "`y`")))


def test_an_expression_is_called_by_the_last_part_of_its_path(rows: Of) -> None:
    assert rows("SELECT r.p, a.r.Q FROM a") == Projected(
        InputRows("a"),
        (Computed("p", "CAST(`r` AS STRUCT<`p`: STRING, `q`: BIGINT>).`p`"),) * 0
        + (
            Computed("p", "CAST(`r` AS STRUCT<`p`: STRING, `q`: BIGINT>).`p`"),
            Computed("Q", "CAST(`r` AS STRUCT<`p`: STRING, `q`: BIGINT>).`q`"),
        ),
    )


def test_a_star_gives_the_columns_and_what_the_event_hub_adds_and_skips_names_further_left(rows: Of) -> None:
    found = rows("SELECT y AS X, * FROM a")
    assert names(found) == ["X", "k", "y", "t", "u", "r", "l", "PartitionId", "EventEnqueuedUtcTime"]
    assert isinstance(found, Projected)
    assert found.columns[-2:] == (
        Computed("PartitionId", "CAST(`input_partition` AS BIGINT)"),
        Computed("EventEnqueuedUtcTime", "`arrival_time`"),
    )


def test_a_star_of_a_source_and_of_a_record_give_their_columns(rows: Of) -> None:
    assert names(rows("SELECT c.*, b.z FROM c JOIN b ON DATEDIFF(minute, c, b) = 0")) == [
        "k",
        "t",
        "PartitionId",
        "EventEnqueuedUtcTime",
        "z",
    ]
    assert names(rows("SELECT r.*, x FROM a")) == ["p", "q", "x"]


def test_the_systems_time_is_no_column_of_its_own_under_its_own_name(rows: Of) -> None:
    found = rows("SELECT System.Timestamp() AS System_Timestamp, System.Timestamp AS at, x FROM a")
    assert names(found) == ["at", "x"]
    assert isinstance(found, Projected)
    assert found.columns[0].expression == "system_timestamp"


def test_double_quotes_are_a_column_if_one_is_called_so_and_else_a_text(rows: Of) -> None:
    assert rows('SELECT "x" AS a, "no" AS b FROM a') == Projected(
        InputRows("a"), (Computed("a", "`x`"), Computed("b", "'no'"))
    )


@pytest.mark.parametrize(
    ("text", "window"),
    [
        ("TumblingWindow(minute, 5)", Grid(5 * MINUTE, 5 * MINUTE)),
        ("Tumbling(mi, 5)", Grid(5 * MINUTE, 5 * MINUTE)),
        ("TumblingWindow(minute, 5, 1)", Grid(5 * MINUTE, 5 * MINUTE, MINUTE)),
        ("TumblingWindow(Duration(hour, 1), Offset(ms, -1))", Grid(HOUR, HOUR, -MILLISECOND)),
        ("HoppingWindow(second, 60, 5)", Grid(MINUTE, 5 * SECOND)),
        ("HoppingWindow(Duration(minute, 1), Hop(second, 5), Offset(ss, 1))", Grid(MINUTE, 5 * SECOND, SECOND)),
        ("SlidingWindow(Duration(ss, 90))", Sliding(90 * SECOND)),
        ("SessionWindow(minute, 5, 60)", Session(5 * MINUTE, HOUR)),
        (
            "SessionWindow(Timeout(minute, 5), MaxDuration(hour, 1)) OVER (PARTITION BY a.K)",
            Session(5 * MINUTE, HOUR, ("k",)),
        ),
        ("System.Timestamp()", Snapshot()),
        (
            "Windows(TumblingWindow(minute, 1), System.Timestamp())",
            AnyOf((("1", Grid(MINUTE, MINUTE)), ("2", Snapshot()))),
        ),
        (
            "Windows(Window('one', TumblingWindow(minute, 1)), Window('two', SlidingWindow(minute, 2)))",
            AnyOf((("one", Grid(MINUTE, MINUTE)), ("two", Sliding(2 * MINUTE)))),
        ),
    ],
)
def test_windows(rows: Of, text: str, window: Window) -> None:
    assert rows(f"SELECT k, COUNT(*) AS n FROM a GROUP BY k, {text}") == Windowed(
        InputRows("a"), window, (Computed("k", "`k`"),), (Aggregate("n", "count"),)
    )


def test_the_systems_time_is_a_key_where_a_window_stands_too(rows: Of) -> None:
    found = windowed(rows("SELECT COUNT(*) AS n FROM a GROUP BY System.Timestamp(), TumblingWindow(minute, 1)"))
    assert found.keys == (Computed("__key", "system_timestamp"),)


def test_the_id_of_a_window_is_null_unless_windows_have_names(rows: Of) -> None:
    select = "SELECT System.Window().Id AS id, COUNT(*) AS n FROM a GROUP BY "
    named = rows(f"{select} Windows(Window('x', SlidingWindow(minute, 2)))")
    unnamed = rows(f"{select} SlidingWindow(minute, 2)")
    assert isinstance(named, Projected)
    assert isinstance(unnamed, Projected)
    assert named.columns[0] == Computed("id", "window_id")
    assert unnamed.columns[0] == Computed("id", "CAST(NULL AS STRING)")


@pytest.mark.parametrize(
    ("text", "aggregate"),
    [
        ("COUNT(*)", Aggregate("n", "count")),
        ("COUNT(a)", Aggregate("n", "count")),
        ("COUNT(x)", Aggregate("n", "count", "`x`")),
        ("COUNT(DISTINCT x)", Aggregate("n", "count", "`x`", True)),
        ("SUM(x)", Aggregate("n", "sum", "`x`")),
        ("AVG(x)", Aggregate("n", "avg", "`x`")),
        ("MIN(CAST(k AS nvarchar(max)))", Aggregate("n", "min", "`k`")),
        ("STDEV(y)", Aggregate("n", "stddev_samp", "`y`")),
        ("VARP(y)", Aggregate("n", "var_pop", "`y`")),
        ("Collect(x)", Aggregate("n", "collect", "`x`")),
        (
            "TopOne(x) OVER (ORDER BY y DESC, t)",
            Aggregate("n", "top_one", "`x`", order_by=(SortKey("`y`", True), SortKey("`t`"))),
        ),
        (
            "CollectTop(2, x) OVER (ORDER BY y)",
            Aggregate("n", "collect_top", "`x`", order_by=(SortKey("`y`"),), limit=2),
        ),
        ("PERCENTILE_CONT(0.9) OVER (ORDER BY y)", Aggregate("n", "percentile_cont", "`y`", parameter=0.9)),
        (
            "PERCENTILE_DISC(0.5) OVER (ORDER BY x DESC)",
            Aggregate("n", "percentile_disc", "`x`", parameter=0.5, order_by=(SortKey("`x`", True),)),
        ),
    ],
)
def test_aggregates(rows: Of, text: str, aggregate: Aggregate) -> None:
    found = windowed(rows(f"SELECT {text} AS n FROM a GROUP BY TumblingWindow(minute, 5)"))
    assert found.aggregates == (aggregate,)


def test_a_whole_row_is_a_record_without_what_the_event_hub_adds(rows: Of) -> None:
    found = windowed(rows("SELECT TopOne() OVER (ORDER BY t) AS first FROM c GROUP BY TumblingWindow(minute, 5)"))
    assert found.aggregates[0].argument == "named_struct('k', `k`, 't', `t`)"


def test_a_later_step_reads_a_record_of_the_earlier_one(rows: Of) -> None:
    found = rows(
        "WITH s AS (SELECT TopOne() OVER (ORDER BY t) AS first FROM c GROUP BY TumblingWindow(minute, 5))"
        " SELECT first.K, s.first.t FROM s"
    )
    assert found == Projected(StepRows("s"), (Computed("K", "`first`.`k`"), Computed("t", "`first`.`t`")))


def test_an_expression_over_keys_and_aggregates_is_computed_after_them(rows: Of) -> None:
    found = rows(
        "SELECT x & 1 AS odd, (X & 1) | COUNT(*) AS n FROM a WHERE x > 0"
        " GROUP BY a.x & 1, TumblingWindow(minute, 5) HAVING COUNT(*) > 2 AND odd > 0"
    )
    assert found == Projected(
        Filtered(
            Windowed(
                Filtered(InputRows("a"), "(`x` > 0L)"),
                Grid(5 * MINUTE, 5 * MINUTE),
                (Computed("__key", "(`x` & 1L)"),),
                (Aggregate("__aggregate", "count"),),
            ),
            "((`__aggregate` > 2L) AND (`__key` > 0L))",
        ),
        (Computed("odd", "`__key`"), Computed("n", "(`__key` | `__aggregate`)")),
    )


def test_having_without_a_group_is_a_second_where(rows: Of) -> None:
    found = rows("SELECT x FROM a WHERE x > 1 HAVING x < 5")
    assert found == Projected(Filtered(Filtered(InputRows("a"), "(`x` > 1L)"), "(`x` < 5L)"), (Computed("x", "`x`"),))


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("LAG(x) OVER (LIMIT DURATION(minute, 5))", Analytic("f", "lag", "`x`", within_us=5 * MINUTE)),
        (
            "LAG(y, 2, x) OVER (PARTITION BY k, r.p LIMIT DURATION(hour, 1) WHEN x > 1)",
            Analytic(
                "f",
                "lag",
                "`y`",
                2,
                "CAST(`x` AS DOUBLE)",
                ("`k`", "CAST(`r` AS STRUCT<`p`: STRING, `q`: BIGINT>).`p`"),
                "(`x` > 1L)",
                HOUR,
            ),
        ),
        (
            "LAST(x, NULL) OVER (LIMIT DURATION(ss, 1))",
            Analytic("f", "last", "`x`", default="CAST(NULL AS BIGINT)", within_us=SECOND),
        ),
        ("ISFIRST(minute, 10)", Analytic("f", "is_first", within_us=10 * MINUTE)),
        (
            "ISFIRST(minute, 10) OVER (PARTITION BY k WHEN x > 1)",
            Analytic("f", "is_first", partition_by=("`k`",), when="(`x` > 1L)", within_us=10 * MINUTE),
        ),
        (
            "SUM(x) OVER (PARTITION BY k LIMIT DURATION(minute, 1))",
            Analytic("f", "aggregate", partition_by=("`k`",), within_us=MINUTE, aggregate=Aggregate("f", "sum", "`x`")),
        ),
        (
            "TopOne(x) OVER (ORDER BY y LIMIT DURATION(minute, 1))",
            Analytic(
                "f",
                "aggregate",
                within_us=MINUTE,
                aggregate=Aggregate("f", "top_one", "`x`", order_by=(SortKey("`y`"),)),
            ),
        ),
    ],
)
def test_analytic_functions(rows: Of, text: str, function: Analytic) -> None:
    found = rows(f"SELECT {text} AS f FROM a WHERE x > 0")
    assert isinstance(found, Projected)
    assert isinstance(found.rows, Filtered)
    analysed = found.rows.rows
    assert isinstance(analysed, Analysed)
    (one,) = analysed.functions
    assert repr(one).replace("__analytic_1", "f") == repr(function)
    assert found.columns == (Computed("f", "`__analytic_1`"),)


def test_a_function_that_stands_twice_is_computed_once(rows: Of) -> None:
    found = rows("SELECT x FROM a WHERE LAG(x) OVER (LIMIT DURATION(mi, 5)) < lag(X) OVER (LIMIT DURATION(MI, 5)) + x")
    assert isinstance(found, Projected)
    assert isinstance(found.rows, Filtered)
    assert isinstance(found.rows.rows, Analysed)
    assert len(found.rows.rows.functions) == 1


def test_apply_adds_a_row_for_each_element_before_where(rows: Of) -> None:
    found = rows("SELECT a.x, e.ArrayValue AS v FROM a CROSS APPLY GetArrayElements(l) AS e WHERE e.ArrayIndex > 0")
    assert found == Projected(
        Filtered(Applied(InputRows("a"), "`l`", "e"), "(`e`.`ArrayIndex` > 0L)"),
        (Computed("x", "`x`"), Computed("v", "`e`.`ArrayValue`")),
    )


def test_the_properties_of_a_declared_record_are_a_map_in_their_order(rows: Of) -> None:
    found = rows(
        "WITH s AS (SELECT TopOne() OVER (ORDER BY x) AS one FROM b GROUP BY TumblingWindow(minute, 1)), "
        "n AS (SELECT x, z AS y FROM b), m AS (SELECT LAST(*) OVER (LIMIT DURATION(minute, 1)) AS one FROM n) "
        "SELECT p.PropertyName AS n, p.PropertyValue AS v FROM m OUTER APPLY GetRecordProperties(one) p"
    )
    assert isinstance(found, Projected)
    assert found.rows == Applied(
        StepRows("m"),
        "if(`one` IS NULL, NULL, map('x', CAST(`one`.`x` AS DOUBLE), 'y', CAST(`one`.`y` AS DOUBLE)))",
        "p",
        "record",
        True,
    )


def test_each_input_partition_is_computed_apart(rows: Of) -> None:
    apart = "CAST(`input_partition` AS BIGINT)"
    found = windowed(rows("SELECT COUNT(*) AS n FROM a PARTITION BY PartitionId GROUP BY TumblingWindow(minute, 1)"))
    assert found.partition_by == (apart,)
    found = windowed(
        rows("SELECT COUNT(*) AS n FROM a PARTITION BY PartitionId GROUP BY PartitionId, TumblingWindow(minute, 1)")
    )
    assert found.partition_by == ()
    analysed = rows("SELECT LAG(x) OVER (PARTITION BY k LIMIT DURATION(mi, 1)) AS p FROM a PARTITION BY PartitionId")
    assert isinstance(analysed, Projected)
    assert isinstance(analysed.rows, Analysed)
    assert analysed.rows.functions[0].partition_by == (apart, "`k`")


def test_branches_of_a_union_match_by_position_and_bigint_becomes_float(rows: Of) -> None:
    found = rows("SELECT y, k FROM a UNION SELECT x AS Y, NULL AS K FROM b UNION ALL SELECT z AS y, k FROM b")
    assert found == United(
        (
            Projected(InputRows("a"), (Computed("y", "`y`"), Computed("k", "`k`"))),
            Projected(
                Projected(InputRows("b"), (Computed("Y", "`x`"), Computed("K", "NULL"))),
                (Computed("y", "CAST(`Y` AS DOUBLE)"), Computed("k", "CAST(`K` AS STRING)")),
            ),
            Projected(InputRows("b"), (Computed("y", "`z`"), Computed("k", "`k`"))),
        )
    )


def test_a_step_that_reads_reference_data_alone_is_reference_data(script: ScriptOf) -> None:
    loaded = script(
        "WITH high AS (SELECT k AS Id, high FROM ref WHERE high > 1)"
        " SELECT a.x INTO Out FROM a LEFT JOIN high h ON a.k = h.Id AND a.y > h.high"
    )
    assert loaded.steps.steps == ()
    (output,) = loaded.steps.outputs
    reference = Projected(
        Filtered(ReferenceRows("ref"), "(`high` > 1.0D AND NOT isnan(`high`))"),
        (Computed("Id", "`k`"), Computed("high", "`high`")),
    )
    assert isinstance(output.rows, Projected)
    joined = output.rows.rows
    assert joined.reference.rows == reference  # type: ignore[union-attr]
    assert joined.keys == (("`k`", "`Id`"),)  # type: ignore[union-attr]
    assert joined.condition == "((`a`.`y` > `h`.`high` AND NOT isnan(`a`.`y`)))"  # type: ignore[union-attr]


def test_a_column_of_bare_nulls_is_a_text(rows: Of) -> None:
    found = rows("SELECT NULL AS n FROM a")
    assert isinstance(found, Projected)
    assert found.columns == (Computed("n", "CAST(`n` AS STRING)"),)


def test_names_of_a_script_do_not_hide_the_time_of_rows(rows: Of) -> None:
    found = rows(
        "SELECT Sequence.ArrayValue AS v, System.Timestamp() AS at FROM a CROSS APPLY GetArrayElements(l) AS Sequence"
    )
    assert found == Projected(
        Applied(InputRows("a"), "`l`", "__Sequence"),
        (Computed("v", "`__Sequence`.`ArrayValue`"), Computed("at", "system_timestamp")),
    )
    found = rows(
        "WITH s AS (SELECT k AS window_id, t FROM a) SELECT window_id AS k, System.Window().Id AS id"
        " FROM s GROUP BY window_id, Windows(Window('w', SlidingWindow(mi, 1)))"
    )
    assert isinstance(found, Projected)
    assert found.columns == (Computed("k", "`window_id_2`"), Computed("id", "window_id"))


def test_steps_that_no_output_reads_are_left_out(script: ScriptOf) -> None:
    loaded = script(
        "WITH one AS (SELECT x FROM a), two AS (SELECT x FROM one), no AS (SELECT x FROM a) SELECT x FROM two"
    )
    assert [one.name for one in loaded.steps.steps] == ["one", "two"]
    assert loaded.steps.ansi


def test_outputs_are_named_by_into_in_lower_case(script: ScriptOf) -> None:
    loaded = script("SELECT x INTO [Blob-Output] FROM a SELECT x FROM a")
    rows = Projected(InputRows("a"), (Computed("x", "`x`"),))
    assert loaded.steps.outputs == (Output("blob_output", rows), Output("output", rows))


def test_a_column_that_repeats_the_end_of_a_window_is_left_out_of_the_output(rows: Of) -> None:
    found = rows("SELECT System.Timestamp() AS window_end, COUNT(*) AS n FROM a GROUP BY TumblingWindow(minute, 1)")
    assert names(found) == ["n"]
    assert names(rows("SELECT t AS window_end FROM a")) == ["window_end"]
