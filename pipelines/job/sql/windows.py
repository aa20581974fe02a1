"""Windows of a script's GROUP BY (Q46)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from pipelines.core.query import AnyOf, Grid, Session, SimpleWindow, Sliding, Snapshot, Window
from pipelines.job.sql.calls import arguments, called, is_timestamp, length_us
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.names import RowScope
from pipelines.job.sql.refusal import Refused


def window_of(node: exp.Expr, scope: RowScope) -> Window:
    """The window that the call stands for. ``scope``: of the rows that it groups."""
    return _Windows(scope).window(node)


def names_its_windows(node: exp.Expr) -> bool:
    """Has ``System.Window().Id`` a value? ``Windows(Window('id', ..))`` names all of them or none."""
    return called(node) == "WINDOWS" and any(called(one) == "WINDOW" for one in arguments(node))


@dataclass(frozen=True, slots=True)
class _Windows:
    scope: RowScope

    def refused(self, node: exp.Expr, what: str) -> Refused:
        return self.scope.places.refused(node, what)

    def window(self, node: exp.Expr) -> Window:
        return self._any_of(node) if called(node) == "WINDOWS" else self._simple(node)

    def _any_of(self, node: exp.Expr) -> AnyOf:
        members: list[tuple[str, SimpleWindow]] = []
        named = names_its_windows(node)
        for position, one in enumerate(arguments(node), 1):
            name, window = str(position), one
            if (called(one) == "WINDOW") != named:
                raise self.refused(one, "Windows(..) names all of its windows or none: write Window('id', ..) for each")
            if named:
                name, window = self._named(one)
            if called(window) == "WINDOWS":
                raise self.refused(window, "Windows(..) cannot contain Windows(..)")
            if any(name.lower() == other.lower() for other, _ in members):
                raise self.refused(one, f"'{name}' names two windows; ids are compared without case")
            members.append((name, self._simple(window)))
        if not members:
            raise self.refused(node, "Windows(..) needs a window at least")
        return AnyOf(tuple(members))

    def _named(self, node: exp.Expr) -> tuple[str, exp.Expr]:
        given = arguments(node)
        if len(given) != 2 or not (isinstance(given[0], exp.Literal) and given[0].is_string):
            raise self.refused(node, "Window takes an id and a window: Window('id', TumblingWindow(minute, 5))")
        return given[0].name, given[1]

    def _simple(self, node: exp.Expr) -> SimpleWindow:
        kinds: dict[str, Callable[[exp.Expr], SimpleWindow]] = {
            "TUMBLINGWINDOW": self._tumbling,
            "HOPPINGWINDOW": self._hopping,
            "SLIDINGWINDOW": self._sliding,
            "SESSIONWINDOW": self._session,
        }
        if is_timestamp(node):
            return Snapshot()
        if isinstance(node, Over) and called(node) != "SESSIONWINDOW":
            raise self.refused(node, f"{called(node)} takes no OVER: only sessions are formed for each key")
        if called(node) not in kinds:
            raise self.refused(node, "a window must stand here: TumblingWindow, HoppingWindow, SlidingWindow, ..")
        return kinds[called(node)](node)

    def _lengths(self, node: exp.Expr, *names: str) -> tuple[list[int], exp.Expr | None]:
        """The lengths in microseconds, given as ``(unit, a, b)`` or ``(Duration(unit, a), Hop(unit, b))``, and the
        argument that follows them."""
        given = arguments(node)
        form = f"({names[0]}(unit, n), ..) or (unit, n, ..)"
        if given and called(given[0]) == names[0].upper():
            found = []
            for name, one in zip(names, given, strict=False):
                found.append(self._part(one, name))
            rest = given[len(names) :]
        else:
            if len(given) < 2:
                raise self.refused(node, f"{called(node)} takes {form}")
            found = [length_us(given[0], one, self.scope.places) for one in given[1 : len(names) + 1]]
            rest = given[len(names) + 1 :]
        if len(found) < len(names) or len(rest) > 1:
            raise self.refused(node, f"{called(node)} takes {form}, with {', '.join(names)}")
        return found, rest[0] if rest else None

    def _part(self, node: exp.Expr, name: str, *, least: int | None = 1) -> int:
        given = arguments(node)
        if called(node) != name.upper() or len(given) != 2:
            raise self.refused(node, f"{name}(unit, n) must stand here")
        return length_us(given[0], given[1], self.scope.places, least=least)

    def _offset(self, node: exp.Expr, rest: exp.Expr | None) -> int:
        if rest is None:
            return 0
        if called(rest) == "OFFSET":
            return self._part(rest, "Offset", least=None)
        given = arguments(node)
        return length_us(given[0], rest, self.scope.places, least=None)

    def _tumbling(self, node: exp.Expr) -> Grid:
        (size,), rest = self._lengths(node, "Duration")
        return Grid(size, size, self._offset(node, rest))

    def _hopping(self, node: exp.Expr) -> Grid:
        (size, hop), rest = self._lengths(node, "Duration", "Hop")
        return Grid(size, hop, self._offset(node, rest))

    def _sliding(self, node: exp.Expr) -> Sliding:
        (size,), rest = self._lengths(node, "Duration")
        if rest is not None:
            raise self.refused(rest, "a sliding window has a size alone")
        return Sliding(size)

    def _session(self, node: exp.Expr) -> Session:
        given = arguments(node)
        if len(given) == (1 if given and called(given[0]) == "TIMEOUT" else 2):
            raise self.refused(
                node, "SessionWindow needs its greatest duration, too, such as SessionWindow(minute, 5, 60)"
            )
        (timeout, longest), rest = self._lengths(node, "Timeout", "MaxDuration")
        if rest is not None:
            raise self.refused(rest, "a session window has a timeout and a greatest duration alone")
        return Session(timeout, longest, self._partition(node))

    def _partition(self, node: exp.Expr) -> tuple[str, ...]:
        if not isinstance(node, Over):
            return ()
        if any(node.args.get(key) for key in ("order_by", "limit", "when")):
            raise self.refused(node, "SessionWindow takes PARTITION BY alone in OVER")
        paths = []
        for one in node.args.get("partition_by") or ():
            names = [part.name for part in one.parts] if isinstance(one, exp.Column) else []
            if not names:
                raise self.refused(one, "sessions are formed for each value of columns: compute it in an earlier step")
            source, found, rest = self.scope.find(tuple(names), one)
            if rest or "." in found.column:
                raise self.refused(one, "sessions are formed for each value of columns: compute it in an earlier step")
            paths.append(".".join((*source.prefix, found.column)))
        return tuple(paths)
