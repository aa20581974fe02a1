"""Bicep and Terraform files: blocks of names and literal values; what computes is kept as text in ``${}``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_TOKEN = re.compile(
    r"""(?P<line>\n)|(?P<space>[ \t\r]+|//[^\n]*|\#[^\n]*|/\*.*?\*/)
    |(?P<here><<[-~]?(?P<end>\w+)[ \t]*\r?\n(?P<body>.*?)\n[ \t]*(?P=end)\b)
    |(?P<long>'''(?P<text>.*?)''')
    |(?P<string>"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')
    |(?P<number>-?\d+(?:\.\d+)?)
    |(?P<name>[A-Za-z_@][\w.-]*)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_KINDS = ("line", "here", "long", "string", "number", "name", "mark")
_CONSTANTS: dict[str, Any] = {"true": True, "false": False, "null": None}
_CLOSE = {"{": "}", "[": "]", "(": ")"}
_MAX_DEPTH = 50


@dataclass(slots=True)
class Block:
    """``key label label { .. }``, or ``key label label = value``."""

    key: str
    labels: list[str]
    value: Any


@dataclass(slots=True)
class Body:
    """The inside of a block: its settings, and the blocks in it."""

    settings: dict[str, Any] = field(default_factory=dict)
    blocks: list[Block] = field(default_factory=list)


def read_blocks(text: str, names: dict[str, Any] | None = None) -> Body:
    """The whole file; ``names`` are values that an expression may name, to which parameters with defaults are added."""
    return _Reader(text, {} if names is None else names).body("")


class _Reader:
    def __init__(self, text: str, names: dict[str, Any]) -> None:
        self._tokens = [match for match in _TOKEN.finditer(text) if match.lastgroup != "space"]
        self._at = 0
        self._depth = 0
        self._names = names

    def _here(self) -> tuple[str, str]:
        if self._at >= len(self._tokens):
            return "end", ""
        match = self._tokens[self._at]
        kind = next(
            one for one in ("line", "here", "long", "string", "number", "name", "mark") if match[one] is not None
        )
        return kind, match[0]

    def _skip_lines(self) -> None:
        while self._here()[0] == "line" or self._here()[1] in (",", ";"):
            self._at += 1

    def body(self, end: str) -> Body:
        """Entries up to the mark ``end``; to the end of the file if it never comes."""
        body = Body()
        self._depth += 1
        while True:
            self._skip_lines()
            kind, text = self._here()
            if kind == "end" or text == end or self._depth > _MAX_DEPTH:
                self._at += 1
                self._depth -= 1
                return body
            self._at += 1
            if kind in ("name", "string"):
                self._entry(text.strip("'\""), body)

    def _entry(self, key: str, body: Body) -> None:
        labels = []
        while self._here()[0] in ("name", "string"):
            labels.append(self._here()[1].strip("'\""))
            self._at += 1
        mark = self._here()[1]
        if mark not in (":", "=", "{"):
            self._rest_of_line()
            return
        if mark != "{":
            self._at += 1
        value = self._value()
        if labels or mark == "{":
            body.blocks.append(Block(key, labels, value))
            if key in ("param", "var") and labels:
                self._names[labels[0]] = value
        else:
            body.settings[key] = value

    def _value(self) -> Any:
        kind, text = self._here()
        match = self._tokens[self._at] if self._at < len(self._tokens) else None
        self._at += 1
        if match is None:
            return None
        match kind, text:
            case "here", _:
                return match["body"]
            case "long", _:
                return match["text"].removeprefix("\n")
            case "string", _:
                return re.sub(r"\\(.)", lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), text[1:-1])
            case "number", _:
                return float(text) if "." in text else int(text)
            case "name", ("true" | "false" | "null"):
                return _CONSTANTS[text]
            case "mark", "{":
                return self.body("}")
            case "mark", "[":
                return self._list()
        self._at -= 1
        return self._computed()

    def _computed(self) -> Any:
        """An expression: a known name's value, else its text."""
        written = self._rest_of_line()
        return self._names.get(written, f"${{{written}}}")

    def _rest_of_line(self) -> str:
        open_marks: list[str] = []
        written = ""
        while (here := self._here())[0] != "end":
            if not open_marks and (here[0] == "line" or here[1] in (",", "}", "]")):
                break
            if open_marks and here[1] == open_marks[-1]:
                open_marks.pop()
            elif here[1] in _CLOSE:
                open_marks.append(_CLOSE[here[1]])
            written += here[1]
            self._at += 1
        return written

    def _list(self) -> list[Any]:
        items: list[Any] = []
        self._depth += 1
        while True:
            self._skip_lines()
            kind, text = self._here()
            if kind == "end" or text == "]" or self._depth > _MAX_DEPTH:
                self._at += 1
                self._depth -= 1
                return items
            before = self._at
            items.append(self._value())
            if self._at == before:
                self._at += 1


def as_data(value: Any) -> Any:
    """Bodies as mappings."""
    if isinstance(value, Body):
        inner = {block.key: as_data(block.value) for block in value.blocks}
        return {**inner, **{key: as_data(one) for key, one in value.settings.items()}}
    return [as_data(one) for one in value] if isinstance(value, list) else value
