"""Which changed settings explain the differences of a range: searched at a few window ends, proved over all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from pipelines.batch import engine
from pipelines.batch.spark.local_rows import local_rows
from pipelines.core.errors import TailraceError
from pipelines.core.model import Job
from pipelines.core.time import format_duration
from pipelines.recompute.windows import Values, instant_in
from pipelines.reconcile.causes.another_policy.search import Found, Sample, Search
from pipelines.reconcile.causes.budget import SAMPLES
from pipelines.reconcile.causes.cause import Cause
from pipelines.reconcile.causes.duplicate_emission import is_duplicate
from pipelines.reconcile.causes.floating_point_only import is_rounding
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.causes.stream_stopped_or_restarted import OutputGap, output_gaps
from pipelines.reconcile.compare import EQUAL, compare
from pipelines.replay.builder import make_plan
from pipelines.replay.read import read_arrivals

_ENDS = 20_000
"""Window ends that samples are taken from."""
_ROUNDS = 4


@dataclass(frozen=True)
class Policy:
    """A change of settings that was proved: the changed job, and how many rows it explains.

    ``left``: the rows that differ under it, ``gaps`` the live run's output gaps under it, ``rest`` the rows that were
    differences before and that neither explains.
    """

    job: Job
    explained: int
    left: DataFrame
    gaps: Sequence[OutputGap]
    rest: DataFrame
    cause: Cause


def proved_policy(
    scope: Scope, before: DataFrame, gaps: Sequence[OutputGap], recorded: set[str], *, thorough: bool
) -> Policy | None:
    """The change of settings that explains most, proved over the whole range; None where none explains any.

    What is true of the samples may fail elsewhere: the windows at which it failed are samples of the next search.
    """
    samples = _samples(scope, before, gaps, recorded)
    names = [*scope.shape.keys, *scope.shape.values]
    best: Policy | None = None
    tried: set[Job] = set()
    for _ in range(_ROUNDS):
        found = Search(scope.job, scope.logs, scope.evaluate, names, samples).find(recorded, thorough=thorough)
        if found is None or found.change.job in tried:
            break
        tried.add(found.change.job)
        scope.progress(f"trying {found.change.description}")
        try:
            proved, failed = _prove(scope, found, before, recorded)
        except TailraceError:
            break
        if proved is not None and (best is None or proved.explained > best.explained):
            best = proved
        known = {sample.end_us for sample in samples}
        more = [(end, equal) for end, equal in failed if end not in known]
        if not more:
            break
        samples += _sampled(scope, more)
    return best


def _samples(scope: Scope, compared: DataFrame, gaps: Sequence[OutputGap], recorded: set[str]) -> list[Sample]:
    """Window ends that differ, from first to last, and equal ones: their neighbours, and a few others."""
    bad = F.max(((F.col("status") != EQUAL) & ~(is_duplicate() | is_rounding())).cast("int"))
    ends = compared.groupBy("window_end").agg(bad.alias("bad"))
    rows = [
        (instant_in(row, "window_end"), row["bad"] == 1) for row in local_rows(ends.orderBy("window_end").limit(_ENDS))
    ]
    differing = [end for end, is_bad in rows if is_bad and not any(gap.first_us <= end <= gap.last_us for gap in gaps)]
    if not differing and recorded:
        differing = [end for end, is_bad in rows if is_bad]
    chosen = _spread(differing, SAMPLES)
    places = {end: index for index, (end, _) in enumerate(rows)}
    neighbours = [place for end in chosen for place in (places[end] - 1, places[end] + 1) if 0 <= place < len(rows)]
    equal = [end for end, is_bad in map(rows.__getitem__, neighbours) if not is_bad]
    equal += _spread([end for end, is_bad in rows if not is_bad], 4)
    return _sampled(scope, [*((end, False) for end in chosen), *((end, True) for end in dict.fromkeys(equal))])


def _sampled(scope: Scope, ends: Sequence[tuple[int, bool]]) -> list[Sample]:
    """Samples of these window ends and whether they are equal, with their live rows."""
    if not ends:
        return []
    wanted = scope.live.rows.filter(F.unix_micros("window_end").isin([end for end, _ in ends]))
    live: dict[int, list[Values]] = {}
    for row in local_rows(wanted.select(*scope.shape.keys, *scope.shape.values).distinct()):
        live.setdefault(instant_in(row, "window_end"), []).append(row)
    return [Sample(end, live.get(end, []), equal) for end, equal in ends]


def _prove(
    scope: Scope, found: Found, before: DataFrame, recorded: set[str]
) -> tuple[Policy | None, list[tuple[int, bool]]]:
    """Recompute the whole range under the change: it must explain differences and make none.

    Also some window ends at which it fails, and whether the live rows there are the replay's.
    """
    job = found.change.job
    compared = scope.persist(compare(_replayed(scope, job), scope.live.rows, scope.shape))
    left = compared.filter(F.col("status") != EQUAL)
    differing = before.filter(F.col("status") != EQUAL)
    # what neither side had before is no difference: inside an output gap the change may well give other rows
    broken = left.join(before.filter(F.col("status") == EQUAL).select("id"), "id", "left_semi")
    explained = differing.join(left.select("id"), "id", "left_anti").count()
    failed = [(end, True) for end in _ends_of(broken)]
    if failed or not explained:
        return None, failed
    gaps = output_gaps(compared)
    rest = scope.unexplained(left.join(differing.select("id"), "id", "left_semi"), gaps)
    cause = _cause(found, explained, by_record=job.fingerprint in recorded)
    return Policy(job, explained, left, gaps, rest, cause), [(end, False) for end in _ends_of(rest)]


def _replayed(scope: Scope, job: Job) -> DataFrame:
    """The windows of the range as a replay of ``job`` gives them, from the same versions of the logs."""
    plan = make_plan(job, scope.output, scope.lakehouse, as_of=scope.logs.versions(job))
    arrivals = read_arrivals(scope.spark, job, plan, scope.lakehouse)
    windows = engine.run(job, arrivals, scope.output, plan.initial_states, plan.sorting).windows
    return windows.select(*scope.shape.keys, *scope.shape.values)


def _cause(found: Found, explained: int, *, by_record: bool) -> Cause:
    details: dict[str, object] = {
        "settings": {key: {"job_file": before, "live_run": tried} for key, before, tried in found.change.settings},
        "rows_explained": explained,
        "recorded_by_the_live_run": by_record,
    }
    doubt = ""
    if found.between_us is not None:
        low, high = map(format_duration, found.between_us)
        doubt = f" (at the windows tried, {low} to {high} gives the same)"
        if low != high:
            details["values_that_do_as_well"] = {"from": low, "to": high}
    if found.others:
        details["also"] = [other.description for other in found.others[:8]]
    recorded = "; the live run's recorded fingerprint is that job's" if by_record else ""
    return Cause(
        "another_policy",
        f"The live run was under another policy: recomputed with {found.change.description}{doubt}, {explained}"
        f" differing row(s) are exactly what it wrote, and no row that agreed differs{recorded}.",
        details,
    )


def _ends_of(rows: DataFrame) -> list[int]:
    """A few of their window ends, from first to last."""
    ends = local_rows(rows.select("window_end").distinct().orderBy("window_end").limit(_ENDS))
    return _spread([instant_in(row, "window_end") for row in ends], 4)


def _spread(values: Sequence[int], number: int) -> list[int]:
    """``number`` of the values, evenly spread, ends included."""
    if len(values) <= number:
        return list(values)
    return [values[round(index * (len(values) - 1) / (number - 1))] for index in range(number)]
