"""What a script reads: its inputs, the fields of each, and the types that their use suggests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise

from sqlglot import exp

from pipelines.job.atlas_pipeline.values import Guess, kind_of
from pipelines.job.sql.calls import arguments, called, path_of
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.grammar.syntax import Applying, Joining, Script, Select, Source
from pipelines.job.sql.grammar.syntax import Rows as SyntaxRows
from pipelines.job.sql.inputs import job_name
from pipelines.job.sql.spark_types import type_of
from pipelines.job.sql.types import BIGINT, BIT, DATETIME, FLOAT, TEXT, Array, Map, Record, Scalar, Type

METADATA = frozenset({"partitionid", "eventenqueuedutctime", "blobname", "bloblastmodifiedutctime", "system"})
"""What is no field of an event."""
PROCESSED = "eventprocessedutctime"
"""The product's clock (Q24). A script that names it gets a column, which is null unless events were stored with it."""
_NUMBERS = frozenset({"SUM", "AVG", "MIN", "MAX", "STDEV", "STDEVP", "VAR", "VARP", "ABS", "CEILING", "FLOOR", "ROUND",
                      "SQRT", "SQUARE", "POWER", "EXP", "SIGN", "PERCENTILE_CONT", "PERCENTILE_DISC"})  # fmt: skip
_TEXTS = frozenset({"CONCAT", "CONCAT_WS", "LEN", "SUBSTRING", "UPPER", "LOWER", "TRIM", "LTRIM", "RTRIM", "CHARINDEX",
                    "PATINDEX", "REPLACE", "REGEXMATCH", "LEFT", "RIGHT", "REVERSE", "JSON_PARSE"})  # fmt: skip
_DATES = frozenset({"DATEDIFF", "DATEADD", "DATEPART", "DATENAME", "DAY", "MONTH", "YEAR"})
_ARRAYS = frozenset({"GETARRAYELEMENTS", "GETARRAYELEMENT", "GETARRAYLENGTH"})
_PASSED_ON = frozenset({"LAG", "LAST", "TOPONE", "COALESCE", "ISNULL", "NULLIF", "MIN", "MAX"})
"""Functions whose value is one of their first argument."""
_COMPARED = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)


