"""Summaries of arrival logs, kept in ``summaries/<input>``: what a plan needs to know of arrivals it does not read.

A summary is made in one pass over a few columns, day of arrival by day of arrival. Each day's rows name the data files
they were made from, by a digest; a day whose files are no longer those (appended to, rewritten, or of another version)
is made again. Deleting the table costs a pass, never a number. Counters of stream_insight go on from day to day, so
there a digest speaks for all earlier days as well. No Spark.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.time import DAY, date_of, day_of
from pipelines.lakehouse.arrival_log import log_files, shows_all_rows
from pipelines.lakehouse.cache import day_cache
from pipelines.lakehouse.cache.day_cache import files_by_day, files_digest
from pipelines.lakehouse.layout import summaries_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import SUMMARIES, TIMESTAMP
from pipelines.plan.initial_state import Clock, Summary, SummaryKey, SummaryRow, timeline_text

if TYPE_CHECKING:
    import pyarrow.dataset as ds

Instants = npt.NDArray[np.int64]

_FORMAT = 1
"""Part of every setting's digest: raised whenever the rows of one log and setting come to mean something else."""


@dataclass(frozen=True, slots=True)
class Summed:
    """The summary of one log, and what the pass over the days that were not kept has cost.

    ``unsaved``: all rows of the setting, if they are not what the table holds; None: nothing to keep.
    """

    input: str
    summary: Summary
    days: int
    days_made: int
    files: int
    size_bytes: int
    rows: int
    unsaved: pa.Table | None


def summed(
    lakehouse: Lakehouse, input_name: str, setting: SummaryKey, log: DeltaTable, before_us: int | None = None
) -> Summed:
    """The summary of a log at the version it was opened at: from what is kept of it, and a pass over the rest.

    ``before_us``: of the arrivals before that instant alone; such a summary is not kept.
    """
    key = setting_digest(setting)
    by_day = files_by_day(log_files(log))
    kept = day_cache.kept(lakehouse, summaries_table(input_name), SUMMARIES, key) if shows_all_rows(log) else {}
    parts: list[pa.Table] = []
    made: list[int] = []
    dataset: ds.Dataset | None = None
    digest, clock, passed_rows = "", Clock(), 0
    for day in sorted(by_day):
        if before_us is not None and day * DAY >= before_us:
            break
        is_cut = before_us is not None and (day + 1) * DAY > before_us
        digest = files_digest(by_day[day], digest if setting.clock else "")
        rows = None if is_cut else kept.get((day, digest))
        if rows is None:
            dataset = dataset or log.to_pyarrow_dataset()
            arrivals = arrivals_of(dataset, setting, day, before_us)
            rows = _sum_up(arrivals, setting, clock)
            rows = day_cache.identified(rows, SUMMARIES, key, day, digest)
            made.append(day)
            passed_rows += len(arrivals)
        if setting.clock:
            clock = _clock(rows)
        parts.append(rows)
    together = pa.concat_tables(parts) if parts else SUMMARIES.empty_table()
    passed = [file for day in made for file in by_day[day]]
    return Summed(
        input=input_name,
        summary=_summary(together),
        days=len(parts),
        days_made=len(made),
        files=len(passed),
        size_bytes=sum(file.size_bytes for file in passed),
        rows=passed_rows,
        unsaved=together if before_us is None and (made or len(kept) != len(by_day)) else None,
    )


def keep(lakehouse: Lakehouse, input_name: str, rows: pa.Table) -> None:
    """Replace what the table holds of the rows' setting."""
    day_cache.keep(lakehouse, summaries_table(input_name), rows)


