"""Facts of arrival logs, kept in ``facts/<input>``: what a first pass found of a day need not be looked for again.

Only whole days are kept: days whose arrivals all lie inside the read range, so that every run means the same by them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from pipelines.core.time import DAY
from pipelines.lakehouse.arrival_log import LogFile, log_files, shows_all_rows
from pipelines.lakehouse.cache import day_cache
from pipelines.lakehouse.cache.day_cache import files_by_day, files_digest
from pipelines.lakehouse.layout import facts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import FACTS
from pipelines.plan.definition import Plan
from pipelines.plan.watermark_stats import Asked, Fact, Recalled

# how many of a day's events lie in an output range is the run's own
_COLUMNS = {name: "input_partition" if name == "partition" else name for name in Fact._fields if name != "in_range"}
_SCHEMA = pa.schema([FACTS.field(column) for column in _COLUMNS.values()])


class KeptFacts:
    """The :class:`~pipelines.plan.watermark_stats.Memory` of a plan's reads; :meth:`save` writes what it learned."""

    def __init__(self, lakehouse: Lakehouse, plan: Plan) -> None:
        self._lakehouse = lakehouse
        self._reads = {read.input: read for read in plan.reads}
        self._range = (plan.read.from_us, plan.read.to_us)
        self._days: dict[str, tuple[dict[int, str], bool]] = {}
        self._known: dict[tuple[str, Asked], dict[int, pa.Table]] = {}
        self._learned: set[tuple[str, Asked]] = set()

    def recall(self, input_name: str, asked: Asked) -> Recalled:
        """What is known of the days that are to be read."""
        days, are_all = self._whole_days(input_name)
        held = day_cache.kept(self._lakehouse, facts_table(input_name), FACTS, asked.digest)
        known = {day: held[day, digest] for day, digest in days.items() if (day, digest) in held}
        self._known[input_name, asked] = known
        each = [fact for rows in known.values() for fact in _facts(rows)]
        return Recalled(tuple(each), frozenset(known), are_all and len(known) == len(days))

    def learn(self, input_name: str, asked: Asked, found: Sequence[Fact]) -> None:
        """What a pass found of the other days."""
        known, (digests, _) = self._known[input_name, asked], self._whole_days(input_name)
        by_day: dict[int, list[Fact]] = defaultdict(list)
        for fact in found:
            if fact.day in digests and fact.day not in known:
                by_day[fact.day].append(fact)
        for day, facts in by_day.items():
            columns = {column: [getattr(fact, name) for fact in facts] for name, column in _COLUMNS.items()}
            rows = pa.table(columns, schema=_SCHEMA)
            known[day] = day_cache.identified(rows, FACTS, asked.digest, day, digests[day])
            self._learned.add((input_name, asked))

    def save(self) -> None:
        """Keep what was learned, in one commit for each thing asked."""
        for input_name, asked in self._learned:
            keep(self._lakehouse, input_name, asked, self._known[input_name, asked])
        self._learned.clear()

    def _whole_days(self, input_name: str) -> tuple[dict[int, str], bool]:
        """Digests of the days whose arrivals are all read, and whether these are all days of which any is."""
        if input_name not in self._days:
            read = self._reads[input_name]
            log = self._lakehouse.open(read.table, read.version)
            assert log is not None, f"the plan read {read.table}"
            by_day = files_by_day(log_files(log))
            touched = [day for day, files in by_day.items() if any(file.may_hold(*self._range) for file in files)]
            whole = {
                day: files_digest(by_day[day])
                for day in touched
                if shows_all_rows(log) and is_whole(day, by_day[day], *self._range)
            }
            self._days[input_name] = whole, len(whole) == len(touched)
        return self._days[input_name]


def is_whole(day: int, files: Sequence[LogFile], from_us: int | None = None, to_us: int | None = None) -> bool:
    """Whether a day's files hold arrivals of that day alone, and of ``[from_us, to_us]``."""
    own = day * DAY, (day + 1) * DAY - 1
    return all(file.lies_within(*own) and file.lies_within(from_us, to_us) for file in files)


def keep(lakehouse: Lakehouse, input_name: str, asked: Asked, known: Mapping[int, pa.Table]) -> None:
    """Keep the facts of days, identified; what is kept of other days stays."""
    held = day_cache.kept(lakehouse, facts_table(input_name), FACTS, asked.digest)
    rest = [rows for (day, _), rows in held.items() if day not in known]
    day_cache.keep(lakehouse, facts_table(input_name), pa.concat_tables([*known.values(), *rest]))


def _facts(rows: pa.Table) -> list[Fact]:
    columns = (rows[column].to_pylist() for column in _COLUMNS.values())
    return [Fact(**dict(zip(_COLUMNS, values, strict=True)), in_range=0) for values in zip(*columns, strict=True)]
