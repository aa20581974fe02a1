"""Statements of a script: CREATE TABLE, WITH and SELECT, which follow each other with or without a semicolon (Q91)."""

from __future__ import annotations

from typing import Literal

from sqlglot import exp

from pipelines.job.sql.grammar.expressions import Reader
from pipelines.job.sql.grammar.syntax import Applying, Item, Joining, Named, Rows, Script, Select, Source, Table, Union
from pipelines.job.sql.places import begin
from pipelines.job.sql.refusal import Refused

_NOT_SELECTED = {
    "DISTINCT": "SELECT DISTINCT is not in the language: group by the columns and a window",
    "TOP": "SELECT TOP is not in the language: use TopOne() OVER (ORDER BY ..) or CollectTop(n)",
}
_NOT_A_CLAUSE = {
    "RIGHT": "RIGHT JOIN is not in the language: exchange the two sides and write LEFT JOIN",
    "FULL": "FULL OUTER JOIN is not in the language: write a LEFT JOIN each way and UNION the two",
    "MATCH_RECOGNIZE": "MATCH_RECOGNIZE is not offered: use LAG or LAST with LIMIT DURATION",
    ",": "a comma between sources is not in the language: write JOIN .. ON",
    "ORDER": "ORDER BY is not in the language: rows of a stream have the order of their time",
    "LIMIT": "LIMIT is not in the language: LIMIT DURATION stands inside OVER, CollectTop(n) takes the first n",
    "INTO": "INTO stands between the select list and FROM",
    "PARTITION": "PARTITION BY stands after the name of a source, before JOIN and WHERE",
}


def parse(text: str) -> Script:
    """The script's statements; Refused names the place of what is not understood."""
    reader = _Statements(text)
    try:
        return reader.script()
    except RecursionError:
        raise reader.places.refused(reader.token.start, "nested too deeply: use fewer parentheses") from None


