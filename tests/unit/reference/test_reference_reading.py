"""What the reference engine reads: the log's order, plain columns, expressions through the evaluator."""

from __future__ import annotations

from decimal import Decimal

import pytest
from reference_logs import at, clock, counts, event, job, punctuation, run

from pipelines.core.errors import DataRefused, UsageError
from pipelines.core.expressions import read
from pipelines.core.model import Column


def expressive(where="n > 1", argument="n + 1"):
    return job(
        f"""
profile: stream_analytics
inputs: {{events: {{columns: "at TIMESTAMP, text STRING, n INT", timestamp_by: at}}}}
ordering: {{late_arrival: unbounded}}
query:
  from: events
  where: "{where}"
  window: {{tumbling: {{size: 5m}}}}
  aggregates: {{total: "sum({argument})"}}
"""
    )


LOG = [event("12:04", n, at=at("12:01"), text="2026-01-01 12:01:00", n=n) for n in range(4)]


def test_expressions_go_to_the_evaluator_in_one_call_an_input():
    calls = []

    def evaluate(columns, rows, expressions):
        calls.append((columns, list(expressions)))
        return [tuple(row["n"] > 1 if text == "n > 1" else row["n"] + 1 for text in expressions) for row in rows]

    assert counts(run(expressive(), LOG, evaluate=evaluate), "total") == [("12:00", "12:05", 7)]
    ((columns, expressions),) = calls
    assert columns == (Column("at", "timestamp"), Column("text", "string"), Column("n", "int"))
    assert sorted(expressions) == ["n + 1", "n > 1"]


def test_a_time_that_is_no_timestamp_column_is_converted_first():
    def evaluate(columns, rows, expressions):
        assert list(expressions) == ["to_instant(text)"]
        return [(at("12:03"),) for _ in rows]

    by_text = job(
        """
profile: stream_analytics
inputs: {events: {columns: "at TIMESTAMP, text STRING, n INT", timestamp_by: text}}
ordering: {late_arrival: unbounded}
query: {from: events, window: {tumbling: {size: 5m}}, aggregates: {total: "sum(n)"}}
"""
    )
    outcome = run(by_text, LOG, evaluate=evaluate, instant_sql=lambda text: f"to_instant({text})")
    assert [clock(decision.event_time_us) for decision in outcome.decisions] == ["12:03"] * 4
    with pytest.raises(UsageError, match="instant_sql"):
        run(by_text, LOG, evaluate=evaluate)


def test_an_expression_without_an_evaluator_is_refused():
    with pytest.raises(UsageError, match="more than a column"):
        run(expressive(), LOG)


def test_plain_columns_need_no_evaluator_whatever_their_case():
    assert read((Column("n", "int"),), [{"n": 3}], ["N"], None) == [{"N": 3}]


def test_columns_hold_what_their_type_holds():
    columns = (Column("price", "decimal(10,2)"), Column("ratio", "float"), Column("whole", "decimal"))
    (found,) = read(
        columns, [{"price": Decimal("1.5"), "ratio": 0.1, "whole": Decimal("2")}], ["price", "ratio", "whole"], None
    )
    assert str(found["price"]) == "1.50"
    assert found["ratio"] == 0.10000000149011612
    assert str(found["whole"]) == "2"


def test_a_joined_query_evaluates_joined_rows_in_a_call_of_their_own():
    joined = job(
        """
profile: stream_analytics
inputs:
  a: {columns: "plate STRING, at TIMESTAMP", timestamp_by: at}
  b: {columns: "plate STRING, at TIMESTAMP", timestamp_by: at}
query:
  join: {left: a, right: b, on: [plate], within: {unit: minute, from: 0, to: 5}}
  where: "a.plate = b.plate"
  window: {snapshot: {}}
  aggregates: {n: "count(*)"}
"""
    )
    seen = []

    def evaluate(columns, rows, expressions):
        seen.append([column.name for column in columns])
        return [(row["a.plate"] == row["b.plate"],) for row in rows]

    rows = [event("12:00", 0, input=name, plate="p", at=at("12:00")) for name in ("a", "b")]
    assert counts(run(joined, rows, evaluate=evaluate), "n") == [("12:00", "12:00", 1)]
    assert seen == [["a.plate", "a.at", "b.plate", "b.at"]]


@pytest.mark.parametrize(
    "rows",
    [
        [event("12:00", 1, at=at("12:00"), text="", n=1), event("12:01", 0, at=at("12:00"), text="", n=1)],
        [event("12:00", 0, at=at("12:00"), text="", n=1), event("12:00", 0, at=at("12:00"), text="", n=1)],
    ],
)
def test_a_partition_that_is_not_in_order_is_refused(rows):
    with pytest.raises(DataRefused, match="not in order"):
        run(expressive(where="true", argument="n"), rows, evaluate=lambda columns, rows, _: [(True,) for _ in rows])


def test_an_event_must_have_a_partition_and_an_input_that_the_job_knows():
    plain = job(
        """
profile: stream_analytics
inputs: {events: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: events, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
"""
    )
    with pytest.raises(DataRefused, match="no input partition"):
        run(plain, [event("12:00", 0, None, at=at("12:00"))])
    with pytest.raises(UsageError, match="others"):
        run(plain, [event("12:00", 0, input="others", at=at("12:00"))])


def test_punctuations_have_no_decision_and_say_nothing_to_stream_analytics():
    plain = job(
        """
profile: stream_analytics
inputs: {events: {columns: "at TIMESTAMP", timestamp_by: at}}
query: {from: events, window: {tumbling: {size: 5m}}, aggregates: {n: "count(*)"}}
"""
    )
    rows = [event("12:00", 0, at=at("12:00")), punctuation("12:00", 1, "12:30"), event("12:00", 2, at=at("12:00"))]
    assert [(one.sequence, one.verdict) for one in run(plain, rows).decisions] == [(0, "accepted"), (2, "accepted")]