def setting_digest(setting: SummaryKey) -> str:
    """What names a setting in the table."""
    text = json.dumps([_FORMAT, asdict(setting)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _summary(rows: pa.Table) -> Summary:
    found: list[SummaryRow] = []
    clocks: dict[int, Clock] = {}
    for row in rows.to_pylist():
        day = day_of(row["arrival_date"])
        if row["received"] is not None:
            clocks[day] = Clock(row["received"], row["baseline_us"], row["cti_us"])
            continue
        found.append(
            SummaryRow(
                bucket=day,
                partition=row["input_partition"],
                timeline=row["timeline"],
                rows=row["rows"],
                first_us=row["first_us"],
                last_us=row["last_us"],
                end_us=row["end_us"],
                punctuation_us=row["punctuation_us"],
                last_arrival_us=row["last_arrival_us"],
            )
        )
    return Summary(DAY, tuple(found), clocks)


def _clock(rows: pa.Table) -> Clock:
    (row,) = rows.filter(pc.is_valid(rows["received"])).to_pylist()
    return Clock(row["received"], row["baseline_us"], row["cti_us"])


# -- the pass ---------------------------------------------------------------------------------------------------------


def arrivals_of(dataset: ds.Dataset, setting: SummaryKey, day: int, before_us: int | None = None) -> pa.Table:
    """The columns of one day of arrivals (before an instant) that a summary is computed from; instants as BIGINT."""
    own = ["arrival_time", "input_partition", "sequence", "kind", "punctuation_time"]
    payload = [name for name in (setting.time, setting.end, *setting.over) if name is not None]
    names = list(dict.fromkeys([*own, *payload]))
    wanted = pc.field("arrival_date") == pa.scalar(date_of(day), pa.date32())
    if before_us is not None:
        wanted = wanted & (pc.field("arrival_time") < pa.scalar(before_us, TIMESTAMP))
    stored = {name.lower(): name for name in dataset.schema.names}
    rows = dataset.to_table(columns={name: pc.field(stored[name.lower()]) for name in names}, filter=wanted)
    for index, name in enumerate(names):
        if pa.types.is_timestamp(rows[name].type):
            rows = rows.set_column(index, name, rows[name].cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    if setting.clock:
        rows = rows.append_column("__partition", pc.fill_null(rows["input_partition"], -1))
        rows = rows.sort_by([(name, "ascending") for name in ("arrival_time", "__partition", "sequence")])
    return rows.combine_chunks()


def _sum_up(rows: pa.Table, setting: SummaryKey, before: Clock) -> pa.Table:
    """The summary's own columns for the arrivals of one day; ``before``: the clock when it began."""
    is_event = pc.invert(pc.fill_null(pc.equal(rows["kind"], "punctuation"), False))
    time = times_of(rows, setting, is_event)
    usable = time.is_valid()
    grouped = {
        "input_partition": rows["input_partition"],
        **{f"key{place}": _where(usable, rows[name]) for place, name in enumerate(setting.over)},
        "together": _together(time, rows["input_partition"], setting),
    }
    values = {
        "time": time,
        "end": _where(usable, rows[setting.end]) if setting.end is not None else pa.nulls(len(rows), pa.int64()),
        "punctuation": _where(pc.invert(is_event), rows["punctuation_time"]),
        "arrival": rows["arrival_time"],
    }
    table = pa.table(grouped | values).group_by(list(grouped), use_threads=False)
    found = table.aggregate(
        [
            ("time", "min"),
            ("time", "max"),
            ("end", "max"),
            ("punctuation", "max"),
            ("arrival", "max"),
            ("arrival", "count"),
        ]
    )
    keys = [found[f"key{place}"].to_pylist() for place in range(len(setting.over))]
    timelines = [
        timeline_text(key) if None not in key else ""
        for key in (zip(*keys, strict=True) if keys else [()] * len(found))
    ]
    columns = {
        "input_partition": found["input_partition"],
        "timeline": pa.array(timelines, pa.string()),
        "rows": found["arrival_count"],
        "first_us": found["time_min"],
        "last_us": found["time_max"],
        "end_us": found["end_max"],
        "punctuation_us": found["punctuation_max"],
        "last_arrival_us": found["arrival_max"],
    }
    many = len(found) + int(setting.clock)
    clock = _advanced(setting, time, values["punctuation"], before) if setting.clock else None
    states = {"received": None, "baseline_us": None, "cti_us": None} if clock is None else asdict(clock)
    data = {}
    for name in SUMMARIES.names[3:]:
        stored = columns[name].to_pylist() if name in columns else [None] * len(found)
        data[name] = pa.array(stored + [states.get(name)] * (many - len(found)), SUMMARIES.field(name).type)
    return pa.table(data)


def times_of(rows: pa.Table, setting: SummaryKey, is_event: pa.ChunkedArray) -> pa.Array:
    """The time of each event in microseconds; null for punctuations and for events that no time is taken of."""
    arrival = _values(rows["arrival_time"])
    given = rows["arrival_time"] if setting.time is None else rows[setting.time]
    time = _values(given)
    usable = np.asarray(is_event) & np.asarray(given.is_valid())
    for name in setting.over:
        usable &= np.asarray(rows[name].is_valid())
    if setting.end is not None:
        usable &= np.asarray(rows[setting.end].is_valid()) & (_values(rows[setting.end]) > time)
    if setting.early_us is not None:
        usable &= time <= arrival + setting.early_us
    if setting.late_us is not None:
        time = np.maximum(time, arrival - setting.late_us)
    return pa.array(time, pa.int64(), mask=~usable)


def _together(time: pa.Array, partition: pa.ChunkedArray, setting: SummaryKey) -> pa.Array:
    """A number for each time, the same for those that share a row of the summary; null where there is none."""
    values, unusable = _values(time), ~np.asarray(time.is_valid())
    if setting.island_us is None:
        return pa.array(values // DAY, mask=unusable)
    who = _values(partition)
    order = np.lexsort((values, who, unusable))
    apart = (np.diff(values[order]) >= setting.island_us) | (np.diff(who[order]) != 0)
    islands = np.zeros(len(values), np.int64)
    islands[order] = np.concatenate([[0], np.cumsum(apart)])[: len(values)]
    return pa.array(islands, mask=unusable)


def _advanced(setting: SummaryKey, time: pa.Array, punctuation: pa.ChunkedArray, before: Clock) -> Clock:
    """The clock after rows in arrival order."""
    starts = _values(time.drop_null())
    numbers = before.received + np.arange(1, len(starts) + 1)
    if setting.every_events is not None:
        triggers = starts[numbers % setting.every_events == 0]
    elif setting.every_us is not None:
        triggers = _jumps(starts, setting.every_us, before.baseline_us)
    else:
        triggers = starts[:0]
    issued = [] if before.cti_us is None else [before.cti_us]
    issued += [int(triggers.max()) - setting.delay_us] if len(triggers) else []
    recorded = pc.max(punctuation).as_py()
    issued += [] if recorded is None else [recorded]
    return Clock(
        received=before.received + len(starts),
        baseline_us=int(triggers[-1]) if len(triggers) else before.baseline_us,
        cti_us=max(issued, default=None),
    )


def _jumps(starts: Instants, every_us: int, baseline_us: int | None) -> Instants:
    """Of starts in arrival order those that trigger: the first, then each that lies ``every_us`` after the last."""
    newest = np.maximum.accumulate(starts) if len(starts) else starts
    found = []
    place = 0 if baseline_us is None else int(np.searchsorted(newest, baseline_us + every_us))
    while place < len(newest):
        found.append(int(newest[place]))
        place = int(np.searchsorted(newest, found[-1] + every_us))
    return np.array(found, np.int64)


def _values(column: pa.ChunkedArray | pa.Array) -> Instants:
    """Whole numbers of a column, 0 for null."""
    return np.asarray(pc.fill_null(column, 0).cast(pa.int64())).astype(np.int64)


def _where(condition: pa.ChunkedArray | pa.Array, column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(condition, column, pa.scalar(None, column.type))
