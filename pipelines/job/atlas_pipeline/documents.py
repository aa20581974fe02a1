"""The documents between two stages: rows, and what each field of a document is over them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pipelines.core.expressions import quoted
from pipelines.core.query import SortKey
from pipelines.core.steps import EVENT_COLUMNS, SYSTEM_TIMESTAMP, WINDOW_COLUMNS, Computed, Filtered, Projected, Rows
from pipelines.job.atlas_pipeline.scope import Scope, Shared
from pipelines.job.atlas_pipeline.text import Refused
from pipelines.job.atlas_pipeline.values import Value
from pipelines.job.sql.types import NULL

RESERVED = frozenset({*EVENT_COLUMNS, *WINDOW_COLUMNS, SYSTEM_TIMESTAMP, "output_date", "emitted_at"})
"""Names with a meaning of their own, in rows or in results."""

_UNFIT = re.compile(r"[ ,;{}()\n\t=`.$]")


def internal_name(name: str) -> str:
    """The column of the field, under a name that hides nothing."""
    return f"__field_{name}" if name.lower() in RESERVED else name


@dataclass(slots=True)
class Documents:
    """``fields`` are over the columns of ``rows``.

    ``order`` is the order of the documents: their arrival, or as ``$sort`` put them. ``hidden`` are columns that
    projections keep although no document has them; ``meta`` is what ``{$meta: ..}`` gives.
    """

    shared: Shared
    rows: Rows
    fields: dict[str, Value]
    meta: Mapping[str, Value]
    order: tuple[SortKey, ...] = ()
    hidden: dict[str, str] = field(default_factory=dict)

    def scope(self, line: int | None = None) -> Scope:
        """What expressions of the next stage see."""
        return Scope(self.shared, self.fields, self.meta, line=line)

    def drop_failed(self) -> None:
        """Leave out the documents for which an expression fails: they go to the dead letter queue."""
        if self.shared.guards:
            failed = " OR ".join(dict.fromkeys(self.shared.guards))
            self.shared.guards.clear()
            self.rows = Filtered(self.rows, f"NOT coalesce({failed}, false)")

    def keep(self, condition: str) -> None:
        """Keep the documents that fulfil the condition and do not fail."""
        self.drop_failed()
        if condition != "true":
            self.rows = Filtered(self.rows, condition)

    def project(self, fields: Iterable[tuple[str, Value]], line: int | None) -> None:
        """The documents become these fields, in this order."""
        self.drop_failed()
        chosen = dict(fields)
        _check_names(chosen, line)
        self._hide_order()
        columns = [Computed(internal_name(name), value.sql) for name, value in chosen.items()]
        columns += [Computed(name, sql) for name, sql in self.hidden.items()]
        self.rows = Projected(self.rows, tuple(columns))
        self.fields = {name: Value(quoted(internal_name(name)), value.type, True) for name, value in chosen.items()}
        self.hidden = {name: quoted(name) for name in self.hidden}

    def _hide_order(self) -> None:
        """Sort keys are over the present columns; a projection keeps them as hidden columns."""
        kept = []
        for key in self.order:
            if key.expression in EVENT_COLUMNS or key.expression in map(quoted, self.hidden):
                kept.append(key)
                continue
            name = self.shared.fresh()
            self.hidden[name] = key.expression
            kept.append(SortKey(quoted(name), key.descending))
        self.order = tuple(kept)


def _check_names(fields: Mapping[str, Value], line: int | None) -> None:
    seen: dict[str, str] = {}
    for name in fields:
        if not name or _UNFIT.search(name) or name.startswith("__"):
            raise Refused(f"'{name}' cannot be the name of a column; call the field something else", line)
        if name.lower() in seen:
            raise Refused(f"'{seen[name.lower()]}' and '{name}' differ in case alone; a table keeps one of them", line)
        seen[name.lower()] = name


def as_columns(documents: Documents) -> Rows:
    """The documents as rows of an output; a field of which only null is known is text.

    A field that repeats what every result has of its own (``window_start``) is left out.
    """
    columns = []
    for name, value in documents.fields.items():
        if name.lower() in RESERVED:
            documents.shared.note(f"field '{name}' is left out: each result has a column of that name")
        else:
            columns.append(Computed(name, value.sql if value.type != NULL else "CAST(NULL AS STRING)"))
    rows = documents.rows
    if isinstance(rows, Projected) and [Computed(one.name, quoted(one.name)) for one in rows.columns] == columns:
        return rows
    if not columns and documents.shared.opened is None:
        raise Refused("the documents have no fields left to write")
    return Projected(rows, tuple(columns))
