"""The tokens of a script."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal

from pipelines.job.sql.places import Places

Kind = Literal["word", "quoted", "string", "number", "symbol", "end"]

_SKIPPED = re.compile(r"(?:\s+|--[^\n]*|/\*.*?\*/)+", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<string>N?'(?:[^']|'')*')
      | (?P<quoted>\[(?:[^\]]|\]\])+\]|"(?:[^"]|"")+")
      | (?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
      | (?P<word>[^\W\d]\w*)
      | (?P<symbol><>|!=|<=|>=|!<|!>|[-+*/%&|^~=<>(),.;])""",
    re.VERBOSE | re.DOTALL,
)
_OPENERS = {"'": "text", '"': "name", "[": "name", "/": "comment"}

_DIGITS = 400
"""Of a longer number Python refuses to say the value."""


@dataclass(frozen=True, slots=True)
class Token:
    """One token: ``text`` is a word or symbol as written, a name without its quotes, a text's value.

    ``mark`` is the opening quote of a name.
    """

    kind: Kind
    text: str
    start: int
    mark: str = ""

    def has(self, *keywords: str) -> bool:
        """Is it one of these keywords, in any case, or one of these symbols?"""
        return self.kind in ("word", "symbol") and self.text.upper() in keywords

    def __str__(self) -> str:
        return "the end of the script" if self.kind == "end" else f"'{self.text}'"


def tokens(text: str, places: Places) -> list[Token]:
    """All tokens, the last of kind ``end``; Refused where no token begins."""
    found = []
    at = _after_blanks(text, 0)
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            unclosed = _OPENERS.get(text[at])
            what = f"the {unclosed} that begins here has no end" if unclosed else f"'{text[at]}' begins nothing"
            raise places.refused(at, f"{what}: the script cannot be read from here on")
        if match.lastgroup == "symbol" and text.startswith("/*", at):
            raise places.refused(at, "the comment that begins here has no end: close it with */")
        if match.lastgroup == "number" and (len(match.group()) > _DIGITS or math.isinf(float(match.group()))):
            raise places.refused(at, "the number that begins here is too large: neither bigint nor float has it")
        found.append(_token(match))
        at = _after_blanks(text, match.end())
    return [*found, Token("end", "", len(text))]


def _after_blanks(text: str, at: int) -> int:
    skipped = _SKIPPED.match(text, at)
    return skipped.end() if skipped else at


def _token(match: re.Match[str]) -> Token:
    text, start = match.group(), match.start()
    match match.lastgroup:
        case "string":
            return Token("string", text[text.index("'") + 1 : -1].replace("''", "'"), start)
        case "quoted":
            return Token("quoted", text[1:-1].replace(text[-1] * 2, text[-1]), start, text[0])
        case "number":
            return Token("number", text, start)
        case "word":
            return Token("word", text, start)
        case _:
            return Token("symbol", text, start)