class _Statements(Reader):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.steps: list[Named] = []
        """Steps of WITH, and each SELECT in FROM before what reads it."""

    def script(self) -> Script:
        tables: list[Table] = []
        outputs: list[Rows] = []
        while self.token.kind != "end":
            if self.skip(";"):
                continue
            if self.at("CREATE"):
                tables.append(self._table())
            elif self.at("WITH"):
                self.advance()
                self.listed(self._add_step)
                if not (self.at("SELECT") or self.at("(")):
                    raise self.unexpected("SELECT, or a comma and a further step,")
            elif self.at("SELECT") or self.at("("):
                outputs.append(self._rows())
            else:
                raise self.unexpected("CREATE TABLE, WITH or SELECT")
        if not outputs:
            raise self._refused("the script selects nothing: add SELECT .. INTO .. FROM ..")
        return Script(tuple(tables), tuple(self.steps), tuple(outputs))

    def _refused(self, what: str) -> Refused:
        return self.places.refused(self.token.start, what)

    def _table(self) -> Table:
        self.expect("CREATE", "TABLE")
        name = self.name("the name of an input")
        self.expect("(")
        columns = self.listed(lambda: (self.name("the name of a column"), self.type()))
        self.expect(")")
        return Table(name, columns)

    def _add_step(self) -> None:
        name = self.name("the name of a step")
        self.expect("AS")
        self.steps.append(Named(name, self._inner_rows()))

    def _inner_rows(self) -> Rows:
        """A SELECT in parentheses, which writes no output."""
        self.expect("(")
        rows = self._rows()
        self.expect(")")
        first = rows.branches[0] if isinstance(rows, Union) else rows
        if first.into is not None:
            raise self.places.refused(first.into, "INTO stands in a SELECT outside WITH only")
        return rows

    def _rows(self) -> Rows:
        start = self.token.start
        branches = self._branches()
        while self.skip("UNION"):
            self.skip("ALL")
            for branch in self._branches():
                if branch.into is not None:
                    raise self.places.refused(branch.into, "INTO stands in the first SELECT of a UNION only")
                branches.append(branch)
        return branches[0] if len(branches) == 1 else Union(tuple(branches), start)

    def _branches(self) -> list[Select]:
        """One SELECT, or those of a UNION in parentheses."""
        if not self.skip("("):
            return [self._select()]
        rows = self._rows()
        self.expect(")")
        return list(rows.branches) if isinstance(rows, Union) else [rows]

    def _select(self) -> Select:
        start = self.expect("SELECT").start
        for word, what in _NOT_SELECTED.items():
            if self.at(word) and self.ahead().kind != "symbol":
                raise self._refused(what)
        items = self.listed(self._item)
        into = self.name("the name of an output") if self.skip("INTO") else None
        if not self.at("FROM"):
            raise self.unexpected("FROM" if into else "FROM, or a comma and a further column,")
        self.advance()
        source = self._source()
        clauses = []
        while (clause := self._clause()) is not None:
            clauses.append(clause)
        where = self.expression() if self.skip("WHERE") else None
        group_by = self.listed(self.expression) if self.skip("GROUP", "BY") else ()
        having = self.expression() if self.skip("HAVING") else None
        for word, what in _NOT_A_CLAUSE.items():
            if self.at(word):
                raise self._refused(what)
        if not (self.token.kind == "end" or self.token.has(";", ")", "(", "UNION", "SELECT", "CREATE", "WITH")):
            raise self.unexpected("the next clause or statement")
        return Select(items, into, source, tuple(clauses), where, group_by, having, start)

    def _item(self) -> Item:
        token = self.token
        if token.has("*"):
            self.advance()
            return Item(begin(exp.Star(), token.start), None, token.start)
        if self.is_name(token) and self.ahead().has("="):
            alias = self.name()
            self.advance()
            return Item(self.expression(), alias, token.start)
        value = self.expression()
        return Item(value, self._alias(), token.start)

    def _alias(self) -> exp.Identifier | None:
        if self.skip("AS"):
            if self.token.kind != "string":
                return self.name("the name of the column")
        elif self.token.kind != "string":
            return self.name() if self.is_name(self.token) else None
        text = self.advance()
        return begin(exp.Identifier(this=text.text, quoted=True), text.start)

    def _source(self) -> Source:
        token = self.token
        name = self._subquery() if self.at("(") else self.name("the name of an input or step")
        alias: exp.Identifier | None = None
        timestamp_by: exp.Expr | None = None
        over: tuple[exp.Expr, ...] = ()
        partition_by: tuple[exp.Expr, ...] = ()
        while True:
            if timestamp_by is None and self.skip("TIMESTAMP", "BY"):
                timestamp_by = self.expression()
                over = self.listed(self.expression) if self.skip("OVER") else ()
            elif not partition_by and self.skip("PARTITION", "BY"):
                partition_by = self.listed(self.expression)
                if self.skip("INTO"):  # a number of shards, which changes no result (Q16)
                    self._count()
            elif alias is None and self._begins_alias():
                self.skip("AS")
                alias = self.name("the alias of the source")
            else:
                return Source(name, alias, timestamp_by, over, partition_by, token.start)

    def _subquery(self) -> exp.Identifier:
        """A SELECT in FROM, as a step of its own."""
        start = self.token.start
        rows = self._inner_rows()
        named = Named(begin(exp.Identifier(this=f"subquery_{len(self.steps) + 1}", quoted=False), start), rows)
        self.steps.append(named)
        return named.name

    def _begins_alias(self) -> bool:
        clause = self.at("TIMESTAMP", "BY") or self.at("PARTITION", "BY") or self.at("MATCH_RECOGNIZE")
        return self.at("AS") or (self.is_name(self.token) and not clause)

    def _count(self) -> None:
        if self.token.kind != "number":
            raise self.unexpected("a number of shards")
        self.advance()

    def _clause(self) -> Joining | Applying | None:
        start = self.token.start
        for keywords, outer in ((("CROSS", "APPLY"), False), (("OUTER", "APPLY"), True)):
            if self.skip(*keywords):
                call = self.expression()
                self.skip("AS")
                return Applying(call, self.name("the alias of the elements"), outer, start)
        kind: Literal["inner", "left"]
        if self.skip("JOIN") or self.skip("INNER", "JOIN"):
            kind = "inner"
        elif self.skip("LEFT", "JOIN") or self.skip("LEFT", "OUTER", "JOIN"):
            kind = "left"
        else:
            return None
        source = self._source()
        self.expect("ON")
        return Joining(kind, source, self.expression(), start)
