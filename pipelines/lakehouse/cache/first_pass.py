"""What the batch engine's first pass would find of a day, found by ingest: the first replay has no first pass either.

Facts are counts and extremes, so whoever passes over a day finds the same. Ingest knows the job, and does it for a day
when a batch has ended it, or brought half of it or more: so it reads a row again three times on average at most,
however many batches bring a day.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from pipelines.core.model import Job
from pipelines.core.time import DAY
from pipelines.lakehouse.arrival_log import log_files, shows_all_rows
from pipelines.lakehouse.cache import day_cache, facts
from pipelines.lakehouse.cache.day_cache import files_by_day, files_digest
from pipelines.lakehouse.cache.summaries import arrivals_of, times_of
from pipelines.lakehouse.layout import facts_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import FACTS
from pipelines.plan import watermark_strategy
from pipelines.plan.initial_state import SummaryKey, summary_key_of
from pipelines.plan.watermark_stats import MOST_FACTS, WIDTH_US, Asked, asked_of
from pipelines.plan.watermark_strategy import cell_of


@dataclass(frozen=True, slots=True)
class Appended:
    """What a batch has put into a log: ``rows``, from ``first_us`` on; ``newest_day`` of the log as it was before."""

    rows: int
    first_us: int
    newest_day: int | None


def keep_facts(lakehouse: Lakehouse, job: Job, input_name: str, log: DeltaTable, appended: Appended) -> None:
    """Keep the facts of days that ``appended`` has ended, or mostly brought.

    Nothing where replays will not ask for them: another profile, a small log, or times that Spark alone can read.
    Raises :class:`pipelines.core.errors.EnvironmentUnfit` if the table cannot be written.
    """
    if job.profile != "stream_analytics" or job.input(input_name).timestamp_by is None or not shows_all_rows(log):
        return
    setting, by_day = summary_key_of(job, input_name), files_by_day(log_files(log))
    rows_of = {day: sum(file.rows or 0 for file in files) for day, files in by_day.items()}
    if setting is None or sum(rows_of.values()) <= watermark_strategy.FEW_ROWS:
        return
    newest = max(by_day)
    was_newest = newest if appended.newest_day is None else appended.newest_day
    wanted = [
        day
        for day in sorted(by_day)
        if was_newest <= day < newest or (appended.first_us // DAY <= day and rows_of[day] <= 2 * appended.rows)
    ]
    asked = asked_of(job, input_name, in_cells=cell_of(job) is not None)
    held = day_cache.kept(lakehouse, facts_table(input_name), FACTS, asked.digest)
    dataset = log.to_pyarrow_dataset()
    found: dict[int, pa.Table] = {}
    for day in wanted:
        digest = files_digest(by_day[day])
        if (day, digest) not in held and facts.is_whole(day, by_day[day]):
            rows = facts_of(arrivals_of(dataset, setting, day), setting, asked)
            if 0 < len(rows) <= MOST_FACTS:
                found[day] = day_cache.identified(rows, FACTS, asked.digest, day, digest)
    if found:
        facts.keep(lakehouse, input_name, asked, found)


def facts_of(arrivals: pa.Table, setting: SummaryKey, asked: Asked) -> pa.Table:
    """The facts of some arrivals (:func:`pipelines.lakehouse.cache.summaries.arrivals_of`): columns of FACTS from
    ``input_partition`` on."""
    rows = arrivals.filter(pc.is_null(arrivals["punctuation_time"]))
    arrival_us = np.asarray(rows["arrival_time"])
    time = times_of(rows, setting, pc.is_null(rows["punctuation_time"]))
    time_us, no_time = np.asarray(pc.fill_null(time, 0)), ~np.asarray(time.is_valid())
    table = {
        "input_partition": rows["input_partition"],
        "bucket": arrival_us // WIDTH_US,
        "cell_us": pa.nulls(len(rows), pa.int64()),
        "sequence": rows["sequence"],
        "time": time,
        "lead": pa.array(time_us - arrival_us, mask=no_time),
        "arrival": arrival_us,
    }
    if asked.cells is not None:
        reached_us = time_us - asked.cells.out_of_order_us
        end_us = reached_us + (asked.cells.origin_us - reached_us) % asked.cells.width_us
        table["cell_us"] = pa.array(end_us, mask=no_time)
    keys = ["input_partition", "bucket", "cell_us"]
    found = {
        "rows": ("arrival", "count"),
        "least_sequence": ("sequence", "min"),
        "greatest_sequence": ("sequence", "max"),
        "least_time_us": ("time", "min"),
        "greatest_time_us": ("time", "max"),
        "lead_us": ("lead", "max"),
        "least_arrival_us": ("arrival", "min"),
    }
    grouped = pa.table(table).group_by(keys).aggregate(list(found.values()))
    columns = {name: grouped[name] for name in keys}
    columns |= {name: grouped["_".join(one)] for name, one in found.items()}
    names = [name for name in FACTS.names if name in columns]
    return pa.table({name: columns[name].cast(FACTS.field(name).type) for name in names})
