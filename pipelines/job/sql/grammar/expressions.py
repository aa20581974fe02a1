"""Expressions of a script as nodes of sqlglot: calls as they are written, every node with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar

from sqlglot import exp
from sqlglot.errors import SqlglotError

from pipelines.job.sql.grammar.tokens import Token, tokens
from pipelines.job.sql.places import Places, begin, offset
from pipelines.job.sql.refusal import Refused

T = TypeVar("T")

_RESERVED = """
ALL AND APPLY AS BETWEEN CASE CREATE CROSS DISTINCT ELSE END FROM FULL GROUP HAVING IN INNER INTO IS JOIN LIKE LIMIT
NOT NULL ON OR ORDER OUTER OVER SELECT THEN UNION WHEN WHERE WITH
"""
RESERVED = frozenset(_RESERVED.split())
"""Words that are no names unless they stand in brackets."""
_SIDES = frozenset({"LEFT", "RIGHT"})
"""Reserved, too, unless they are called: ``LEFT(x, 3)``."""

_ORS: dict[str, type[exp.Binary]] = {"OR": exp.Or}
_ANDS: dict[str, type[exp.Binary]] = {"AND": exp.And}
_COMPARISONS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ,
    "<>": exp.NEQ,
    "!=": exp.NEQ,
    "<": exp.LT,
    "!>": exp.LTE,
    "<=": exp.LTE,
    ">": exp.GT,
    "!<": exp.GTE,
    ">=": exp.GTE,
}
_SUMS: dict[str, type[exp.Binary]] = {
    "+": exp.Add,
    "-": exp.Sub,
    "&": exp.BitwiseAnd,
    "|": exp.BitwiseOr,
    "^": exp.BitwiseXor,
}
_PRODUCTS: dict[str, type[exp.Binary]] = {"*": exp.Mul, "/": exp.Div, "%": exp.Mod}
_CASTS: dict[str, type[exp.Cast]] = {"CAST": exp.Cast, "TRY_CAST": exp.TryCast}
_TYPES = "bigint, float, nvarchar(max), datetime, bit, record or array"


class Over(exp.Expression, exp.Func):
    """``this OVER (PARTITION BY .. ORDER BY .. LIMIT DURATION(..) WHEN ..)``; ``limit`` is the call of DURATION."""

    arg_types: ClassVar[dict[str, bool]] = {
        "this": True,
        "partition_by": False,
        "order_by": False,
        "limit": False,
        "when": False,
    }


class Reader:
    """Reads expressions from a script's tokens, from left to right; anything that does not fit is Refused."""

    def __init__(self, text: str) -> None:
        self.places = Places(text)
        self._tokens = tokens(text, self.places)
        self._index = 0

    # tokens

    @property
    def token(self) -> Token:
        """The token to be read next."""
        return self._tokens[self._index]

    def ahead(self, count: int = 1) -> Token:
        """The token ``count`` places after the next one."""
        return self._tokens[min(self._index + count, len(self._tokens) - 1)]

    def advance(self) -> Token:
        """The next token, which is read by this."""
        token = self.token
        if token.kind != "end":
            self._index += 1
        return token

    def at(self, *keywords: str) -> bool:
        """Do these keywords or symbols, in any case, stand next?"""
        return all(self.ahead(index).has(keyword) for index, keyword in enumerate(keywords))

    def skip(self, *keywords: str) -> bool:
        """Read these keywords or symbols, if they stand next."""
        found = self.at(*keywords)
        if found:
            self._index += len(keywords)
        return found

    def expect(self, *keywords: str) -> Token:
        """Read the first of these keywords or symbols, which must stand next, and the others."""
        first = self.token
        for keyword in keywords:
            if not self.token.has(keyword):
                raise self.unexpected(keyword)
            self.advance()
        return first

    def unexpected(self, wanted: str) -> Refused:
        return self.places.refused(self.token.start, f"{self.token} stands where {wanted} is expected")

    def listed(self, one: Callable[[], T]) -> tuple[T, ...]:
        """One or more, with commas between them."""
        found = [one()]
        while self.skip(","):
            found.append(one())
        return tuple(found)

    def name(self, what: str = "a name") -> exp.Identifier:
        """A name, plain or in brackets or double quotes."""
        token = self.token
        if not self.is_name(token):
            raise self.unexpected(what)
        self.advance()
        identifier = begin(exp.Identifier(this=token.text, quoted=token.kind == "quoted"), token.start)
        identifier.meta["mark"] = token.mark
        return identifier

    def is_name(self, token: Token) -> bool:
        return token.kind == "quoted" or (token.kind == "word" and not token.has(*RESERVED, *_SIDES))

    # expressions, from the operators that bind least to those that bind most

    def expression(self) -> exp.Expr:
        """One expression."""
        return self._chain(_ORS, lambda: self._chain(_ANDS, self._not))

    def _chain(self, operators: Mapping[str, type[exp.Binary]], one: Callable[[], exp.Expr]) -> exp.Expr:
        start = self.token.start
        left = one()
        while self.token.has(*operators):
            kind = operators[self.advance().text.upper()]
            left = begin(kind(this=left, expression=one()), start)
        return left

    def _not(self) -> exp.Expr:
        start = self.token.start
        if self.skip("NOT"):
            return begin(exp.Not(this=self._not()), start)
        return self._predicate()

    def _predicate(self) -> exp.Expr:
        start = self.token.start
        left = self._sum()
        while True:
            if self.token.has(*_COMPARISONS):
                kind = _COMPARISONS[self.advance().text]
                left = begin(kind(this=left, expression=self._sum()), start)
            elif self.skip("IS"):
                negated = self.skip("NOT")
                null = begin(exp.Null(), self.expect("NULL").start)
                left = self._negated(exp.Is(this=left, expression=null), negated, start)
            else:
                negated = self.at("NOT")
                kept = self._range(left, 1 if negated else 0)
                if kept is None:
                    return left
                left = self._negated(kept, negated, start)

    def _range(self, left: exp.Expr, skipped: int) -> exp.Expr | None:
        """BETWEEN, IN or LIKE, if one follows after ``skipped`` tokens."""
        if not self.ahead(skipped).has("BETWEEN", "IN", "LIKE"):
            return None
        self._index += skipped
        if self.skip("BETWEEN"):
            low = self._sum()
            self.expect("AND")
            return exp.Between(this=left, low=low, high=self._sum())
        if self.skip("IN"):
            self.expect("(")
            options = self.listed(self.expression)
            self.expect(")")
            return exp.In(this=left, expressions=list(options))
        self.expect("LIKE")
        return exp.Like(this=left, expression=self._sum())

    def _negated(self, node: exp.Expr, negated: bool, start: int) -> exp.Expr:
        begin(node, start)
        return begin(exp.Not(this=node), start) if negated else node

    def _sum(self) -> exp.Expr:
        return self._chain(_SUMS, lambda: self._chain(_PRODUCTS, self._signed))

    def _signed(self) -> exp.Expr:
        start = self.token.start
        if self.skip("+"):
            return self._signed()
        if self.skip("-"):
            return begin(exp.Neg(this=self._signed()), start)
        if self.skip("~"):
            return begin(exp.BitwiseNot(this=self._signed()), start)
        return self._path()

    def _path(self) -> exp.Expr:
        """A value and what is taken from it: ``a.b.c``, ``r.[0]``, ``UDF.f(x)``, ``GetArrayElement(a, 0).x``."""
        start = self.token.start
        names: list[exp.Identifier] = []
        if self.is_name(self.token) and not (self.token.kind == "word" and self.ahead().has("(")):
            names.append(self.name())
            node: exp.Expr | None = None
        else:
            node = self._value()
        while self.skip("."):
            if self.token.has("*"):
                star = begin(exp.Star(), self.advance().start)
                return begin(exp.Dot(this=_column(names, node), expression=star), start)
            if self.token.kind == "word" and self.ahead().has("("):
                owner = _column(names, node)
                call = self._call()
                if owner.name.lower() == "uda":
                    call.set("expressions", [_collected(one) for one in call.expressions])
                names, node = [], begin(exp.Dot(this=owner, expression=call), start)
                node = self._over(node, start)
            elif node is None:
                names.append(self._property())
            else:
                node = begin(exp.Dot(this=node, expression=self._property()), start)
        return begin(_column(names, node), start)

    def _property(self) -> exp.Identifier:
        """What stands after a dot, where reserved keywords are names."""
        token = self.token
        if token.kind not in ("word", "quoted"):
            raise self.unexpected("the name of a column or property")
        self.advance()
        return begin(exp.Identifier(this=token.text, quoted=token.kind == "quoted"), token.start)

    def _value(self) -> exp.Expr:
        token = self.token
        if token.kind in ("string", "number"):
            self.advance()
            return begin(exp.Literal(this=token.text, is_string=token.kind == "string"), token.start)
        if self.skip("NULL"):
            return begin(exp.Null(), token.start)
        if self.skip("("):
            if self.at("SELECT"):
                raise self.places.refused(
                    self.token.start,
                    "a SELECT inside an expression is not in the language: name it in WITH and join it",
                )
            inner = self.expression()
            self.expect(")")
            return begin(exp.Paren(this=inner), token.start)
        if self.skip("CASE"):
            return begin(self._case(), token.start)
        if token.kind == "word" and self.ahead().has("(") and not token.has(*RESERVED):
            call = self._cast() if token.has(*_CASTS) else self._call()
            return self._over(begin(call, token.start), token.start)
        raise self.unexpected("a value")

    def _case(self) -> exp.Case:
        subject = None if self.at("WHEN") else self.expression()
        branches = []
        while self.at("WHEN"):
            start = self.advance().start
            condition = self.expression()
            self.expect("THEN")
            branches.append(begin(exp.If(this=condition, true=self.expression()), start))
        if not branches:
            raise self.unexpected("WHEN")
        default = self.expression() if self.skip("ELSE") else None
        self.expect("END")
        return exp.Case(this=subject, ifs=branches, default=default)

    def _cast(self) -> exp.Cast:
        kind = _CASTS[self.advance().text.upper()]
        self.expect("(")
        value = self.expression()
        self.expect("AS")
        cast = kind(this=value, to=self.type())
        self.expect(")")
        return cast

    def type(self) -> exp.DataType:
        """A type, such as ``nvarchar(max)``."""
        first = self.token
        text = self.name("a type").name
        if self.skip("("):
            size = [self.advance().text]
            while self.skip(","):
                size.append(self.advance().text)
            self.expect(")")
            text += f"({', '.join(size)})"
        not_a_type = self.places.refused(first.start, f"'{text}' is not a type: use {_TYPES}")
        if not re.fullmatch(r"\w+(\((max|\d+(, \d+)?)\))?", text, re.IGNORECASE):
            raise not_a_type
        try:
            return begin(exp.DataType.build(text, dialect="tsql", udt=True), first.start)
        except SqlglotError:
            raise not_a_type from None

    def _call(self) -> exp.Anonymous:
        """A call: ``f(a, b)``, ``COUNT(*)``, ``COUNT(DISTINCT a)``."""
        name = self.advance()
        self.expect("(")
        arguments: list[exp.Expr] = []
        if self.token.has("*"):
            arguments.append(begin(exp.Star(), self.advance().start))
        elif self.token.has("DISTINCT"):
            distinct = self.advance()
            arguments.append(begin(exp.Distinct(expressions=list(self.listed(self.expression))), distinct.start))
        elif not self.at(")"):
            arguments += self.listed(self.expression)
        self.expect(")")
        return begin(exp.Anonymous(this=name.text, expressions=arguments), name.start)

    def _over(self, node: exp.Expr, start: int) -> exp.Expr:
        """The call with its OVER clause, if it has one; ``TIMESTAMP BY f(x) OVER key`` is no such clause."""
        if not self.skip("OVER", "("):
            return node
        over = begin(Over(this=node), start)
        while not self.skip(")"):
            key, value = self._over_part()
            if over.args.get(key):
                raise self.places.refused(self.token.start, f"{key.replace('_', ' ').upper()} stands twice in one OVER")
            over.set(key, value)
        return over

    def _over_part(self) -> tuple[str, exp.Expr | list[exp.Expr]]:
        if self.skip("PARTITION", "BY"):
            return "partition_by", list(self.listed(self.expression))
        if self.skip("ORDER", "BY"):
            return "order_by", list(self.listed(self._ordered))
        if self.skip("LIMIT"):
            if not self.at("DURATION", "("):
                raise self.unexpected("DURATION(")
            return "limit", self._call()
        if self.skip("WHEN"):
            return "when", self.expression()
        raise self.unexpected("PARTITION BY, ORDER BY, LIMIT DURATION, WHEN or )")

    def _ordered(self) -> exp.Ordered:
        start = self.token.start
        value = self.expression()
        descending = self.skip("DESC")
        if not descending:
            self.skip("ASC")
        return begin(exp.Ordered(this=value, desc=descending), start)


def _collected(argument: exp.Expr) -> exp.Expr:
    """What an aggregate written by the user is given: the values of the group, in order (Q59)."""
    return begin(exp.Anonymous(this="Collect", expressions=[argument]), offset(argument))


def _column(names: list[exp.Identifier], node: exp.Expr | None) -> exp.Expr:
    """``a.b.c.d`` as a Column, with a Dot for each further name; ``node`` if there are no names."""
    if node is not None:
        return node
    parts = dict(zip(("catalog", "db", "table", "this")[-len(names[:4]) :], names[:4], strict=True))
    column: exp.Expr = exp.Column(**parts)
    for name in names[4:]:
        column = exp.Dot(this=column, expression=name)
    return column
