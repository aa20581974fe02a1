"""The text of a pipeline: JSON, extended JSON, or the literals of a mongosh script; values know their lines."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.core.time import format_instant, parse_instant


class Refused(Exception):
    """Part of a pipeline cannot be read or replayed. ``line`` is counted from 1, None where it is not known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.line = line


class Doc(dict[str, Any]):
    """A document, and the line on which it begins."""

    line: int = 1


class Items(list[Any]):
    """An array, and the line on which it begins."""

    line: int = 1


@dataclass(frozen=True, slots=True)
class Instant:
    """A date: microseconds since the epoch."""

    us: int


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression with its options."""

    pattern: str
    options: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that a script takes from elsewhere."""

    name: str


@dataclass(frozen=True, slots=True)
class Processor:
    """A stream processor: its name where the text gives one, its pipeline and its options.

    ``assembled``: no call creates it; its stages are those that the script assigns to variables.
    """

    name: str | None
    pipeline: Items
    options: Doc
    assembled: bool = False


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`)
    |(?P<number>-?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?))
    |(?P<name>[A-Za-z_$][\w$]*)
    |(?P<pattern>/(?:\\.|[^/\\\n])+/[a-z]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(u\{[0-9a-fA-F]+\}|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r?\n|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": None}
_MAX_DEPTH = 60


def read_value(text: str) -> Any:
    """The one value that ``text`` consists of; Refused if it is not one."""
    reader = _Reader(text, {})
    value = reader.value()
    reader.skip(";")
    if reader.here.kind != "end":
        raise Refused(f"'{reader.here.text}' follows the end of the pipeline", reader.here.line)
    return value


def read_processors(text: str) -> list[Processor]:
    """The processors of a text: an array of stages, ``{name, pipeline, options}``, or a script that creates them.

    Of a script they are those of ``sp.createStreamProcessor(...)``; without one those that it assigns as
    ``{name, pipeline}``; else the longest that ``sp.process`` runs, or else the longest array that begins with
    ``$source``. Refused if there is none.
    """
    try:
        value = read_value(text)
    except Refused as refused:
        found = _script(text)
        if not found:
            raise Refused(f"no pipeline can be read: {refused.what}", refused.line) from None
        return found
    return [_processor(value)]


def _processor(value: Any) -> Processor:
    if isinstance(value, Doc) and isinstance(value.get("pipeline"), Items):
        name = value.get("name")
        return Processor(name if isinstance(name, str) else None, value["pipeline"], _options(value.get("options")))
    if isinstance(value, Items):
        return Processor(None, value, Doc())
    raise Refused("not a pipeline; write an array of stages, or {name, pipeline, options}", getattr(value, "line", 1))


def _options(value: Any) -> Doc:
    return value if isinstance(value, Doc) else Doc()


def _script(text: str) -> list[Processor]:
    """The processors of a script; what is neither an assignment of a literal nor such a call is passed over."""
    values: dict[str, Any] = {}
    created: dict[str, Processor] = {}
    run: list[Processor] = []
    reader = _Reader(text, values, lenient=True)
    while reader.here.kind != "end":
        start = reader.at
        try:
            if reader.ahead("name", "="):
                name = reader.take().text
                reader.take()
                value = reader.value()
                values[name] = value if reader.at_end_of_statement() else Unknown(name)
                continue
            if reader.ahead("name", ".", "name", "(") and reader.tokens[start + 2].text in _CALLS:
                method = reader.tokens[start + 2].text
                reader.at += 4
                one = _called(method, list(reader.listed(")")))
                if method == "process":
                    run.append(one)
                else:
                    created[one.name or ""] = one
                continue
        except Refused:
            reader.at = start
        reader.at = start + 1
    return list(created.values()) or _defined(values) or _longest(run) or _longest(_assigned(values))


def _defined(values: Mapping[str, Any]) -> list[Processor]:
    """The processors that a script assigns as ``{name, pipeline}``, alone or in an array, and creates in a loop."""
    parts = [part for one in values.values() for part in (one if isinstance(one, Items) else [one])]
    found = [_processor(part) for part in parts if isinstance(part, Doc) and isinstance(part.get("pipeline"), Items)]
    return [one for one in found if _has_source(one.pipeline)]


def _longest(processors: list[Processor]) -> list[Processor]:
    return sorted(processors, key=lambda one: len(one.pipeline))[-1:]


def _assigned(values: Mapping[str, Any]) -> list[Processor]:
    """Arrays of stages that a script assigns to a variable; else the stages that it assigns, in the order written."""
    arrays = [Processor(None, one, Doc(), True) for one in values.values() if isinstance(one, Items)]
    stages = Items(one for one in values.values() if isinstance(one, Doc) and next(iter(one), "").startswith("$"))
    return [one for one in (*arrays, Processor(None, stages, Doc(), True)) if _has_source(one.pipeline)]


_CALLS = ("createStreamProcessor", "process")


def _called(method: str, arguments: list[Any]) -> Processor:
    name = arguments.pop(0) if method == "createStreamProcessor" and arguments else None
    if not arguments or not isinstance(arguments[0], Items):
        raise Refused(f"{method} is not called with an array of stages")
    return Processor(
        name if isinstance(name, str) else None, arguments[0], _options(arguments[1] if len(arguments) > 1 else None)
    )


def _has_source(value: Items) -> bool:
    return bool(value) and isinstance(value[0], Doc) and "$source" in value[0]


def names_in(value: Any) -> Iterator[str]:
    """Every name that could be that of a field: the keys of documents, and the parts of paths and other texts."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from () if key.startswith("$") else key.split(".")
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)
    elif isinstance(value, str):
        yield from value.lstrip("$").split(".")


class _Reader:
    """Reads values from a text, from token to token. ``values`` are the variables that it may name.

    ``lenient``: another name is a value from elsewhere.
    """

    def __init__(self, text: str, values: Mapping[str, Any], lenient: bool = False) -> None:
        self._lenient = lenient
        self.tokens = _tokens(text)
        self.values = values
        self.at = 0
        self._depth = 0

    @property
    def here(self) -> _Token:
        return self.tokens[min(self.at, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.here
        self.at += 1
        return token

    def skip(self, mark: str) -> bool:
        """Whether the next token is this mark, which is then passed."""
        if self.here.kind == "mark" and self.here.text == mark:
            self.at += 1
            return True
        return False

    def ahead(self, *kinds: str) -> bool:
        """Whether the next tokens are of these kinds; a mark stands for itself."""
        tokens = self.tokens[self.at : self.at + len(kinds)]
        return [one.text if one.kind == "mark" else one.kind for one in tokens] == list(kinds)

    def at_end_of_statement(self) -> bool:
        """Whether a value just read is not part of a longer expression."""
        token, before = self.here, self.tokens[self.at - 1]
        return token.kind == "end" or token.text == ";" or (token.line > before.line and token.text not in "+.?([*&|")

    def value(self) -> Any:
        """The value that begins here; Refused if none does."""
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Refused("nested too deeply", self.here.line)
        try:
            return self._value()
        finally:
            self._depth -= 1

    def _value(self) -> Any:
        token = self.take()
        match token.kind, token.text:
            case "mark", "{":
                return self._document(token.line)
            case "mark", "[":
                items = Items(self.listed("]"))
                items.line = token.line
                return items
            case "string", text:
                return _unquoted(text, token.line)
            case "number", text:
                return _number(text)
            case "pattern", text:
                body, _, options = text[1:].rpartition("/")
                return Pattern(body, options)
            case "name", text:
                return self._named(text, token.line)
        raise Refused(f"{_shown(token)} stands where a value belongs", token.line)

    def _named(self, name: str, line: int) -> Any:
        if name == "new":
            name = self.take().text
        if name in _CONSTANTS:
            return _CONSTANTS[name]
        if name in _CONSTRUCTORS and self.skip("("):
            return _constructed(name, list(self.listed(")")), line)
        if name in self.values:
            return self._property(self.values[name])
        if self._lenient and not self.ahead("(") and not self.ahead("."):
            return Unknown(name)
        raise Refused(f"'{name}' is not a value that can be read; write it out as a literal", line)

    def _property(self, value: Any) -> Any:
        """The part of a variable's document that the next tokens name, as in ``job.pipeline``; else the value."""
        while isinstance(value, Doc) and self.ahead(".", "name") and self.tokens[self.at + 1].text in value:
            value = value[self.tokens[self.at + 1].text]
            self.at += 2
        return value

    def listed(self, end: str) -> Iterator[Any]:
        """The values up to the mark ``end``, with commas between them and perhaps behind the last."""
        while not self.skip(end):
            yield self.value()
            if not self.skip(",") and not self.ahead(end):
                raise Refused(f"{_shown(self.here)} stands where ',' or '{end}' belongs", self.here.line)

    def _document(self, line: int) -> Any:
        document = Doc()
        document.line = line
        while not self.skip("}"):
            token = self.take()
            if token.kind not in ("string", "name", "number"):
                raise Refused(f"{_shown(token)} stands where a field's name belongs", token.line)
            key = _unquoted(token.text, token.line) if token.kind == "string" else token.text
            if key in document:
                raise Refused(f"field '{key}' stands there twice", token.line)
            document[key] = self.value() if self.skip(":") else self._named(key, token.line)
            if not self.skip(",") and not self.ahead("}"):
                raise Refused(f"{_shown(self.here)} stands where ',' or '}}' belongs", self.here.line)
        return _extended(document)


def _shown(token: _Token) -> str:
    return f"'{token.text}'" if token.text else "the end of the text"


def _tokens(text: str) -> list[_Token]:
    tokens = []
    line = 1
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "space":
            tokens.append(_Token(match.lastgroup or "", match[0], line))
        line += match[0].count("\n")
    return [*tokens, _Token("end", "", line)]


def _unquoted(text: str, line: int) -> str:
    if text[0] == "`" and "${" in text:
        raise Refused("a template with ${} is not a literal; write the text out", line)

    def plain(match: re.Match[str]) -> str:
        body = match[1]
        if body[0] in "ux" and len(body) > 1:
            code = int(body[1:].strip("{}"), 16)
            if code > 0x10FFFF:
                raise Refused(f"'{match[0]}' is not a character", line)
            return chr(code)
        return "" if body.endswith("\n") else _ESCAPED.get(body, body)

    # JSON writes a character beyond the basic plane as two escapes
    return _ESCAPE.sub(plain, text[1:-1]).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _number(text: str) -> int | float:
    if re.fullmatch(r"-?\d{1,400}", text):
        return int(text)
    return int(text, 16) if "x" in text.lower() else float(text)


def _instant(value: Any, line: int | None) -> Instant:
    try:
        if isinstance(value, str):
            return Instant(parse_instant(value, truncate=True))
        if isinstance(value, int) and not isinstance(value, bool):
            format_instant(value * 1000)
            return Instant(value * 1000)
    except (ValueError, OverflowError) as error:
        raise Refused(f"not a date: {error}", line) from None
    raise Refused("not a date; write it like ISODate('2026-01-01T12:07:00Z')", line)


def _whole(value: Any, line: int | None) -> int:
    try:
        return int(value)
    except (TypeError, ValueError, OverflowError):
        raise Refused(f"{value!r} is not a whole number", line) from None


def _float(value: Any, line: int | None) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise Refused(f"{value!r} is not a number", line) from None


def _text(value: Any, line: int | None) -> str:
    if not isinstance(value, str):
        raise Refused(f"{value!r} is not text", line)
    return value


def _regex(value: Any, line: int | None) -> Pattern:
    if not isinstance(value, dict):
        raise Refused("not a regular expression", line)
    return Pattern(_text(value.get("pattern"), line), _text(value.get("options", ""), line))


_CONSTRUCTORS = {
    "ISODate": _instant,
    "Date": _instant,
    "NumberLong": _whole,
    "NumberInt": _whole,
    "Long": _whole,
    "Int32": _whole,
    "NumberDecimal": _float,
    "Decimal128": _float,
    "Double": _float,
    "ObjectId": _text,
}
_EXTENDED = {
    "$date": _instant,
    "$numberLong": _whole,
    "$numberInt": _whole,
    "$numberDouble": _float,
    "$numberDecimal": _float,
    "$oid": _text,
    "$regularExpression": _regex,
}


def _constructed(name: str, arguments: list[Any], line: int) -> Any:
    if len(arguments) != 1:
        raise Refused(f"{name}() needs one literal: a replay has no clock of its own", line)
    return _CONSTRUCTORS[name](arguments[0], line)


def _extended(document: Doc) -> Any:
    """The value that a document of extended JSON stands for; any other document itself."""
    name, value = next(iter(document.items()), ("", None))
    if len(document) == 1 and name in _EXTENDED:
        return _EXTENDED[name](value, document.line)
    return document
