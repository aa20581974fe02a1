"""What is asked of a log: one job, which every contender has to answer in its own way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from textwrap import indent

from pipelines.core.model import Job
from pipelines.core.time import HOUR, MINUTE, SECOND, format_duration
from pipelines.job.load import parse_job


@dataclass(frozen=True, slots=True)
class Question:
    """Windows ``(end - window, end]`` of profile stream_analytics with action adjust, per key.

    The result's columns are ``window_end``, the keys, ``n`` and, unless ``measured`` is None, its sum ``total`` and
    its average ``mean``. ``over`` is the job's: with ``device`` each device is a timeline of its own inside its input
    partition; ``substream`` is what it is where each key is to be one.
    """

    input: str
    columns: str
    at: str
    keys: tuple[str, ...]
    substream: tuple[str, ...]
    measured: str | None
    early_us: int
    late_us: int
    out_of_order_us: int
    window_us: int
    over: tuple[str, ...] = ()
    where: str | None = None
    script: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the result's aggregates."""
        return ("n",) if self.measured is None else ("n", "total", "mean")

    @property
    def timeline(self) -> tuple[str, ...]:
        """The columns that the events of one timeline share."""
        return ("input_partition", *self.over)

    @property
    def named(self) -> tuple[str, ...]:
        """Every payload column that groups or separates events, once."""
        return tuple(dict.fromkeys((*self.keys, *self.over)))

    def job(self) -> Job:
        """The job file of the question, as a person would write it."""
        return parse_job(
            f"""
tailrace: 1
job: bench
profile: stream_analytics
inputs:
  {self.input}:
    columns: "{self.columns}"
    timestamp_by: {self.at}
    over: [{", ".join(self.over)}]
ordering:
  early_arrival: {format_duration(self.early_us)}
  late_arrival: {format_duration(self.late_us)}
  out_of_order: {format_duration(self.out_of_order_us)}
  action: adjust
{self._query()}
"""
        )

    def _query(self) -> str:
        if self.script:
            columns = ", ".join(f"{name} {kind}" for name, kind in SITES.items())
            return f'references: {{sites: {{columns: "{columns}"}}}}\nquery:\n  sql: |\n{indent(self.script, "    ")}'
        aggregates = {"n": "count(*)", "total": f"sum({self.measured})", "mean": f"avg({self.measured})"}
        wanted = ", ".join(f'{name}: "{aggregates[name]}"' for name in self.values)
        return f"""
query:
  from: {self.input}
  {"" if self.where is None else f'where: "{self.where}"'}
  group_by: [{", ".join(self.keys)}]
  window: {{tumbling: {{size: {format_duration(self.window_us)}}}}}
  aggregates: {{{wanted}}}"""


SITES = {"site": "INT", "name": "STRING", "factor": "DOUBLE"}
"""The columns of the reference data ``sites``, a row for each site of a generated log."""


READINGS = Question(
    input="readings",
    columns="at TIMESTAMP, site INT, device INT, reading DOUBLE, octets BIGINT",
    at="at",
    keys=("site",),
    substream=("device",),
    measured="reading",
    early_us=5 * MINUTE,
    late_us=5 * MINUTE,
    out_of_order_us=5 * SECOND,
    window_us=5 * MINUTE,
)
"""Asked of generated logs."""

ONE_WINDOW = replace(READINGS, where="reading > 5")
"""The first window of the monitoring job, as a job file has it."""

ONE_WINDOW_SCRIPT = replace(
    ONE_WINDOW,
    script="""\
SELECT site, COUNT(*) AS n, SUM(reading) AS total, AVG(reading) AS mean
INTO windows
FROM readings TIMESTAMP BY at
WHERE reading > 5
GROUP BY site, TumblingWindow(minute, 5)
""",
)
"""The same as a script."""

MONITORING = replace(
    ONE_WINDOW,
    script="""\
WITH per_site AS (
    SELECT site, COUNT(*) AS n, SUM(reading) AS total, AVG(reading) AS mean
    FROM readings TIMESTAMP BY at
    WHERE reading > 5
    GROUP BY site, TumblingWindow(minute, 5)
),
compared AS (
    SELECT site, mean, LAG(mean) OVER (PARTITION BY site LIMIT DURATION(minute, 30)) AS mean_before
    FROM per_site
)
SELECT site, n, total, mean INTO windows FROM per_site

SELECT compared.site, sites.name, compared.mean, compared.mean_before
INTO alerts
FROM compared JOIN sites ON compared.site = sites.site
WHERE compared.mean > compared.mean_before * sites.factor
""",
)
"""A typical monitoring job: its first window is an output, and is compared with the one before and with limits."""

DEPARTURES = Question(
    input="departures",
    columns=(
        "scheduled TIMESTAMP, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,"
        " delay_minutes DOUBLE, distance DOUBLE"
    ),
    at="scheduled",
    keys=("origin", "carrier"),
    substream=("origin", "carrier"),
    measured="delay_minutes",
    early_us=5 * MINUTE,
    late_us=20 * MINUTE,
    out_of_order_us=2 * MINUTE,
    window_us=HOUR,
)
"""Asked of the demo's year of departures; policy and windows are those of the job that ships."""
