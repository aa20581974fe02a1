"""``docs/benchmarks.md``, written from the figures alone."""

from __future__ import annotations

import json
from pathlib import Path

from bench import charts, tables
from bench.compare import TOLERANCE
from bench.disorder import Disorder
from bench.summary import Figures
from bench.tables import Sheet
from pipelines.core.time import format_duration

_INTRODUCTION = """\
# How fast exact is

Written by `make bench`; not edited by hand. `make bench ARGS="--size 1 --rounds 3 --only plain,window,tailrace"` takes
a minute or two, `make bench SIZE=100` measures a hundred million events. `--docs` replaces the sections here that were
measured, for example that of `--curves monitoring` alone, and leaves the others.

Every contender answers the same question about the same Delta table: what the streaming job would have counted, in
windows by key, with how many, sum and average. One exception: *plain windowing* puts every event into the window of its
event time, whatever the stream did. That is what a job that asks nothing costs, so it is the measure, 1.00, and its
numbers are wrong by design; the table says how many.

- All are measured in one run, in turns, each round beginning with another, each right after a run of its own that is
  not timed; a ratio is of two times of the same round.
  The tables show the median of the rounds, and the least and the most.
- A contender's result is compared with Tailrace's before any of its times counts: whole numbers exactly, doubles to a
  relative {tolerance}. One that differs is shown as *not equal*, without a time. Tailrace's own sums of doubles are
  exact, and so are the same bits on any machine; those of Spark, DuckDB and Polars depend on the order of addition.
  Tailrace's windows equal themselves, of course; the textbook job, DuckDB and Polars, written apart, are the proof.
- Spark's contenders run in one warm session, the one that the product uses, and compute every row without keeping it
  (sink `noop`), unless the table says "written to Delta". DuckDB and Polars run in warm processes of their own, with
  their own defaults, read the same Parquet files and end with a table in memory.
- Tailrace runs on a log as ingest leaves it; planning is part of the time, as of a replay, and so is the first pass
  over the log. Up to two million events Tailrace sorts, and makes no first pass.
- *Processor* is the time that all cores together spent, all processes included: a busy machine disturbs it less.
- ¹ divided by plain windowing that is written to Delta too, which has no verdicts, no fingerprint and no ledger.
  ² the live run was measured on a shorter log of the same model, and is compared for each event.
"""


def write_page(figures: Figures, folder: Path, *, keep: bool = False) -> list[Path]:
    """``benchmarks.md``, its figures as JSON and its drawings, into ``folder``; what was written. ``keep``: logs and
    curves that are there and were not measured again stay."""
    attachments = folder / "benchmarks"
    page, data = folder / "benchmarks.md", attachments / "figures.json"
    if keep and data.exists():
        before = json.loads(data.read_text())
        figures = before | figures | _together(before, figures)
    written = []
    parts = [_INTRODUCTION.format(tolerance=f"{TOLERANCE:g}")]
    if figures["logs"]:
        written.append(charts.write_svg(charts.ratios(figures["logs"]), attachments / "ratios.svg"))
        parts += [
            "## Results",
            f"![Each contender's time, divided by plain windowing's](benchmarks/{written[-1].name})",
        ]
        parts += [part for log in figures["logs"] for part in (*_heading(log), _table(tables.times(log)))]
    if figures["curves"]:
        written.append(charts.write_svg(charts.curves(figures["curves"]), attachments / "curves.svg"))
        parts += ["## What the cost depends on", _CURVES, f"![Cost curves](benchmarks/{written[-1].name})"]
        parts += [part for curve in figures["curves"] for part in (*_heading(curve), _table(tables.along(curve)))]
    if figures["logs"]:
        parts += ["## Memory, reading, shuffling", _COSTS]
        parts += [part for log in figures["logs"] for part in (f"### {log['title']}", _table(tables.costs(log)))]
    if "ingest" in figures:
        parts += ["## Ingest", _INGEST, _when(figures["ingest"]), _table(tables.ingest(figures["ingest"]))]
    parts += ["## The machine", _machine(figures), "## The log", _model(figures)]
    attachments.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(part.strip() for part in parts) + "\n")
    data.write_text(json.dumps(figures, indent=1) + "\n")
    return [page, data, *written]


