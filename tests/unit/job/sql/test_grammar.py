"""What a script's text is read as, and where it is refused."""

import pytest
from sqlglot import exp

from pipelines.job.sql.grammar.expressions import Over, Reader
from pipelines.job.sql.grammar.statements import parse
from pipelines.job.sql.grammar.syntax import Applying, Joining, Select, Union
from pipelines.job.sql.places import Places, offset
from pipelines.job.sql.refusal import Refused


def expression(text: str) -> exp.Expr:
    reader = Reader(text)
    node = reader.expression()
    assert reader.token.kind == "end"
    return node


def select(text: str) -> Select:
    script = parse(text)
    (rows,) = script.outputs
    assert isinstance(rows, Select)
    return rows


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("a & b + c", "(a & b) + c"),
        ("a + b * c", "a + (b * c)"),
        ("NOT a = b AND c = d", "(NOT (a = b)) AND (c = d)"),
        ("a OR b AND c", "a OR (b AND c)"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("-a * b", "(-a) * b"),
        ("a !> b", "a <= b"),
        ("a !< b", "a >= b"),
        ("a != b", "a <> b"),
        ("a NOT IN (1, 2)", "NOT a IN (1, 2)"),
        ("a IS NOT NULL", "NOT a IS NULL"),
        ("a /* why */ + -- so\n b", "a + b"),
    ],
)
def test_operators_bind_as_in_t_sql(text: str, same: str) -> None:
    def without_parentheses(node: exp.Expr) -> exp.Expr:
        while (paren := node.find(exp.Paren)) is not None:
            if paren is node:
                node = paren.this
            paren.replace(paren.this)
        return node

    assert without_parentheses(expression(text)) == without_parentheses(expression(same))


def test_calls_stay_as_they_are_written() -> None:
    for text in ("DATEDIFF(minute, a, b)", "LEN(x)", "ISNULL(a, b)", "LEFT(x, 2)", "COUNT(*)", "COUNT(DISTINCT a)"):
        assert isinstance(expression(text), exp.Anonymous)


def test_a_path_goes_through_records_of_any_depth() -> None:
    node = expression("a.b.c.d.e.[0].order")
    assert sorted(part.name for part in node.find_all(exp.Identifier)) == ["0", "a", "b", "c", "d", "e", "order"]
    assert node.name == "order"
    assert isinstance(expression("UDF.f(x)"), exp.Dot)
    assert isinstance(expression("GetArrayElement(a, 0).x"), exp.Dot)


def test_over_takes_limit_duration_and_when() -> None:
    over = expression("LAG(x, 2) OVER (PARTITION BY a, b LIMIT DURATION(minute, 5) WHEN x > 1)")
    assert isinstance(over, Over)
    assert over.args["limit"].name == "DURATION"
    assert len(over.args["partition_by"]) == 2
    assert isinstance(over.args["when"], exp.GT)


def test_a_source_has_its_clauses_in_any_order() -> None:
    for text in (
        "SELECT * FROM x AS a TIMESTAMP BY f(t) OVER k PARTITION BY p INTO 3",
        "SELECT * FROM x PARTITION BY p TIMESTAMP BY f(t) OVER k a",
    ):
        source = select(text).source
        assert source.called.name == "a"
        assert source.timestamp_by is not None
        assert (len(source.over), len(source.partition_by)) == (1, 1)


def test_a_column_may_be_called_timestamp() -> None:
    one = select("SELECT timestamp, x AS time FROM a WHERE timestamp IS NOT NULL")
    assert [item.value.name for item in one.items] == ["timestamp", "x"]


def test_statements_follow_each_other_without_separator() -> None:
    script = parse(
        "CREATE TABLE a (x bigint) WITH s AS (SELECT * FROM a UNION SELECT * FROM a)\n"
        "SELECT x INTO one FROM s SELECT y = x, x 'z' INTO two FROM s; SELECT x INTO three FROM s;"
    )
    assert [one.name.name for one in script.tables] == ["a"]
    assert isinstance(script.steps[0].rows, Union)
    outputs = [rows for rows in script.outputs if isinstance(rows, Select)]
    assert [one.into.name for one in outputs if one.into] == ["one", "two", "three"]
    assert [item.alias.name for item in outputs[1].items if item.alias] == ["y", "z"]


def test_joins_and_applies_keep_their_order() -> None:
    one = select(
        "SELECT a.x FROM a LEFT OUTER JOIN b ON a.k = b.k OUTER APPLY GetArrayElements(a.z) AS e INNER JOIN c ON 1 = 1"
    )
    kinds = [clause.kind if isinstance(clause, Joining) else clause.outer for clause in one.clauses]
    assert kinds == ["left", True, "inner"]
    assert isinstance(one.clauses[1], Applying)


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("SELECT a\nFROM x FULL OUTER JOIN y ON 1 = 1", 2, 8, "FULL OUTER JOIN is not in the language"),
        ("SELECT a FROM x RIGHT JOIN y ON 1 = 1", 1, 17, "RIGHT JOIN"),
        ("SELECT a FROM x, y", 1, 16, "a comma between sources"),
        ("SELECT DISTINCT a FROM x", 1, 8, "SELECT DISTINCT"),
        ("SELECT TOP 3 a FROM x", 1, 8, "SELECT TOP"),
        ("SELECT a FROM (SELECT a INTO b FROM x) y", 1, 30, "INTO stands in a SELECT outside WITH"),
        ("SELECT a FROM x ORDER BY a", 1, 17, "ORDER BY"),
        ("SELECT a FROM x MATCH_RECOGNIZE (", 1, 17, "MATCH_RECOGNIZE"),
        ("SELECT (SELECT 1) FROM x", 1, 9, "a SELECT inside an expression"),
        ("WITH s AS (SELECT a INTO b FROM x) SELECT a FROM s", 1, 26, "INTO stands in a SELECT outside WITH"),
        ("SELECT a FROM x WHERE a = 'b", 1, 27, "the text that begins here has no end"),
        ("SELECT a FROM x /* b", 1, 17, "the comment that begins here has no end"),
        ("SELECT a FROM x WHERE", 1, 22, "the end of the script stands where a value is expected"),
        ("SELECT CAST(a AS) FROM x", 1, 17, "a type is expected"),
        ("SELECT CASE a END FROM x", 1, 15, "WHEN is expected"),
        ("SELECT a ? b FROM x", 1, 10, "'?' begins nothing"),
        ("CREATE TABLE x (a bigint)", 1, 26, "the script selects nothing"),
        ("UPDATE x", 1, 1, "CREATE TABLE, WITH or SELECT is expected"),
        ("SELECT " + "(" * 5000 + "a", 1, None, "nested too deeply"),
    ],
)
def test_what_is_not_in_the_language_is_refused_where_it_stands(
    text: str, line: int, column: int | None, part: str
) -> None:
    with pytest.raises(Refused) as caught:
        parse(text)
    assert part in caught.value.what
    assert caught.value.line == line
    assert column in (None, caught.value.column)


def test_every_node_has_a_place() -> None:
    text = "SELECT\n  a + LEN(b),\n  CASE WHEN c THEN 1 ELSE NULL END\nFROM x"
    first, second = select(text).items
    places = Places(text)
    assert places.place(offset(first.value)) == (2, 3)
    assert places.place(offset(first.value.expression)) == (2, 7)
    assert places.place(offset(second.value)) == (3, 3)
    assert places.place(offset(second.value.args["default"])) == (3, 27)
