"""GROUP BY with a window, the aggregates of its rows, and what HAVING and the select list then see (Q46 to Q58)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from pipelines.core.expressions import quoted
from pipelines.core.steps import SYSTEM_TIMESTAMP, WINDOW_COLUMNS, Computed, Windowed
from pipelines.job.sql.aggregates import Aggregated, aggregated
from pipelines.job.sql.calls import called, is_aggregate, is_analytic, is_timestamp, is_window, is_window_id, path_of
from pipelines.job.sql.grammar.syntax import Select
from pipelines.job.sql.names import RowScope, Shape
from pipelines.job.sql.places import offset
from pipelines.job.sql.relation import Frame
from pipelines.job.sql.types import DATETIME, TEXT, Typed
from pipelines.job.sql.values import Values, kept
from pipelines.job.sql.windows import names_its_windows, window_of


@dataclass(frozen=True)
class GroupScope:
    """What an expression over a window's row sees: group keys, aggregates, the window's end and id.

    ``known``: the columns of keys and aggregates by the shape of what they compute. ``aliases``: names of the select
    list, which HAVING sees where no group key is called so (Q22).
    """

    row: RowScope
    values: Values
    known: Mapping[Shape, Typed]
    window_id: Typed
    aliases: Mapping[str, exp.Expr] = field(default_factory=dict)
    time: str = SYSTEM_TIMESTAMP

    def place(self, node: exp.Expr) -> tuple[int, int]:
        return self.row.place(node)

    def resolve(self, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """A group key, what the path leads to in one, or an alias."""
        if node.parent is not None and self.row.between(node.parent) is not None:
            raise self.row.places.refused(
                node, "the times of the sources are gone after GROUP BY: join in a later step"
            )
        key = self._key(path, node)
        if key is not None:
            return key
        if len(path) == 1 and path[0].lower() in self.aliases:
            return self.values.of(self.aliases[path[0].lower()], replace(self, aliases={}))
        if len(path) == 1 and not self._is_column(path[0]):
            return self.row.resolve(path, node)
        raise self.row.places.refused(
            node, f"column '{'.'.join(path)}' is neither a group key nor inside an aggregate: add it to GROUP BY"
        )

    def _is_column(self, name: str) -> bool:
        return any(source.field(name) for source in self.row.sources)

    def _key(self, path: tuple[str, ...], node: exp.Expr) -> Typed | None:
        """The group key that the path names, or what it leads to in one."""
        if len(path) == 1 and not self._is_column(path[0]):
            return None
        source, found, rest = self.row.find(path, node)
        for cut in range(len(rest), -1, -1):
            names = (source.name.lower(), found.name.lower(), *(name.lower() for name in rest[:cut]))
            key = self.known.get(("column", *names))
            if key is not None:
                return self.row.within(key, rest[cut:], node)
        return None

    def within(self, record: Typed, path: tuple[str, ...], node: exp.Expr) -> Typed:
        """What ``path`` leads to in a record."""
        return self.row.within(record, path, node)

    def call(self, node: exp.Expr) -> Typed | None:
        """A group key, an aggregate, the window's end or its id."""
        if is_timestamp(node):
            return Typed(self.time, DATETIME)
        if is_window_id(node):
            return self.window_id
        known = self.known.get(self.row.shape(node))
        if known is not None:
            return known
        if is_analytic(node):
            raise self.row.places.refused(
                node, f"{called(node)} OVER is neither a group key nor inside an aggregate: add it to GROUP BY"
            )
        if is_aggregate(node):
            raise self.row.places.refused(node, f"{called(node)} cannot stand inside another aggregate")
        if is_window(node):
            raise self.row.places.refused(node, f"{called(node)} stands in GROUP BY only")
        return None


@dataclass(frozen=True, slots=True)
class Grouped:
    """The window step, and the scope of what is computed of its rows."""

    rows: Windowed
    scope: GroupScope


def grouped(select: Select, frame: Frame, values: Values) -> Grouped:
    """The window step of a SELECT with GROUP BY or aggregates."""
    return _Group(select, frame, values).build()