@dataclass(slots=True)
class Reads:
    """What a script reads. ``references`` are inputs joined without a bound in time, which streams cannot be."""

    inputs: dict[str, Guess] = field(default_factory=dict)
    references: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A source of a SELECT: the fields that it passes on under their names, where other names lead, and its inputs."""

    fields: Mapping[str, Guess | None]
    rest: Guess | None = None
    inputs: frozenset[str] = frozenset()
    element: Guess | None = None
    """What the name of the source alone is, if it is an element of APPLY."""


def reads_of(script: Script, known: Mapping[str, Guess]) -> Reads:
    """What the script reads; fields are added to those that are known."""
    return _Reading(script, known).reads


class _Reading:
    def __init__(self, script: Script, known: Mapping[str, Guess]) -> None:
        self.reads = Reads(dict(known))
        self.steps: dict[str, _Seen] = {}
        self.timed: set[str] = set()
        """Inputs with TIMESTAMP BY, which reference data has not."""
        self.equal: list[tuple[Guess, Guess]] = []
        """Fields that are compared with each other, which have one type."""
        self.whole: list[tuple[Guess, Guess]] = []
        """Inputs that branches of one UNION give whole, which have the same fields."""
        self.unsure: list[tuple[Guess, Type]] = []
        """Fields that CAST converts, or MIN and MAX compare: any other use says more."""
        for table in script.tables:
            guess = self._input(table.name.name)
            for name, kind in table.columns:
                _field(guess, name.name).found = _declared(kind)
        for named in script.steps:
            self.steps[named.name.name.lower()] = self._rows(named.rows)
        for rows in script.outputs:
            self._rows(rows)
        for unsure, likely in self.unsure:
            _settle(unsure, likely)
        for one, other in self.whole:
            names = [*one.fields, *other.fields]
            self.equal += [(_field(one, name), _field(other, name)) for name in names]
        for _ in self.equal:
            for one, other in self.equal:
                _alike(one, other)
                _alike(other, one)

    def _input(self, name: str) -> Guess:
        return self.reads.inputs.setdefault(job_name(name), Guess())

    def _read(self, name: str) -> _Seen:
        return _Seen({}, self._input(name), frozenset({job_name(name)}))

    def _rows(self, rows: SyntaxRows) -> _Seen:
        if isinstance(rows, Select):
            return self._select(rows)
        first, *others = [self._select(one) for one in rows.branches]
        for other in others:
            for name, guess in first.fields.items():
                same = other.fields.get(name)
                if guess is not None and same is not None:
                    self.equal.append((guess, same))
            if first.rest is not None and other.rest is not None:
                self.whole.append((first.rest, other.rest))
        return first

    def _source(self, source: Source) -> _Seen:
        name = source.name.name.lower()
        seen = self.steps.get(name) or self._read(name)
        self._timed(source, seen)
        return seen

    def _select(self, select: Select) -> _Seen:
        sources: dict[str, _Seen] = {select.source.called.name.lower(): self._source(select.source)}
        for clause in select.clauses:
            match clause:
                case Joining(source=source, on=on):
                    sources[source.called.name.lower()] = self._source(source)
                    if not any(called(one) == "DATEDIFF" for one in on.walk()):
                        self.reads.references |= sources[source.called.name.lower()].inputs - self.timed
                case Applying(call=call, alias=alias):
                    array = self._guess(arguments(call)[0], sources) if arguments(call) else None
                    if array is not None and called(call) == "GETARRAYELEMENTS":
                        array.element = array.element or Guess()
                    value = array and array.element
                    element = (
                        None if value is None else Guess(fields={"ArrayIndex": Guess(BIGINT), "ArrayValue": value})
                    )
                    sources[alias.name.lower()] = _Seen({"arrayvalue": value, "arrayindex": None}, element=element)
        named = _Seen({item.alias.name.lower(): None for item in select.items if item.alias is not None})
        for node in expressions_of(select):
            # HAVING sees the aliases, too (Q22)
            seen = {"": named, **sources} if node is select.having else sources
            for one in node.walk():
                self._use(one, seen)
        return self._passed_on(select, sources)

    def _timed(self, source: Source, seen: _Seen) -> None:
        """What TIMESTAMP BY names is a date, whatever else is done with it."""
        if source.timestamp_by is not None:
            self.timed |= seen.inputs
        named = {"": seen, source.called.name.lower(): seen}
        guess = None if source.timestamp_by is None else self._guess(source.timestamp_by, named)
        if guess is not None and kind_of(guess) == "open":
            guess.found = DATETIME

    def _use(self, node: exp.Expr, sources: Mapping[str, _Seen]) -> None:
        """Take note of the columns of one node of an expression, and of their types."""
        if not isinstance(node.parent, exp.Dot):
            self._guess(node, sources)
        alike = [guess for one in _alternatives(node) if (guess := self._guess(one, sources)) is not None]
        self.equal += pairwise(alike)
        for kind, operand in _wanted(node):
            guess = self._guess(operand, sources)
            if guess is not None and (isinstance(node, (exp.Cast, exp.TryCast)) or called(node) in ("MIN", "MAX")):
                self.unsure.append((guess, kind))
            elif guess is not None:
                _settle(guess, kind)

    def _guess(self, node: exp.Expr, sources: Mapping[str, _Seen]) -> Guess | None:
        """The field of an input that a column leads to; None if it is none."""
        while isinstance(node, exp.Paren):
            node = node.this
        path = tuple(_written(node))
        if not path:
            return self._computed(node, sources)
        if path[0].lower() in METADATA or _is_unit(node):
            return None
        first = path[0].lower()
        if len(path) > 1 and first in sources:
            return _walk(sources[first], path[1:])
        if first in sources and len(path) == 1:
            return sources[first].element
        owners = [one for one in sources.values() if first in one.fields]
        if not owners:
            owners = [one for one in sources.values() if one.rest is not None and _has(one.rest, first)]
        if not owners:
            owners = [one for one in sources.values() if one.rest is not None]
        found = _walk(owners[0], path) if owners else None
        if found is not None and first == PROCESSED and kind_of(found) == "open":
            found.found = DATETIME
        return found

    def _computed(self, node: exp.Expr, sources: Mapping[str, _Seen]) -> Guess | None:
        """The field whose value an expression gives as it is: an element, a property, or a value of an earlier row."""
        name, given = called(node), arguments(node) if called(node) else []
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
            record = self._guess(node.this, sources)
            return None if record is None else _field(record, node.expression.name)
        if name == "GETARRAYELEMENT" and given:
            array = self._guess(given[0], sources)
            if array is not None:
                array.element = array.element or Guess()
            return array and array.element
        if name == "GETRECORDPROPERTYVALUE" and len(given) == 2 and _is_text(given[1]):
            record = self._guess(given[0], sources)
            return None if record is None else _field(record, given[1].name)
        if name in ("LAG", "LAST", "TOPONE") and all(isinstance(own, exp.Star) for own in given):
            return next((own.rest for own in sources.values() if own.rest is not None), None)
        if name in _PASSED_ON and given and not isinstance(given[0], exp.Star):
            return self._guess(given[0], sources)
        return None

    def _passed_on(self, select: Select, sources: Mapping[str, _Seen]) -> _Seen:
        """The columns of the SELECT, as those that read it see them."""
        fields: dict[str, Guess | None] = {}
        rest: Guess | None = None
        for item in select.items:
            value = item.value
            if isinstance(value, exp.Star) or (isinstance(value, exp.Dot) and isinstance(value.expression, exp.Star)):
                path = path_of(value.this) if isinstance(value, exp.Dot) else ()
                for name, one in sources.items():
                    if not path or path == (name,):
                        fields |= {key: guess for key, guess in one.fields.items() if key not in fields}
                        rest = rest or one.rest
                if path and path[0] not in sources and (guess := self._guess(value.this, sources)) is not None:
                    guess.found = guess.found or Record(())
                continue
            name = item.alias.name if item.alias is not None else (path_of(value) or ("",))[-1]
            fields[name.lower()] = self._guess(value, sources)
        return _Seen(fields, rest, frozenset().union(*(one.inputs for one in sources.values())))


def expressions_of(select: Select) -> Iterator[exp.Expr]:
    """Every expression of a SELECT."""
    yield from (item.value for item in select.items)
    yield from select.group_by
    for one in (select.where, select.having):
        if one is not None:
            yield one
    for clause in select.clauses:
        yield clause.on if isinstance(clause, Joining) else clause.call
    for source in [select.source, *(one.source for one in select.clauses if isinstance(one, Joining))]:
        yield from (*source.over, *source.partition_by)
        if source.timestamp_by is not None:
            yield source.timestamp_by


def _wanted(node: exp.Expr) -> Iterator[tuple[Type, exp.Expr]]:
    """Each operand of a node, with the type that the node wants of it."""
    name = called(node)
    given = arguments(node) if name else []
    if isinstance(node, Over):
        order = node.args.get("order_by") or []
        yield from ((FLOAT, one.this if isinstance(one, exp.Ordered) else one) for one in order)
    elif name in _NUMBERS:
        yield from ((FLOAT, one) for one in given[:1])
    elif name in _TEXTS:
        yield from ((TEXT, one) for one in given)
    elif name in _DATES:
        yield from (
            (BIGINT if name == "DATEADD" and position == 1 else DATETIME, one) for position, one in enumerate(given)
        )
    elif name in _ARRAYS:
        yield from ((Array(TEXT), one) for one in given[:1])
    elif name == "GETRECORDPROPERTIES":
        yield from ((Map(TEXT), one) for one in given[:1])
    elif name in ("LAG", "LAST") and isinstance(given[-1], exp.Literal) and len(given) > (1 if name == "LAST" else 2):
        yield (TEXT if given[-1].is_string else FLOAT), given[0]
    else:
        yield from _wanted_by_operator(node)


def _alternatives(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a node that have one type: they are compared, or one stands in for another."""
    if isinstance(node, exp.Binary) and isinstance(node, _COMPARED):
        return [node.this, node.expression]
    if isinstance(node, exp.Case) and node.this is not None:
        return [node.this, *(one.this for one in node.args["ifs"])]
    return arguments(node) if called(node) in ("COALESCE", "ISNULL", "NULLIF") else []


