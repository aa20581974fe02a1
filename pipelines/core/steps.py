"""A query as steps: relations over rows that have a system timestamp, and an order among rows of equal time.

Policies act once, at the inputs (Q3). A step is then a pure function of its rows: it may be computed over any slice of
time that has what its rows depend on. Relations are trees; what several steps or outputs read is a step with a name.

A row has columns (:func:`columns_of`), a system timestamp, and an order among the rows of equal time (Q6):

- a row that stems from one event: ``(arrival_time, input as the job lists it, input_partition, sequence)``, then the
  positions that :class:`Applied`, :class:`Referenced` and, last, :class:`United` gave it;
- a window row: ``(window_id, values of partition_by, values of keys)``, ascending, null lowest;
- a pair: the order of the later row, then of the other, and left before right if they are equally late. If the two
  sides' orders cannot be compared with each other: whether the right one is later, then left, then right. An
  unmatched left row comes before the pairs of its time that begin with the same order;
- a row of a union of relations not all of which stem from events: the position of the branch, then its own order.

Filters, projections and analytic functions keep the order; so do the rest row by row, which append a position.

Expressions are Spark SQL over one row. Besides the columns they may name :data:`SYSTEM_TIMESTAMP`, and what is known
of where a row stems from (:func:`origin_of`), unless a column hides it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pipelines.core.query import Aggregate, Window

SYSTEM_TIMESTAMP = "system_timestamp"
"""The time that a row counts at; of a window row the window's end."""
EVENT_COLUMNS = ("arrival_time", "input_partition", "sequence")
"""What is known of a row that stems from one event, unless a column hides it. Of inputs they are columns."""
WINDOW_COLUMNS = ("window_start", "window_end", "window_id")
"""What is known of a row that stems from one window, unless a column hides it."""


@dataclass(frozen=True, slots=True)
class Computed:
    """A named expression."""

    name: str
    expression: str


@dataclass(frozen=True, slots=True)
class InputRows:
    """The events of an input that count, each at its system timestamp: its columns, then :data:`EVENT_COLUMNS`."""

    input: str


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows of an earlier step (Q2)."""

    step: str


@dataclass(frozen=True, slots=True)
class ReferenceRows:
    """The rows of reference data, in the order of its file. They stand on the right of :class:`Referenced` alone."""

    reference: str


@dataclass(frozen=True, slots=True)
class Filtered:
    """The rows for which ``condition`` is true; false and null remove (Q31)."""

    rows: Rows
    condition: str


@dataclass(frozen=True, slots=True)
class Projected:
    """One row for each row, of ``columns`` alone; its time and its order stay (Q20)."""

    rows: Rows
    columns: tuple[Computed, ...]


@dataclass(frozen=True, slots=True)
class Applied:
    """A row for each element of an array, or each property of a record, at the time of its row (Q44).

    ``argument`` is an ARRAY, or a MAP of a record's properties in their order. Column ``name`` is added: a struct of
    ``ArrayIndex`` (BIGINT from 0) and ``ArrayValue``, or of ``PropertyName`` and ``PropertyValue``. ``outer``: a row
    without elements stays once, with null; its position is 0.
    """

    rows: Rows
    argument: str
    name: str
    of: Literal["array", "record"] = "array"
    outer: bool = False


@dataclass(frozen=True, slots=True)
class Analytic:
    """A value looked up among the rows up to a row, in the order ``(system timestamp, order)`` (Q61 to Q78).

    ``function``: ``lag`` (the ``offset``-th before the row), ``last`` (the newest up to the row itself), ``is_first``
    (BIGINT 1 iff the row fulfils ``when`` and none before it is in its tumbling window of ``within_us``, else 0), or
    ``aggregate`` over the rows in reach. Rows share the values of ``partition_by``, null equal to null, and fulfil
    ``when``; in reach are those at ``(system timestamp - within_us, system timestamp]``. ``default`` is evaluated on
    the row itself.
    """

    name: str
    function: Literal["lag", "last", "is_first", "aggregate"]
    argument: str | None = None
    offset: int = 1
    default: str | None = None
    partition_by: tuple[str, ...] = ()
    when: str | None = None
    within_us: int = 0
    aggregate: Aggregate | None = None


@dataclass(frozen=True, slots=True)
class Analysed:
    """Every row with the values of ``functions`` as further columns, over all rows of the relation (Q41)."""

    rows: Rows
    functions: tuple[Analytic, ...]


@dataclass(frozen=True, slots=True)
class Windowed:
    """One row for each window and group that has rows, at the window's end (Q46 to Q60).

    The columns are ``keys``, then the aggregates. ``partition_by`` computes the rows of each of its values apart and
    gives no column (Q15).
    """

    rows: Rows
    window: Window
    keys: tuple[Computed, ...]
    aggregates: tuple[Aggregate, ...]
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a join. Its row is a struct column ``name`` of its columns and ``system_timestamp``."""

    name: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class Joined:
    """Pairs of rows whose system timestamps are ``from_units`` to ``to_units`` boundaries of ``unit_us`` apart (S14,
    Q9 to Q13).

    ``keys`` are pairs of expressions, left and right, over the columns of their side alone: equal, and null equals
    nothing. ``condition`` is over both structs. ``kind`` ``left``: a left row that no right row fulfils all of it for
    stays, with a null struct, at its time plus ``max(to_units, 0)`` units.
    """

    left: Side
    right: Side
    unit_us: int
    from_units: int
    to_units: int
    keys: tuple[tuple[str, str], ...] = ()
    condition: str | None = None
    kind: Literal["inner", "left"] = "inner"