class _Group:
    def __init__(self, select: Select, frame: Frame, values: Values) -> None:
        self.select = select
        self.frame = frame
        self.values = values
        self.places = values.places
        self.row = frame.scope(self.places)
        self.taken = {SYSTEM_TIMESTAMP, *WINDOW_COLUMNS}
        self.known: dict[Shape, Typed] = {}

    def build(self) -> Grouped:
        if self.frame.is_reference:
            raise self.places.refused(self.select.start, "reference data has no time to group by: group a stream")
        window_node = self._window_node()
        window = window_of(window_node, self.row)
        keys = list(self._keys(window_node))
        aggregates = list(self._aggregates())
        read = [typed for _, typed in keys] + [typed for one in aggregates for typed in one.reads]
        rows = Windowed(
            kept(self.frame.rows, read),
            window,
            tuple(computed for computed, _ in keys),
            tuple(one.aggregate for one in aggregates),
            self._partition_by([typed.sql for _, typed in keys]),
        )
        window_id = "window_id" if names_its_windows(window_node) else "CAST(NULL AS STRING)"
        aliases = {one.alias.name.lower(): one.value for one in self.select.items if one.alias is not None}
        return Grouped(rows, GroupScope(self.row, self.values, self.known, Typed(window_id, TEXT), aliases))

    def _window_node(self) -> exp.Expr:
        windows = [one for one in self.select.group_by if is_window(one)]
        if len(windows) > 1:
            raise self.places.refused(windows[1], "one window stands in GROUP BY: put several into Windows(..)")
        instants = [one for one in self.select.group_by if is_timestamp(one)]
        if not windows and not instants:
            at = self.select.group_by[0] if self.select.group_by else self._first_aggregate()
            raise self.places.refused(
                at,
                "aggregates need a window: add TumblingWindow(minute, 5), another window or System.Timestamp() to"
                " GROUP BY",
            )
        return (windows or instants)[0]

    def _first_aggregate(self) -> exp.Expr:
        return next(one for part in self._parts() for one in aggregates_of(part))

    def _parts(self) -> Iterator[exp.Expr]:
        yield from (one.value for one in self.select.items)
        if self.select.having is not None:
            yield self.select.having

    def _keys(self, window_node: exp.Expr) -> Iterator[tuple[Computed, Typed]]:
        for node in self.select.group_by:
            if node is window_node:
                continue
            shape = self.row.shape(node)
            if shape in self.known:
                continue
            typed = self.values.of(node, self.row)
            path = path_of(node)
            name = self._name(self._last_name(node) if path else "__key")
            self.known[shape] = Typed(quoted(name), typed.type)
            yield Computed(name, typed.sql), typed

    def _last_name(self, node: exp.Expr) -> str:
        """The last name of a column's path, as it is written."""
        return max(node.find_all(exp.Identifier), key=offset).name

    def _aggregates(self) -> Iterator[Aggregated]:
        named = {id(one.value): one.alias.name for one in self.select.items if one.alias is not None}
        for part in self._parts():
            for node in aggregates_of(part):
                shape = self.row.shape(node)
                if shape in self.known:
                    continue
                name = self._name(named.get(id(node), "__aggregate"))
                found = aggregated(node, name, self.row, self.values)
                self.known[shape] = Typed(quoted(name), found.type)
                yield found

    def _name(self, wanted: str) -> str:
        """A name for a column of the window step that no other has, in any case."""
        name, count = wanted, 1
        while name.lower() in self.taken:
            count += 1
            name = f"{wanted}_{count}"
        self.taken.add(name.lower())
        return name

    def _partition_by(self, keys: Iterable[str]) -> tuple[str, ...]:
        """What the window is formed apart by: input partitions, unless they are a key (Q15, Q16)."""
        found = []
        grouped_by = set(keys)
        for partition, typed in self.frame.partitioned_by():
            if typed.sql in grouped_by:
                continue
            if not partition.by_input:
                name = partition.field.name
                raise self.places.refused(
                    self.select.group_by[0],
                    f"the source is partitioned by {name}, which is no group key: which keys share a shard is not"
                    f" known; add {name} to GROUP BY or leave PARTITION BY out",
                )
            found.append(typed.sql)
        return tuple(found)


def aggregates_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregates in an expression, without what stands inside them."""
    if is_aggregate(node):
        yield node
    elif not is_analytic(node):
        for child in node.iter_expressions():
            yield from aggregates_of(child)
