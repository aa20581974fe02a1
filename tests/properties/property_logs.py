"""Random jobs and logs whose times crowd around the bounds of the job's own rules; all from one seed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from pipelines.core.model import Arrival, Job, OutputRange
from pipelines.core.time import SECOND, parse_duration, parse_instant
from pipelines.job.load import build_job
from pipelines.job.yaml import Document

COLUMNS = "at TIMESTAMP, ends TIMESTAMP, edge STRING, k STRING, v INT, d DOUBLE"
BEGINNINGS_US = tuple(map(parse_instant, ("2026-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:30Z")))
SIZES = ("1s", "5s", "7s", "10s", "1m")
DOUBLES = (0.1, 0.2, 0.3, 1e16, -1e16, 1.0, -0.0, 0.0, None)
AGGREGATES = {
    "total": "sum({p}d)",
    "mean": "avg({p}d)",
    "spread": "stddev_samp({p}d)",
    "median": "percentile_cont({p}d, 0.5)",
    "picked": "percentile_disc({p}d, 0.9)",
    "whole": "sum({p}v)",
    "least": "min({p}v)",
    "greatest": "max({p}d)",
    "kinds": "count(distinct {p}v)",
    "values": "count({p}v)",
    "earliest": "first({p}v)",
    "latest": "last({p}v)",
    "all_values": "collect({p}v)",
}
ROUNDED = frozenset({"mean", "spread"})
"""Aggregates that may differ between engines by rounding alone."""


@dataclass(frozen=True)
class Example:
    """A job, a log and a range, and the seed that gives them again."""

    seed: int
    text: dict[str, Any]
    job: Job
    log: tuple[Arrival, ...]
    output: OutputRange

    def __repr__(self) -> str:
        rows = "\n".join(f"  {arrival}" for arrival in self.log)
        return f"seed {self.seed}\njob {self.text}\nrange {self.output}\n{rows}"


def example(seed: int, profile: str, *, plain: bool = False) -> Example:
    """The example of that seed; ``plain``: expressions are columns alone, so that nothing but Python is needed."""
    chance = Random(seed)
    text = _job(chance, profile, plain)
    job = build_job(Document(text))
    log = _log(chance, job, text)
    return Example(seed, text, job, log, _range(chance, log))


def without(one: Example, dropped: range) -> Example:
    """The example without the rows at those places of its log."""
    return replace(one, log=tuple(row for index, row in enumerate(one.log) if index not in dropped))


# -- jobs -------------------------------------------------------------------------------------------------------------


def _job(chance: Random, profile: str, plain: bool) -> dict[str, Any]:
    pick = chance.choice
    names = ["a"] if profile == "atlas" or chance.random() < 0.75 else ["a", "b"]
    joined = len(names) == 2 and profile == "stream_analytics" and chance.random() < 0.6
    shape = pick(["point", "interval", "edge"]) if profile == "stream_insight" else "point"
    inputs: dict[str, Any] = {name: {"columns": COLUMNS, "timestamp_by": "at"} for name in names}
    for part in inputs.values():
        if profile == "stream_analytics" and chance.random() < 0.3:
            part["over"] = ["k"]
        if shape != "point":
            part.update(shape=shape, end_by="ends")
        if shape == "edge":
            part.update(edge_by="edge", match_on=["k"])
        if chance.random() < 0.3:
            part["partitions"] = pick([2, 3])
        if profile == "stream_analytics" and "over" not in part and chance.random() < 0.1:
            del part["timestamp_by"]
    prefix = "a." if joined else ""
    query: dict[str, Any] = {"union": names} if len(names) == 2 else {"from": "a"}
    if joined:
        first = chance.randint(-3, 2)
        within = {"unit": pick(["second", "minute"]), "from": first, "to": first + chance.randint(0, 3)}
        kind = pick(["inner", "left"])
        query = {"join": {"left": "a", "right": "b", "on": pick([[], ["k"]]), "within": within, "kind": kind}}
    if not plain and chance.random() < 0.15:
        query["where"] = f"{prefix}v > 0"
    query["group_by"] = [prefix + key for key in pick([[], [], ["k"], ["k", "v"]])]
    query["window"] = _window(chance, profile, prefix)
    chosen = chance.sample(sorted(AGGREGATES), 3)
    query["aggregates"] = {"n": "count(*)"}
    for name in chosen:
        query["aggregates"][name] = AGGREGATES[name].format(p=prefix)
    orderings = {name: _ordering(chance, profile, name, names) for name in names}
    return {
        "tailrace": 1,
        "job": "random",
        "profile": profile,
        "inputs": inputs,
        "ordering": orderings if len(names) == 2 else orderings["a"],
        "query": query,
        "end_of_log": pick(["flush", "flush", "hold"]),
    }


def _ordering(chance: Random, profile: str, name: str, names: list[str]) -> dict[str, Any]:
    pick = chance.choice
    if profile == "stream_analytics":
        return {
            "early_arrival": pick(["off", "0s", "3s", "5s", "5m"]),
            "late_arrival": pick(["unbounded", "0s", "1s", "5s", "10s", "1m"]),
            "out_of_order": pick(["0s", "0s", "1s", "2s", "7s"]),
            "action": pick(["adjust", "drop"]),
        }
    if profile == "atlas":
        by_event_time = {"allowed_lateness": pick(["0s", "0s", "1s", "3s", "7s"])}
        return pick([by_event_time] * 5 + [{"boundary": "processing_time"}])
    ordering: dict[str, Any] = {"action": pick(["adjust", "drop"]), "delay": pick(["0s", "-1us", "1s", "5s"])}
    if name == "b" and chance.random() < 0.5:
        ordering["import_from"] = names[0]
    if "import_from" not in ordering or chance.random() < 0.5:
        ordering["advance"] = {"every": pick([1, 1, 2, 3, 5, "1s", "4s"])}
    return ordering


def _window(chance: Random, profile: str, prefix: str) -> dict[str, Any]:
    pick = chance.choice
    kinds = {
        "stream_analytics": ["tumbling", "tumbling", "hopping", "sliding", "session", "snapshot", "any_of"],
        "atlas": ["tumbling", "hopping", "hopping", "session"],
        "stream_insight": ["tumbling", "hopping", "snapshot", "count"],
    }[profile]
    kind = pick(kinds)
    match kind:
        case "tumbling":
            return {kind: {"size": pick(SIZES), "offset": pick(["0s", "0s", "1s", "-1us", "3s"])}}
        case "hopping":
            return {kind: {"size": pick(["5s", "7s", "10s"]), "hop": pick(["2s", "3s", "5s", "12s"])}}
        case "sliding":
            return {kind: {"size": pick(SIZES)}}
        case "session":
            keys = pick([[], [f"{prefix}k"]])
            if profile == "atlas":
                return {kind: {"gap": pick(["1s", "3s", "5s"]), "partition_by": keys}}
            return {kind: _session(chance, keys)}
        case "count":
            return {kind: {"n": chance.randint(1, 4)}}
        case "any_of":
            two = pick([{"hopping": {"size": "7s", "hop": "2s"}}, {"session": _session(chance, [])}])
            return {kind: {"one": {"tumbling": {"size": "5s"}}, "two": two}}
    return {kind: {}}


def _session(chance: Random, keys: list[str]) -> dict[str, Any]:
    """The timeout may be longer than a segment between check points."""
    timeout, longest = chance.choice(["1s", "3s", "5s", "12s"]), chance.choice(["2s", "5s", "10s"])
    return {"timeout": timeout, "max_duration": longest, "partition_by": keys}


# -- logs -------------------------------------------------------------------------------------------------------------


def _durations_us(value: Any) -> list[int]:
    """Every duration that stands anywhere in the job's text."""
    if isinstance(value, dict):
        return [us for item in value.values() for us in _durations_us(item)]
    if isinstance(value, str):
        try:
            return [abs(parse_duration(value))]
        except ValueError:
            return []
    return []


