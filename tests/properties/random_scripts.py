"""Random Stream Analytics scripts over random arrivals; all from one seed.

Every step and output has the columns ``k`` (text), ``n`` (bigint), ``x`` (float) and ``d`` (datetime), so that any can
be made of any other. Expressions are made by type, so that a script loads, and avoid what ends a run by design: casts
that fail, overflow and division by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.core.time import SECOND, parse_instant
from pipelines.job.load import parse_job
from pipelines.transcripts import Case
from pipelines.transcripts.read import Expectation

START_US = parse_instant("2026-01-05T12:00:00Z")
COLUMNS = "at TIMESTAMP, k STRING, n BIGINT, x DOUBLE, t STRING, l ARRAY<BIGINT>, m MAP<STRING, BIGINT>"
_TEXTS = ("12", "3.5", "abc", " A19 ", "", "x", "2026-01-05T12:00:00Z", None)
_AGGREGATES = {
    "n": ("COUNT(*)", "COUNT({n})", "COUNT(DISTINCT {k})", "SUM({n})", "MIN({n})", "MAX({n})", "COUNT({x})"),
    "x": ("AVG({x})", "SUM({x})", "MIN({x})", "MAX({x})"),
    "d": ("MIN({d})", "MAX({d})", "System.Timestamp()"),
}
"""By the column that they fill; also those that the language lets stand with OVER, but for COUNT(DISTINCT ..)."""
_OF_GROUPS = {
    "n": (
        "TopOne({n}) OVER (ORDER BY {x} DESC, {n})",
        "SUM({n}) / COUNT(*)",
        *("CASE WHEN COUNT(*) > 1 THEN 1 ELSE 0 END", "uda.range({n})", "COUNT(DISTINCT {x})"),
    ),
    "x": (
        *("STDEV({x})", "STDEVP({x})", "VAR({x})", "VARP({x})", "AVG({n})", "MAX({x}) - MIN({x})"),
        *("PERCENTILE_CONT(0.25) OVER (ORDER BY {x})", "PERCENTILE_DISC(0.5) OVER (ORDER BY {x} DESC)"),
    ),
    "d": ("DATEADD(second, -1, System.Timestamp())",),
}
_CASTS = {"n": ("CAST({k} AS bigint)",), "x": ("CAST({k} AS float)",), "d": ("CAST({k} AS datetime)",)}
"""What ends a run, unless the job has another choice for casts that fail."""
_ARRAYS = (
    "Collect({n})",
    "CollectTop(2) OVER (ORDER BY {x} DESC, {n})",
    "CollectTop(2, {n}) OVER (ORDER BY {d})",
    "TopOne() OVER (ORDER BY {n})",
    "Collect()",
)
_ARRAYS_OVER = (
    *("LAG(*){over}", "LAST(*){over}", "Collect({n}){over}", "Collect(){over}"),
    *("CollectTop(2) OVER ({by}ORDER BY {x}, {n} DESC {limit})", "TopOne() OVER ({by}ORDER BY {d} DESC {limit})"),
)
"""Arrays and records, which outputs alone have."""
_EXPRESSIONS = {
    "k": (
        *("UPPER({k})", "LOWER({k})", "REVERSE({k})", "TRIM({k})", "LEFT({k}, 2)", "RIGHT({k}, 1)", "{k} + 'a'"),
        *("SUBSTRING({k}, 1, 2)", "CONCAT({k}, {n})", "CONCAT_WS('-', {k}, {k})", "REPLACE({k}, 'x', 'yy')"),
        *("STUFF({k}, 1, 1, 'q')", "TRANSLATE({k}, 'xy', 'ab')", "REPLICATE({k}, 2)", "DATENAME(weekday, {d})"),
        *("CAST({n} AS nvarchar(max))", "CAST({d} AS nvarchar(max))", "COALESCE({k}, 'none')", "NULLIF({k}, 'x')"),
        *("CASE WHEN {c} THEN {k} ELSE 'no' END", "CASE {n} WHEN 1 THEN 'one' WHEN 2 THEN {k} END"),
    ),
    "n": (
        *("{n} + 1", "{n} - {n}", "{n} % 3", "{n} / 2", "-({n})", "({n} & 3)", "ABS({n})", "SIGN({n})", "LEN({k})"),
        *("DATEDIFF(second, {d}, {d})", "DATEPART(second, {d})", "DATEPART(minute, {d})", "CHARINDEX('x', {k})"),
        *("TRY_CAST({k} AS bigint)", "TRY_CAST({x} AS bigint)", "CASE WHEN {c} THEN {n} END", "COALESCE({n}, 0)"),
        *("NULLIF({n}, 1)", "PATINDEX('%x%', {k})", "REGEXMATCH({k}, '[xy]')", "CASE WHEN {c} THEN 1 ELSE {n} END"),
        "udf.twice({n})",
    ),
    "x": (
        *("{x} + {n}", "{x} * 0.5", "{x} - {x}", "{x} / 2", "ABS({x})", "ROUND({x}, 1)", "FLOOR({x})", "CEILING({x})"),
        *("udf.mean({x}, {n})", "SQRT(ABS({x}))", "CAST({n} AS float)", "TRY_CAST({k} AS float)", "COALESCE({x}, 1.5)"),
        *("{x} / {x}", "{n} / {x}", "-({x})", "CASE WHEN {c} THEN {x} ELSE {n} END"),
    ),
    "d": (
        *("DATEADD(second, 3, {d})", "DATEADD(minute, {n} % 5, {d})", "TRY_CAST({k} AS datetime)"),
        *("System.Timestamp()", "COALESCE({d}, System.Timestamp())", "CASE WHEN {c} THEN {d} END"),
    ),
    "c": (
        *("{n} > 1", "{n} <> 2", "{x} >= 1.5", "{x} < {n}", "{k} = 'x'", "{k} <> 'y'", "{n} IN (1, 2)"),
        *("{k} IS NOT NULL", "{n} IS NULL", "{n} BETWEEN 0 AND 2", "{k} LIKE '[xA]%'", "NOT {k} LIKE '_'"),
        *("({c} AND {c})", "({c} OR {c})", "NOT ({c})", "{d} <= System.Timestamp()"),
    ),
}
"""By type; ``c`` is a condition."""
_FUNCTIONS = (
    "functions:",
    *('  twice: "2 * x"', '  mean: {args: [a, b], as: "(a + b) / 2"}'),
    '  range: {args: [v], as: "CAST(array_max(v) - array_min(v) AS BIGINT)"}',
)
_LITERALS = {"k": ("'x'", "'12'"), "n": ("0", "2"), "x": ("1.5", "0.0"), "d": ("System.Timestamp()",), "c": ("1 = 1",)}


def script_of(seed: int) -> str:
    """The text of a script of a few steps and outputs."""
    return _Script(Random(seed)).text()


def job_of(seed: int) -> Job:
    """The job of the script, with random policies. Raises as :func:`parse_job` does."""
    script, chance = script_of(seed), Random(seed + 1)
    late, back = chance.choice([0, 2, 10]), chance.choice([0, 1, 5])
    action, effective = chance.choice(["adjust", "drop"]), chance.choice(["static", "since"])
    columns = ["references:", f'  r: {{columns: "k STRING, w BIGINT, since TIMESTAMP", effective: {effective}}}']
    lines = [
        *("tailrace: 1", f"job: script_{seed}", "profile: stream_analytics", "inputs:"),
        *(f'  {name}: {{columns: "{COLUMNS}"}}' for name in "ab"),
        *(columns if " r " in script or "FROM r\n" in script else []),
        *(_FUNCTIONS if "udf." in script or "uda." in script else ()),
        f"string_comparison: {chance.choice(['exact', 'ignore_case'])}",
        f"end_of_log: {chance.choice(['flush', 'flush', 'hold'])}",
        f"on_cast_error: {_Script(Random(seed)).on_cast_error}",
        f"ordering: {{late_arrival: {late}s, out_of_order: {back}s, action: {action}, early_arrival: 1m}}",
        "query:",
        "  sql: |",
        *(f"    {line}" for line in script.splitlines()),
    ]
    return parse_job("\n".join(lines))


def case_of(seed: int) -> Case:
    """A script, a log, reference data and an output range. Raises as :func:`parse_job` does."""
    job, chance = job_of(seed), Random(seed + 2)
    log = tuple(row for part in job.inputs for row in arrivals(part.name, chance))
    times = [row.arrival_time_us for row in log]
    ends_us = sorted(chance.choice(times) + chance.choice([-SECOND, 0, 1, SECOND, 5 * SECOND]) for _ in range(2))
    output = OutputRange(ends_us[0], ends_us[1] + chance.choice([1, SECOND, 10 * SECOND]))
    references = {one.name: reference_rows(chance) for one in job.references}
    return Case(f"script {seed}", None, 1, job, log, output, Expectation(), references=references)


def arrivals(name: str, chance: Random) -> list[Arrival]:
    """Arrivals around the seconds on which windows end."""
    found, arrival_us = [], START_US
    for number in range(25):
        arrival_us += chance.choice([0, 0, 1, 1, 1, 2, 3, 5, 12]) * SECOND
        at_us = arrival_us + chance.choice([0, 0, 0, -1, -2, -4, -15, 1]) * SECOND + chance.choice([0, 0, 0, -1, 1])
        payload: dict[str, Any] = {
            "at": at_us if chance.random() > 0.02 else None,
            "k": chance.choice(["x", "x", "y", "A1", None]),
            "n": chance.choice([-1, 0, 1, 2, 2, 3, None]),
            "x": chance.choice([-1.5, 0.0, 0.5, 1.5, 2.0, 81.25, None]),
            "t": chance.choice(_TEXTS),
            "l": chance.choice([None, [], [1], [2, None, 3]]),
            "m": chance.choice([None, {}, {"p": 1}, {"q": None, "p": 2}]),
        }
        found.append(Arrival(name, number % 2, number // 2, arrival_us, payload))
    return found


def reference_rows(chance: Random) -> tuple[Mapping[str, object], ...]:
    """A snapshot from before the log, and rows of it and of later ones."""
    times = [START_US - 3600 * SECOND, START_US + 7 * SECOND, START_US + 20 * SECOND + 1]
    rows = [{"k": chance.choice(["x", "y", None]), "w": n, "since": chance.choice(times)} for n in range(5)]
    return {"k": "x", "w": 9, "since": times[0]}, *rows


@dataclass(frozen=True)
class _Source:
    """What a SELECT reads: the text after FROM, and its columns by type."""

    text: str
    columns: Mapping[str, Sequence[str]]
    name: str


class _Script:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.steps: list[str] = []
        self.aliases = 0
        self.on_cast_error = self.pick("fail", "fail", "null", "drop_row")
        self.over = {name: self.pick("", "", "", " OVER k") for name in "ab"}
        self.looked_up_in = "r"

    def text(self) -> str:
        steps = []
        if self.chance.random() < 0.2:
            steps.append("q AS (\nSELECT k, w * 2 AS w\nFROM r\nWHERE w <> 3\n)")
            self.looked_up_in = "q"
        for number in range(self.chance.randint(1, 4)):
            steps.append(f"s{number} AS (\n{self.relation()}\n)")
            self.steps.append(f"s{number}")
        outputs = [self.relation(f"out{number}") for number in range(self.chance.randint(2, 4))]
        return "\n\n".join(["WITH " + ",\n".join(steps), *outputs])

    def pick(self, *choices: Any) -> Any:
        return self.chance.choice(choices)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def expression(self, kind: str, source: _Source, depth: int = 2, plain: bool = False) -> str:
        """``plain``: without System.Timestamp()."""
        if depth == 0 or self.chance.random() < 0.3:
            columns = source.columns.get(kind, ())
            literals = [one for one in _LITERALS[kind] if not (plain and "System" in one)]
            if columns and (self.chance.random() < 0.9 or not literals):
                return str(self.pick(*columns))
            return str(self.pick(*literals))
        forms = [one for one in _EXPRESSIONS[kind] if not (plain and "System" in one)]
        forms += _CASTS.get(kind, ()) if self.on_cast_error != "fail" else ()
        return self.filled(self.pick(*forms), source, depth - 1, plain)

    def filled(self, form: str, source: _Source, depth: int, plain: bool = False) -> str:
        for kind in "knxdc":
            while f"{{{kind}}}" in form:
                form = form.replace(f"{{{kind}}}", self.expression(kind, source, depth, plain), 1)
        return form

    def where(self, source: _Source, chance: float = 0.4) -> str:
        return f"\nWHERE {self.expression('c', source)}" if self.chance.random() < chance else ""

    # -- relations -----------------------------------------------------------------------------------------------------

    def relation(self, into: str | None = None) -> str:
        kinds: list[Callable[[str], str]] = [
            *(self.rows, self.analysed, self.analysed, self.grouped, self.grouped, self.grouped),
            *(self.joined, self.joined, self.joined_twice, self.looked_up, self.united, self.applied),
        ]
        return self.pick(*kinds)("" if into is None else f"\nINTO {into}")

    def source(self, alias: bool = False, partitioned: bool = False, of_input: bool = False) -> _Source:
        """A step or an input (``of_input``: that); ``partitioned``: an input perhaps by PartitionId."""
        self.aliases += 1
        name = f"f{self.aliases}"
        if self.steps and not of_input and self.chance.random() < 0.6:
            of, by, columns = self.pick(*self.steps), "", {kind: ("{}" + kind,) for kind in "knxd"}
        else:
            of = self.pick("a", "b")
            by = f" TIMESTAMP BY at{self.over[of]}"
            by += " PARTITION BY PartitionId" if partitioned and self.chance.random() < 0.2 else ""
            numbers = ("{}n", "GetArrayLength({}l)", "GetArrayElement({}l, 0)")
            columns = {"k": ("{}k", "{}t"), "n": numbers, "x": ("{}x",), "d": ("{}at",)}
        prefix = f"{name}." if alias else ""
        named = {kind: tuple(one.format(prefix) for one in texts) for kind, texts in columns.items()}
        return _Source(f"{of} AS {name}{by}" if alias else f"{of}{by}", named, name)

    def select(self, source: _Source, into: str, **given: str) -> str:
        columns = {kind: given.get(kind) or self.expression(kind, source) for kind in "knxd"}
        return "SELECT " + ", ".join(f"{text} AS {kind}" for kind, text in columns.items()) + into

    def rows(self, into: str) -> str:
        source = self.source()
        of_step = source.text in self.steps and self.chance.random() < 0.3
        return f"{'SELECT *' + into if of_step else self.select(source, into)}\nFROM {source.text}{self.where(source)}"

    def analysed(self, into: str) -> str:
        source = self.source(partitioned=True)
        kind = self.pick("n", "x", "k", "d")
        function = self.analytic(kind, source)
        where = f"\nWHERE {self.analytic('n', source)} > 0" if self.chance.random() < 0.2 else self.where(source, 0.2)
        if into and self.chance.random() < 0.3:
            by, limit = self.pick("", "PARTITION BY {k} "), f"LIMIT DURATION(second, {self.pick(1, 3, 20)})"
            array = self.pick(*_ARRAYS_OVER).replace("{over}", " OVER ({by}{limit})")
            array = array.replace("{by}", by).replace("{limit}", limit)
            into = f", {self.filled(array, self.columns_alone(source), 0, True)} AS c{into}"
        return f"{self.select(source, into, **{kind: function})}\nFROM {source.text}{where}"

    def columns_alone(self, source: _Source) -> _Source:
        return _Source(source.text, {one: texts[:1] for one, texts in source.columns.items()}, source.name)

    def analytic(self, kind: str, source: _Source) -> str:
        plain = self.expression(kind, source, 1, True)
        partition = self.pick("", "PARTITION BY {k} ", "PARTITION BY {k}, {n} ")
        when = f" WHEN {self.expression('c', source, 1, True)}" if self.chance.random() < 0.4 else ""
        limit = f"LIMIT DURATION(second, {self.pick(1, 3, 5, 20)})"
        forms = [f"LAG({plain})", f"LAG({plain}, {self.pick(1, 2)}, {plain})", f"LAST({plain})"]
        if kind in "nx":
            forms += [one for one in _AGGREGATES[kind] if "DISTINCT" not in one]
        form = self.pick(*forms) + f" OVER ({partition}{limit}{when})"
        if kind == "n" and self.chance.random() < 0.2:
            over = f" OVER ({partition.strip()}{when})" if partition or when else ""
            form = f"ISFIRST(second, {self.pick(2, 10)}){over}"
        return self.filled(form, self.columns_alone(source), 0, True)

    def grouped(self, into: str) -> str:
        source = self.source(partitioned=True)
        key = self.pick("k", "k", self.expression("k", source, plain=True))
        window = self.window()
        columns = {kind: self.filled(self.pick(*_AGGREGATES[kind], *_OF_GROUPS[kind]), source, 1) for kind in "nxd"}
        shown = (
            f"CONCAT({key}, System.Window().Id)" if window.startswith("Windows") and self.chance.random() < 0.5 else key
        )
        arrays = ""
        if into and self.chance.random() < 0.4:
            arrays = f", {self.filled(self.pick(*_ARRAYS), source, 0, True)} AS c"
        more = self.pick("", "", "", ", {n}", ", {x}", ", {d}, {x}")
        having = self.pick("", "", "\nHAVING COUNT(*) > 1", "\nHAVING SUM({n}) > 2 OR MAX({x}) > 1")
        return (
            f"{self.select(source, arrays + into, k=shown, **columns)}\nFROM {source.text}{self.where(source)}"
            f"\nGROUP BY {key}{self.filled(more, source, 1, True)}, {window}{self.filled(having, source, 0)}"
        )

    def window(self) -> str:
        size = self.pick(1, 2, 5, 10)
        single = [
            f"TumblingWindow(second, {size})",
            f"TumblingWindow(Duration(second, {size}), Offset(millisecond, {self.pick(-1, 250)}))",
            f"HoppingWindow(second, {size}, {self.pick(1, 2, 3)})",
            f"SlidingWindow(second, {size})",
            f"SessionWindow(second, {self.pick(1, 2)}, {self.pick(5, 10)})",
            f"HoppingWindow(Duration(second, {size}), Hop(second, 1), Offset(millisecond, {self.pick(-1, 1)}))",
            "System.Timestamp()",
        ]
        if self.chance.random() < 0.15:
            one, two = self.chance.sample(single, 2)
            return f"Windows(Window('p', {one}), Window('q', {two}))"
        return str(self.pick(*single))

    def joined(self, into: str) -> str:
        apart = self.chance.random() < 0.2
        left, right = self.source(True, of_input=apart), self.source(True, of_input=apart)
        first = self.pick(-2, 0, 0, 1)
        unit, last = self.pick("second", "second", "minute"), first + self.pick(0, 1, 3)
        distance = f"DATEDIFF({unit}, {left.name}, {right.name})"
        bound = self.pick(f"{distance} BETWEEN {first} AND {last}", f"{distance} >= {first} AND {distance} <= {last}")
        both = _Source("", {kind: (*left.columns[kind], *right.columns[kind]) for kind in left.columns}, "")
        more = f" AND {self.expression('c', both, 1, True)}" if self.chance.random() < 0.3 else ""
        kind = self.pick("JOIN", "INNER JOIN", "LEFT JOIN", "LEFT OUTER JOIN")
        on = f"{left.columns['k'][0]} = {right.columns['k'][0]} AND {bound}{more}"
        by = " PARTITION BY PartitionId" if apart else ""
        on += f" AND {left.name}.PartitionId = {right.name}.PartitionId" if apart else ""
        read = f"{left.text}{by}\n{kind} {right.text}{by}"
        return f"{self.select(both, into)}\nFROM {read}\nON {on}{self.where(both, 0.3)}"

    def joined_twice(self, into: str) -> str:
        one, two, three = (self.source(True) for _ in range(3))
        pairs = [(one, two), (self.pick(one, two), three)]
        on = [
            f"DATEDIFF(second, {left.name}, {right.name}) BETWEEN {self.pick(-1, 0)} AND {self.pick(0, 2)}"
            f" AND {left.columns['k'][0]} = {right.columns['k'][0]}"
            for left, right in pairs
        ]
        every = _Source("", {kind: one.columns[kind] + two.columns[kind] + three.columns[kind] for kind in "knxd"}, "")
        # after an unmatched row there is no second time to bound
        second = self.pick("JOIN", "LEFT JOIN")
        return (
            f"{self.select(every, into)}\nFROM {one.text}\nJOIN {two.text}\nON {on[0]}\n{second} {three.text}"
            f"\nON {on[1]}{self.where(every, 0.3)}"
        )

    def looked_up(self, into: str) -> str:
        source, name = self.source(True), self.looked_up_in
        both = _Source("", {**source.columns, "n": (*source.columns["n"], f"{name}.w")}, "")
        forms = ("{} = r.k", "{} = r.k", "{} = r.k AND r.w > 1", "1 = 1", "{} <> r.k OR r.w > 7", "UPPER({}) = r.k")
        on = self.pick(*forms).format(source.columns["k"][0]).replace("r.", f"{name}.")
        return (
            f"{self.select(both, into)}\nFROM {source.text}\n{self.pick('JOIN', 'LEFT JOIN')} {name} ON {on}"
            f"{self.where(both, 0.3)}"
        )

    def united(self, into: str) -> str:
        branches = [self.source() for _ in range(self.pick(2, 2, 3))]
        texts = [
            f"{self.select(one, into if number == 0 else '')}\nFROM {one.text}{self.where(one)}"
            for number, one in enumerate(branches)
        ]
        return "\nUNION\n".join(texts)

    def applied(self, into: str) -> str:
        self.aliases += 1
        name = f"f{self.aliases}"
        function, element = self.pick(
            ("GetArrayElements({}.l)", {"n": ("e.ArrayValue", "e.ArrayIndex")}),
            ("GetRecordProperties({}.m)", {"k": ("e.PropertyName",), "n": ("e.PropertyValue",)}),
        )
        columns = {"k": (f"{name}.k",), "n": (f"{name}.n",), "x": (f"{name}.x",), "d": (f"{name}.at",), **element}
        source = _Source("", columns, name)
        apply = f"{self.pick('CROSS', 'OUTER')} APPLY {function.format(name)} AS e"
        of = self.pick("a", "b")
        of = f"{of} AS {name} TIMESTAMP BY at{self.over[of]}"
        return f"{self.select(source, into)}\nFROM {of}\n{apply}{self.where(source)}"
