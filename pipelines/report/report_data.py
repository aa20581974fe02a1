"""The data of a report, gathered from the tables once; text, charts and numbers are made of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pipelines.core.errors import TailraceError
from pipelines.core.model import REASONS, AtlasOrdering, Input, Job, OutputRange, StreamAnalyticsOrdering
from pipelines.core.time import from_datetime
from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.owned_ranges import origins, owned_ranges
from pipelines.lakehouse.previews import Preview, previews_of
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.runs import runs_of
from pipelines.plan.definition import Plan
from pipelines.quality.check_result import CheckResult
from pipelines.replay.builder import make_plan
from pipelines.report.axes import Bands, Bins, all_bands, bins_over, compact
from pipelines.report.compare import Comparison, compare
from pipelines.report.events import Events, Extent, events_of
from pipelines.report.verdict_counts import VerdictCounts, Watermark, verdict_counts

VERDICTS = ("accepted", "adjusted", "partial", "dropped")


@dataclass(frozen=True, slots=True)
class Policy:
    """The bounds of an input's policy on lag, which only stream_analytics has (None: none), and a ``description``."""

    early_us: int | None
    late_us: int | None
    description: str


@dataclass(frozen=True)
class InputData:
    """One input: its events by bin and band of lag, and the watermark by bin."""

    name: str
    events: int
    without_time: int
    policy: Policy
    bands: Bands
    counts: dict[tuple[int, int], int]
    watermarks: dict[int, Watermark]

    def by_band(self) -> list[int]:
        """Events by band."""
        totals = [0] * self.bands.count
        for (_, band), count in self.counts.items():
            totals[band] += count
        return totals

    def completeness(self) -> list[tuple[int, str, int]]:
        """For each tolerance of zero or more: its microseconds, its name, and the events with a lag of at most it."""
        totals = self.by_band()
        found = []
        for place, edge in enumerate(self.bands.edges):
            if edge.lag_us >= 0:
                found.append((edge.lag_us, edge.label, sum(totals[: place + 1])))
        return found


@dataclass(frozen=True)
class ReportData:
    """The data of the report on ``job`` over ``output``.

    ``by_verdict`` and ``by_reason`` count events by bin of arrival time; ``undecided`` counts events in the range that
    no replay has decided. ``bins`` is None if there are no events. ``previews`` are all of the job. ``trouble``:
    sentences on what could not be found.
    """

    job: Job
    lakehouse: str
    output: OutputRange
    generated_us: int
    bins: Bins | None
    inputs: tuple[InputData, ...]
    by_verdict: dict[str, Counter[int]]
    by_reason: dict[str, Counter[int]]
    undecided: int
    gaps: tuple[OutputRange, ...]
    windows: Comparison
    checks: tuple[CheckResult, ...]
    unchecked: tuple[str, ...]
    plan: Plan | None
    runs: tuple[Mapping[str, Any], ...]
    previews: tuple[Preview, ...] = ()
    trouble: tuple[str, ...] = field(default=())

    @property
    def events(self) -> int:
        """Events that arrived in the range."""
        return sum(one.events for one in self.inputs)

    @property
    def failed(self) -> list[CheckResult]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]