@dataclass(frozen=True, slots=True)
class Gathered:
    """Reference data by key: a row for each value of ``key``, which is its first column, and column ``name``, an ARRAY
    of the rows with that value as structs, in the order of their file. It stands on the right of :class:`Referenced`.
    """

    rows: Rows
    key: Computed
    name: str


@dataclass(frozen=True, slots=True)
class Referenced:
    """Rows joined with reference data: one for each matching reference row, in the order of its file (Q79 to Q90).

    The columns are two structs, as of :class:`Joined`; ``reference`` is made of :class:`ReferenceRows` by filters,
    projections and :class:`Gathered`, and its struct lacks ``system_timestamp``. The time and the origin stay those of
    the stream's row. The snapshot that holds at that time serves it; ``time`` of the reference may choose another time
    (Q85).
    """

    rows: Side
    reference: Side
    keys: tuple[tuple[str, str], ...] = ()
    condition: str | None = None
    kind: Literal["inner", "left"] = "inner"


@dataclass(frozen=True, slots=True)
class United:
    """The rows of all branches, which have the same columns (Q14)."""

    branches: tuple[Rows, ...]


Rows = (
    InputRows
    | StepRows
    | ReferenceRows
    | Filtered
    | Projected
    | Applied
    | Analysed
    | Windowed
    | Joined
    | Gathered
    | Referenced
    | United
)


@dataclass(frozen=True, slots=True)
class Step:
    """A named relation, computed once however many read it."""

    name: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class Output:
    """What is written: the rows of one relation (Q91 to Q93). ``name`` is in lower case."""

    name: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class Steps:
    """A query of several steps and outputs; a step reads inputs and earlier steps only (Q1).

    ``ansi``: expressions follow ANSI rules, under which BIGINT overflow and division by zero stop the run (Q37).
    """

    steps: tuple[Step, ...]
    outputs: tuple[Output, ...]
    ansi: bool = False

    def step(self, name: str) -> Rows:
        """The relation of that name; KeyError if there is none."""
        return {one.name: one.rows for one in self.steps}[name]

    def relations(self) -> Iterator[tuple[str, Rows]]:
        """Every relation, with the name of the step or the output that it is a part of."""
        named: tuple[Step | Output, ...] = (*self.steps, *self.outputs)
        for one in named:
            yield from ((one.name, rows) for rows in walk(one.rows))

    def inputs(self) -> set[str]:
        """The inputs that outputs read, directly or through steps."""
        found: set[str] = set()
        steps: set[str] = set()
        relations = [rows for one in self.outputs for rows in walk(one.rows)]
        for rows in relations:
            if isinstance(rows, InputRows):
                found.add(rows.input)
            elif isinstance(rows, StepRows) and rows.step not in steps:
                steps.add(rows.step)
                relations += walk(self.step(rows.step))
        return found

    def output(self, name: str) -> Output:
        """The output of that name in any case; KeyError if there is none."""
        return {one.name: one for one in self.outputs}[name.lower()]


def children_of(rows: Rows) -> tuple[Rows, ...]:
    """The relations that this one is made of directly; of ``StepRows`` none."""
    match rows:
        case InputRows() | StepRows() | ReferenceRows():
            return ()
        case Joined(left, right):
            return left.rows, right.rows
        case Referenced(side, reference):
            return side.rows, reference.rows
        case United(branches):
            return branches
        case _:
            return (rows.rows,)


def walk(rows: Rows) -> Iterator[Rows]:
    """The relation and all that it is made of, without the steps that it reads."""
    yield rows
    for child in children_of(rows):
        yield from walk(child)


def columns_of(rows: Rows, steps: Steps, known: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Names of the relation's columns. ``known``: those of each input and reference, as the job declares them."""
    match rows:
        case InputRows(name):
            return (*known[name], *EVENT_COLUMNS)
        case ReferenceRows(name):
            return tuple(known[name])
        case StepRows(name):
            return columns_of(steps.step(name), steps, known)
        case Projected(_, columns):
            return tuple(one.name for one in columns)
        case Applied(inner, name=name):
            return (*columns_of(inner, steps, known), name)
        case Analysed(inner, functions):
            return (*columns_of(inner, steps, known), *(one.name for one in functions))
        case Windowed(keys=keys, aggregates=aggregates):
            return (*(one.name for one in keys), *(one.name for one in aggregates))
        case Joined(left, right):
            return left.name, right.name
        case Gathered(key=key, name=name):
            return key.name, name
        case Referenced(side, reference):
            return side.name, reference.name
        case United(branches):
            return columns_of(branches[0], steps, known)
        case Filtered(inner):
            return columns_of(inner, steps, known)


def origin_of(rows: Rows, steps: Steps) -> Literal["event", "window", "rows"]:
    """What each row stems from: one event, one window, or several rows (a join; a union of different origins)."""
    match rows:
        case InputRows():
            return "event"
        case Windowed():
            return "window"
        case Joined() | ReferenceRows():
            return "rows"
        case StepRows(name):
            return origin_of(steps.step(name), steps)
        case Referenced(side):
            return origin_of(side.rows, steps)
        case United(branches):
            origins = {origin_of(one, steps) for one in branches}
            return origins.pop() if len(origins) == 1 else "rows"
        case _:
            return origin_of(rows.rows, steps)


def first_window(steps: Steps) -> Windowed | None:
    """The first window over rows that have met none; None if there is no window."""
    named: tuple[Step | Output, ...] = (*steps.steps, *steps.outputs)
    relations = [rows for one in named for rows in walk(one.rows)]
    windows = [rows for rows in relations if isinstance(rows, Windowed)]
    return next((one for one in windows if origin_of(one.rows, steps) == "event"), None)
