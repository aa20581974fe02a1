"""Where the parts of a script stand: offsets of nodes, and the lines and columns that messages name."""

from __future__ import annotations

from bisect import bisect_right
from typing import TypeVar

from sqlglot import exp

from pipelines.job.sql.refusal import Refused

_START = "start"
Node = TypeVar("Node", bound=exp.Expr)


def begin(node: Node, start: int) -> Node:
    """The node, which begins at offset ``start`` of the script."""
    node.meta[_START] = start
    return node


def offset(node: exp.Expr) -> int:
    """Where the node begins; a node without a place has that of its first part, or of what it is part of."""
    known = [part.meta[_START] for part in node.walk() if _START in part.meta]
    if known:
        return int(min(known))
    return offset(node.parent) if node.parent is not None else 0


class Places:
    """Lines and columns of a text, counted from 1."""

    def __init__(self, text: str) -> None:
        self._lines = [0, *(index + 1 for index, letter in enumerate(text) if letter == "\n")]

    def place(self, start: int) -> tuple[int, int]:
        """Line and column of an offset."""
        line = bisect_right(self._lines, start)
        return line, start - self._lines[line - 1] + 1

    def refused(self, at: int | exp.Expr, what: str) -> Refused:
        """The refusal of what begins there, for the caller to raise."""
        return Refused(what, *self.place(at if isinstance(at, int) else offset(at)))