_CURVES = """\
*× plain* is divided by plain windowing at the same point; *× its first* by the same contender at the first point, which
says how the cost grows. Curves of replays are of all of `tailrace replay`, ledger and writes included.

The monitoring job is a script: it filters events, counts and averages them in windows by site, compares each average
with the one before (`LAG`) and with a factor that reference data has for the site. It has two outputs: the windows, and
the averages that rose by more than the factor. Its first point is a job of the first window alone, in a job file.

`tailrace tune` compares so many settings of the policy over the whole log; ¹ is divided by one replay of it."""

_COSTS = """\
Medians. *Resident* is the peak of resident memory, driver and JVM together; the JVM keeps what it once took, so *heap*,
the peak of live and not yet collected objects, tells contenders apart. *Read* is all that the processes read from
files, spills and shuffles included; Polars maps files into memory, which this does not see. *Largest / median task* is
of the stage that ran longest."""


_INGEST = """\
Each contender runs in a process of its own. Polars and DuckDB read JSON lines, type their columns and write them to
Delta; fastavro alone reads the records of a capture and does nothing with them. Tailrace also judges each record's
place in the arrival order, sorts, and keeps what it refuses. *Time* and *processor* are divided by those of Polars and
of fastavro."""


def write_ingest(figures: Figures, folder: Path) -> list[Path]:
    """The page in ``folder`` with other figures of ingest; what was written."""
    before = json.loads((folder / "benchmarks" / "figures.json").read_text())
    return write_page(before | {"ingest": figures}, folder)


def _together(before: Figures, now: Figures) -> Figures:
    """Logs and curves of both, those of ``now`` in place of the former ones of the same name."""
    return {
        kind: list({one["name"]: one for figures in (before, now) for one in figures[kind]}.values())
        for kind in ("logs", "curves")
    }


def _heading(one: Figures) -> tuple[str, str]:
    return f"### {one['title']}", _when(one)


def _when(one: Figures) -> str:
    taken = one["taken"]
    return f"{taken['at']}, rounds: {taken['rounds']}, load average {taken['load_average']}."


def _machine(figures: Figures) -> str:
    machine = figures["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB,"
        f" {machine['system']}. {versions}."
    )


def _model(figures: Figures) -> str:
    model, question = figures["model"], figures["question"]
    regular = 1 - sum(model[name] for name in Disorder(0, 0).shares)

    def us(name: str) -> str:
        return format_duration(model[name])

    lines = [
        f"{figures['model']['events_a_day']:,} events a day as a Poisson process, seed {model['seed']};"
        f" {model['partitions']} input partitions, uniform; {model['devices']:,} devices at {model['sites']} sites, the"
        f" k-th with a share proportional to 1 / k^{model['zipf']:g}, so"
        f" {model['partitions'] * model['devices']:,} timelines where each device is one. Each event is of one sort,"
        " drawn independently of all else:",
        "",
        "| sort | share | it happened |",
        "|---|---:|---|",
        f"| regular | {regular:.1%} | max(0, Normal(0.5 s, 0.2 s)) + Exponential({us('regular_mean_us')}) before it"
        " arrived |",
        f"| far out of order | {model['far_share']:.1%} | uniformly {us('far_from_us')} to {us('far_to_us')} before |",
        f"| late | {model['late_share']:.1%} | {us('late_from_us')} + Exponential(10 min) before |",
        f"| early | {model['early_share']:.1%} | {us('early_from_us')} + Exponential(10 min) after, by its clock |",
        f"| ahead | {model['ahead_share']:.1%} | up to {us('ahead_to_us')} after, uniformly |",
        "",
        "The payload is an INT key, a DOUBLE (gamma, mean 20) and a BIGINT (uniform below 2^40). The log lies as ingest"
        " lays one batch: one Delta table, a partition a day, sorted by arrival.",
        "",
        f"The job: early_arrival {question['early']}, late_arrival {question['late']}, out_of_order"
        f" {question['out_of_order']}, adjust; tumbling windows of {question['window']} by key; `count(*)`,"
        " `sum` and `avg` of the DOUBLE. The departures are asked the same of their delays, with the policy and the"
        " windows of the demo's job.",
    ]
    return "\n".join(lines)


def _table(sheet: Sheet) -> str:
    rule = ["---:" if numeric else "---" for numeric in sheet.numeric]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (sheet.header, rule, *sheet.rows))