def _wanted_by_operator(node: exp.Expr) -> Iterator[tuple[Type, exp.Expr]]:
    sides = [one for one in node.iter_expressions() if isinstance(one, exp.Expr)]
    match node:
        case exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.Neg():
            yield from ((FLOAT, one) for one in sides)
        case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor() | exp.BitwiseNot():
            yield from ((BIGINT, one) for one in sides)
        case exp.Add():
            yield from ((TEXT if any(_is_text(one) for one in sides) else FLOAT, one) for one in sides)
        case exp.Like():
            yield TEXT, node.this
        case exp.Cast() | exp.TryCast():
            yield _declared(node.to), node.this
        case _:
            sides = sides if isinstance(node, _COMPARED) else _alternatives(node)
            if any(_is_text(one) for one in sides):
                yield from ((TEXT, one) for one in sides)
            elif any(isinstance(one, (exp.Literal, exp.Neg)) for one in sides):
                yield from ((FLOAT, one) for one in sides)


def _is_text(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and node.is_string


def _is_unit(node: exp.Expr) -> bool:
    """Whether a name is the unit of a date function or of a window."""
    parent = node.parent
    if parent is None or not isinstance(node, exp.Column):
        return False
    name = called(parent)
    first = bool(name) and arguments(parent)[:1] == [node]
    return first and (name in _DATES or name.endswith("WINDOW") or name in ("HOP", "DURATION", "OFFSET", "ISFIRST"))


def _declared(kind: exp.DataType) -> Type:
    text = kind.sql("tsql").upper()
    if text == "RECORD":
        return Record(())
    if text == "ARRAY":
        return Array(TEXT)
    if kind.this == exp.DataType.Type.BIT:
        return BIT
    try:
        found = type_of(kind.sql("spark"))
    except ValueError:
        return TEXT
    return found if found in (BIGINT, FLOAT, TEXT, DATETIME, BIT) else TEXT


def _written(node: exp.Expr) -> Iterator[str]:
    """The names of a column's path as they are written; a metadata property is a column of its source."""
    if called(node) == "GETMETADATAPROPERTYVALUE" and len(arguments(node)) == 2:
        source, name = arguments(node)
        yield from (*path_of(source), *re.findall(r"[^\[\].]+", name.name)[-1:])
    elif isinstance(node, exp.Dot) and path_of(node):
        yield from _written(node.this)
        yield node.expression.name
    elif isinstance(node, exp.Column):
        yield from (part.name for part in node.parts)


def _field(guess: Guess, name: str) -> Guess:
    """The field in any case."""
    return guess.field(next((one for one in guess.fields if one.lower() == name.lower()), name))


def _has(guess: Guess, name: str) -> bool:
    return any(one.lower() == name for one in guess.fields)


def _settle(guess: Guess, kind: Type) -> None:
    """Give a field of which nothing is known a type."""
    if kind_of(guess) == "open":
        guess.found = None if isinstance(kind, Array) else kind
        guess.element = Guess() if isinstance(kind, Array) else None


def _alike(one: Guess, other: Guess) -> None:
    """Give a field of which nothing is known the type of another."""
    if kind_of(one) == "open" and isinstance(other.found, Scalar):
        one.found = other.found


def _walk(seen: _Seen, path: tuple[str, ...]) -> Guess | None:
    first, *rest = path
    if first.lower() in METADATA:
        return None
    if first.lower() in seen.fields:
        guess = seen.fields[first.lower()]
    else:
        guess = _field(seen.rest, first) if seen.rest is not None else None
    for name in rest:
        guess = None if guess is None else _field(guess, name)
    return guess
