"""Which changed settings explain the differences of a range: tried at a few window ends, proved over all of it."""

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
from pipelines.reconcile.causes.evidence import own_cause
from pipelines.reconcile.causes.gaps import Stop, stops_of
from pipelines.reconcile.causes.names import ANOTHER_POLICY, Cause
from pipelines.reconcile.causes.policy import Found, Probe, Search
from pipelines.reconcile.causes.scope import Scope
from pipelines.reconcile.compare import EQUAL, compare
from pipelines.replay.builder import make_plan
from pipelines.replay.read import read_arrivals

_ENDS = 20_000
_PROBES = 12
_ROUNDS = 4


@dataclass
class Policy:
    """A change of settings that was proved, and the comparison under it."""

    found: Found
    compared: DataFrame
    explained: int
    cause: Cause


def proved_policy(
    scope: Scope, before: DataFrame, stops: Sequence[Stop], recorded: set[str], *, thorough: bool
) -> Policy | None:
    """The change of settings that explains most, proved over the whole range; None where none explains any.

    What holds at the probes may fail elsewhere: then the windows at which it failed are probes of the next search.
    """
    probes = _probes(scope, before, stops, whole=bool(recorded))
    names = [*scope.shape.keys, *scope.shape.values]
    best: Policy | None = None
    tried: set[Job] = set()
    for _ in range(_ROUNDS):
        found = Search(scope.job, scope.logs, scope.evaluate, names, probes).find(recorded, thorough=thorough)
        if found is None or found.change.job in tried:
            break
        tried.add(found.change.job)
        scope.tell(f"trying {found.change.words}")
        try:
            proved, failed = _prove(scope, found, before, recorded)
        except TailraceError:
            break
        if proved is not None and (best is None or proved.explained > best.explained):
            best = proved
        known = {probe.end_us for probe in probes}
        more = [(end, equal) for end, equal in failed if end not in known]
        if not more:
            break
        live = _live_at(scope, [end for end, _ in more])
        probes += [Probe(end, live.get(end, []), equal) for end, equal in more]
    return best


def _probes(scope: Scope, compared: DataFrame, stops: Sequence[Stop], *, whole: bool) -> list[Probe]:
    bad = F.max(((F.col("status") != EQUAL) & own_cause().isNull()).cast("int"))
    ends = compared.groupBy("window_end").agg(bad.alias("bad"), F.max("copies").alias("live"))
    rows = [
        (int(str(row["window_end"])), row["bad"] == 1) for row in local_rows(ends.orderBy("window_end").limit(_ENDS))
    ]
    stopped = [(stop.first_us, stop.last_us) for stop in stops]
    differing = [end for end, is_bad in rows if is_bad and not any(a <= end <= b for a, b in stopped)]
    if not differing and whole:
        differing = [end for end, is_bad in rows if is_bad]
    chosen = _spread(differing, _PROBES)
    places = {end: index for index, (end, _) in enumerate(rows)}
    near = [rows[place + step] for end in chosen for step in (-1, 1) if 0 <= (place := places[end]) + step < len(rows)]
    equal = list(dict.fromkeys(end for end, is_bad in near if not is_bad))
    equal += [end for end in _spread([end for end, is_bad in rows if not is_bad], 4) if end not in equal]
    live = _live_at(scope, [*chosen, *equal])
    return [Probe(end, live.get(end, []), False) for end in chosen] + [
        Probe(end, live.get(end, []), True) for end in equal
    ]


def _live_at(scope: Scope, ends_us: Sequence[int]) -> dict[int, list[dict[str, object]]]:
    if not ends_us:
        return {}
    wanted = scope.live.rows.filter(F.unix_micros("window_end").isin(list(ends_us)))
    found: dict[int, list[dict[str, object]]] = {}
    for row in local_rows(wanted.select(*scope.shape.keys, *scope.shape.values).distinct()):
        end_us = row["window_end"]
        assert isinstance(end_us, int)
        found.setdefault(end_us, []).append(row)
    return found


def _prove(
    scope: Scope, found: Found, before: DataFrame, recorded: set[str]
) -> tuple[Policy | None, list[tuple[int, bool]]]:
    """Recompute the whole range under the change: it must explain differences and make none.

    Also some window ends at which it fails, and whether the live rows there are the replay's.
    """
    change = found.change
    plan = make_plan(change.job, scope.output, scope.lakehouse)
    arrivals = read_arrivals(scope.spark, change.job, plan, scope.lakehouse)
    windows = engine.run(change.job, arrivals, scope.output, plan.initial_states, plan.sorting).windows
    compared = scope.keep(compare(windows.select(*scope.shape.keys, *scope.shape.values), scope.live.rows, scope.shape))
    left = compared.filter(F.col("status") != EQUAL)
    differing = before.filter(F.col("status") != EQUAL)
    # what neither side had before is no difference: inside a stop the change may well give other rows
    made = left.join(before.filter(F.col("status") == EQUAL).select("id"), "id", "left_semi")
    explained = differing.join(left.select("id"), "id", "left_anti").count()
    failed = [(end, True) for end in _ends_of(made)]
    if failed or not explained:
        return None, failed
    by_record = change.job.fingerprint in recorded
    facts: dict[str, object] = {
        "settings": {key: {"job_file": before, "live_run": tried} for key, before, tried in change.settings},
        "rows_explained": explained,
        "recorded_by_the_live_run": by_record,
    }
    bounds = None if found.between_us is None else [format_duration(us) for us in found.between_us]
    others = [other.words for other in found.others[:8]]
    if bounds is not None and bounds[0] != bounds[1]:
        facts["values_that_do_as_well"] = {"from": bounds[0], "to": bounds[1]}
    if others:
        facts["also"] = others
    said = "; the live run's recorded fingerprint is that job's" if by_record else ""
    doubt = "" if bounds is None else f" (at the windows tried, {bounds[0]} to {bounds[1]} gives the same)"
    cause = Cause(
        ANOTHER_POLICY,
        f"The live run was under another policy: recomputed with {change.words}{doubt}, {explained} differing"
        f" row(s) are exactly what it wrote, and no row that agreed differs{said}.",
        facts,
    )
    apart = scope.standing_alone(left.join(differing.select("id"), "id", "left_semi"), stops_of(compared))
    return Policy(found, compared, explained, cause), [(end, False) for end in _ends_of(apart)]


def _ends_of(rows: DataFrame) -> list[int]:
    """A few of their window ends, from first to last."""
    ends = local_rows(rows.select("window_end").distinct().orderBy("window_end").limit(_ENDS))
    return _spread([int(str(row["window_end"])) for row in ends], 4)


def _spread(values: Sequence[int], number: int) -> list[int]:
    """``number`` of the values, evenly spread, ends included."""
    if len(values) <= number:
        return list(values)
    return [values[round(index * (len(values) - 1) / (number - 1))] for index in range(number)]
