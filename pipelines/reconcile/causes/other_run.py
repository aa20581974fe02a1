"""Why two runs of a job gave different results: what they read, and the parts of the job file, by the run ledger.

A replay's results depend on nothing else, so where one thing differs, it is the cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.core.intervals import inside
from pipelines.core.model import OutputRange
from pipelines.core.time import from_datetime
from pipelines.lakehouse.log_changes import changes_since
from pipelines.lakehouse.owned_ranges import OwnedRange
from pipelines.lakehouse.root import Lakehouse
from pipelines.reconcile.causes.cause import UNEXPLAINED, Cause

NOT_REPLAYED = Cause("not_replayed", "No replay in the ledger wrote this part of one of the two results.")


def causes_by_range(
    lakehouse: Lakehouse, ours: Sequence[OwnedRange], theirs: Sequence[OwnedRange]
) -> Iterator[tuple[OutputRange, Cause]]:
    """Ranges in which the same two runs meet, with what can make their results differ there."""
    for mine in ours:
        for other in theirs:
            parts = [part for one in other.parts for part in inside(mine.parts, one)]
            cause = _cause(lakehouse, mine.run, other.run) if parts else NOT_REPLAYED
            yield from ((part, cause) for part in parts)


def _cause(lakehouse: Lakehouse, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Cause:
    found = dict([*_of_job(ours, theirs), *_of_inputs(lakehouse, ours, theirs)])
    runs = {"runs": [ours["run_id"], theirs["run_id"]]}
    if not found:
        same = "Both runs read the same with the same job file: something else has changed a table."
        return Cause(UNEXPLAINED, same, runs)
    return Cause("+".join(found), " ".join(found.values()), runs)


def _of_job(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if ours["job_fingerprint"] == theirs["job_fingerprint"]:
        return
    now, then = dict(ours["job_parts"] or {}), dict(theirs["job_parts"] or {})
    if not now or not then:
        yield "job_file", "The job file is another one."
        return
    if now["policy"] != then["policy"]:
        yield "policy", "The ordering policy of the job file is another one."
    if now["query"] != then["query"]:
        yield "query", "The query or the inputs of the job file are others."


def _of_inputs(lakehouse: Lakehouse, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    now, then = dict(ours["versions_read"] or {}), dict(theirs["versions_read"] or {})
    for table in sorted(name for name in now.keys() & then.keys() if now[name] != then[name]):
        if table.startswith("references/"):
            yield "reference_data", f"{table} was read at versions {then[table]} and {now[table]}."
        if not table.startswith("arrivals/"):
            continue
        log = lakehouse.open(table, max(now[table], then[table]))
        assert log is not None, f"{table} was read"
        since_us = min(from_datetime(run["started_at"]) for run in (ours, theirs))
        from_us, to_us = _end(ours, theirs, "read_from", min), _end(ours, theirs, "read_to", max)
        changes = changes_since(log, min(now[table], then[table]), since_us)
        touching = [one for one in changes if one.touches(from_us, to_us)]
        if touching:
            what = "; ".join(dict.fromkeys(one.what for one in touching))
            kind = "log_correction" if any(one.removes for one in touching) else "late_arrivals"
            yield kind, f"Arrivals of {table} were {what}."


def _end(ours: Mapping[str, Any], theirs: Mapping[str, Any], name: str, choose: Any) -> int | None:
    """The outer end of both read ranges; None: open."""
    ends = [ours[name], theirs[name]]
    return None if None in ends else from_datetime(choose(ends))