def _log(chance: Random, job: Job, text: dict[str, Any]) -> tuple[Arrival, ...]:
    bounds = sorted({0, SECOND, *_durations_us(text["ordering"]), *_durations_us(text["query"]["window"])})
    clock_us = chance.choice(BEGINNINGS_US)
    partitions = chance.randint(1, 3)
    sequences: Counter[tuple[str, int | None]] = Counter()
    rows: list[Arrival] = []
    for _ in range(chance.choice([3, 8, 20, 40])):
        clock_us += chance.choice([0, 0, 0, 1, SECOND // 2, SECOND, SECOND, 3 * SECOND, *chance.sample(bounds, 1)])
        part = chance.choice(job.inputs)
        partition: int | None = chance.randrange(part.partitions or partitions)
        at_us = _near(chance, clock_us, bounds)
        punctuation_us = None
        payload: dict[str, object] = {}
        if job.profile != "stream_analytics" and chance.random() < 0.08:
            partition = None if chance.random() < 0.4 else partition
            punctuation_us = at_us
            payload = dict.fromkeys(column.name for column in part.columns)
        else:
            payload = _payload(chance, job, part.name, at_us, bounds, rows)
        rows.append(
            Arrival(part.name, partition, sequences[part.name, partition], clock_us, payload, punctuation_us, None)
        )
        sequences[part.name, partition] += 1
    return tuple(rows)


def _near(chance: Random, clock_us: int, bounds: list[int]) -> int:
    """A time at, or a microsecond from, one of the job's bounds from the clock, or on a round second."""
    near_us = clock_us + chance.choice([-1, -1, -1, 1]) * chance.choice(bounds) + chance.choice([0, 0, -1, 1])
    if chance.random() < 0.4:
        near_us = near_us // SECOND * SECOND + chance.choice([0, 0, 1, -1])
    return near_us


def _payload(
    chance: Random, job: Job, name: str, at_us: int, bounds: list[int], rows: list[Arrival]
) -> dict[str, object]:
    payload: dict[str, object] = {
        "at": None if chance.random() < 0.04 else at_us,
        "ends": at_us + chance.choice([0, 1, SECOND, 5 * SECOND, *bounds]) - chance.choice([0, 0, 0, 1]),
        "edge": "start",
        "k": chance.choice(["x", "x", "y", None]),
        "v": chance.choice([-1, 0, 1, 2, None]),
        "d": chance.choice(DOUBLES),
    }
    starts = [row for row in rows if row.input == name and row.punctuation_us is None]
    if job.input(name).shape == "edge" and starts and chance.random() < 0.45:
        # an end edge of a start that came before, most often
        start = chance.choice(starts[-6:]).payload
        payload |= {"at": start["at"], "k": start["k"], "edge": chance.choice(["end"] * 9 + ["middle"])}
        if isinstance(start["at"], int) and chance.random() < 0.3:
            payload["ends"] = start["at"] + chance.choice([0, 1, 3 * SECOND])
    return payload


def _range(chance: Random, log: tuple[Arrival, ...]) -> OutputRange:
    if chance.random() < 0.4:
        return OutputRange()
    first, last = log[0].arrival_time_us, log[-1].arrival_time_us
    bounds = sorted(chance.randint(first // SECOND - 5, last // SECOND + 10) * SECOND for _ in range(2))
    from_us, to_us = bounds[0], max(bounds[1], bounds[0] + SECOND)
    return OutputRange(chance.choice([None, from_us, from_us]), chance.choice([None, to_us, to_us]))