def gather(
    job: Job,
    lakehouse: Lakehouse,
    output: OutputRange,
    checks: Sequence[CheckResult] = (),
    unchecked: Sequence[str] = (),
) -> ReportData:
    """The data of the report: results of ``output``, events that arrived in it.

    ``checks`` were run by the caller; ``unchecked`` are sentences on those that were skipped.
    """
    sources = {part.name: (part, found) for part in job.inputs if (found := events_of(lakehouse, part, output))}
    extents = {name: extent for name, (_, found) in sources.items() if (extent := found.extent()) is not None}
    bins = _bins(extents.values())
    tables = {one.table for one in output_tables(job)}
    ledger = runs_of(lakehouse, job.name)
    runs = [run for run in ledger if tables & dict(run["versions_written"] or {}).keys()]
    owned, gaps = owned_ranges(runs, output)
    decided = [part for one in owned for part in one.parts]
    verdicts = None if bins is None else verdict_counts(lakehouse, job, output, bins)
    inputs, known = [], Counter[int]()
    for name, (part, found) in sources.items():
        if name in extents and bins is not None:
            one, of_bins = _input(part, found, extents[name], bins, decided, job, verdicts)
            inputs.append(one)
            known.update(of_bins)
    by_verdict = _all_verdicts(verdicts, known)
    plan, trouble = _plan(job, output, lakehouse)
    return ReportData(
        job=job,
        lakehouse=lakehouse.root,
        output=output,
        generated_us=from_datetime(datetime.now(UTC)),
        bins=bins,
        inputs=tuple(inputs),
        by_verdict=by_verdict,
        by_reason={}
        if verdicts is None
        else {name: verdicts.by_reason[name] for name in REASONS if name in verdicts.by_reason},
        undecided=sum(one.events for one in inputs) - known.total(),
        gaps=tuple(gaps) if owned else (output,),
        windows=compare(lakehouse, job, output),
        checks=tuple(checks),
        unchecked=tuple(unchecked),
        plan=plan,
        runs=tuple(one.run for one in owned),
        previews=tuple(previews_of(lakehouse, job.name)),
        trouble=(*trouble, *origins(ledger, job, output)),
    )


def _bins(extents: Any) -> Bins | None:
    found: list[Extent] = list(extents)
    if not found:
        return None
    return bins_over(min(one.first_us for one in found), max(one.last_us for one in found))


def _input(
    part: Input,
    found: Events,
    extent: Extent,
    bins: Bins,
    decided: Sequence[OutputRange],
    job: Job,
    verdicts: VerdictCounts | None,
) -> tuple[InputData, Counter[int]]:
    policy = policy_of(job, part)
    bands = all_bands(policy.early_us, policy.late_us)
    cells = found.cells(bins, bands, decided)
    totals = [0] * bands.count
    for (_, band), count in cells.counts.items():
        totals[band] += count
    keep = [lag_us for lag_us in (policy.late_us, None if policy.early_us is None else -policy.early_us - 1) if lag_us]
    fewer, moved = compact(bands, totals, keep)
    counts = Counter[tuple[int, int]]()
    for (bin_, band), count in cells.counts.items():
        counts[bin_, moved[band]] += count
    watermarks = {} if verdicts is None else verdicts.watermarks.get(part.name, {})
    without_time = sum(cells.without_time.values())
    data = InputData(part.name, extent.events, without_time, policy, fewer, dict(counts), watermarks)
    return data, Counter(cells.decided)


def policy_of(job: Job, part: Input) -> Policy:
    """The bounds on lag in the ordering policy of ``part``."""
    ordering = job.ordering(part.name)
    if part.timestamp_by is None:
        return Policy(None, None, "The event time is the arrival time: no policy applies.")
    if isinstance(ordering, StreamAnalyticsOrdering):
        text = (
            "An event later than the late tolerance, or earlier than the early guard, is moved or dropped; one below"
            " the watermark is out of order."
        )
        return Policy(ordering.early_arrival_us, ordering.late_arrival_us, text)
    if isinstance(ordering, AtlasOrdering):
        text = "This profile measures lateness against the newest event times seen, not against the arrival time."
        return Policy(None, None, text)
    return Policy(None, None, "This profile measures lateness against the last CTI, not against the arrival time.")


def _all_verdicts(verdicts: VerdictCounts | None, known: Counter[int]) -> dict[str, Counter[int]]:
    """Events by verdict: those without another verdict are accepted, whether they have a row or not."""
    if verdicts is None:
        return {}
    found = {name: verdicts.by_verdict[name] for name in VERDICTS if name in verdicts.by_verdict and name != "accepted"}
    others = Counter[int]()
    for counts in found.values():
        others.update(counts)
    accepted = Counter({bin_: known[bin_] - others[bin_] for bin_ in known.keys() | others.keys()})
    return {"accepted": Counter({bin_: count for bin_, count in accepted.items() if count}), **found}


def _plan(job: Job, output: OutputRange, lakehouse: Lakehouse) -> tuple[Plan | None, tuple[str, ...]]:
    try:
        return make_plan(job, output, lakehouse), ()
    except TailraceError as error:
        return None, (f"There is no plan for this range: {error}.",)
