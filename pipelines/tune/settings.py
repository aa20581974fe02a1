"""The settings that are compared: the cross product of the lists that were given, each as a job of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pipelines.core.errors import UsageError
from pipelines.core.model import (
    AtlasOrdering,
    Job,
    Ordering,
    Profile,
    StreamAnalyticsOrdering,
    StreamInsightOrdering,
)
from pipelines.core.time import format_duration
from pipelines.job.orderings import parse_setting

FLAGS: dict[Profile, dict[str, str]] = {
    "stream_analytics": {
        "--late": "late_arrival",
        "--out-of-order": "out_of_order",
        "--early": "early_arrival",
    },
    "atlas": {"--allowed-lateness": "allowed_lateness"},
    "stream_insight": {"--delay": "delay"},
}
"""Of each profile, the key of the job file that each flag gives values for."""
_NONE = {"late_arrival": "unbounded", "early_arrival": "off"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: the job under it, and its values as in a job file, by key.

    Where inputs differ in a value, it is a mapping of inputs to values. ``is_own``: the job file's own setting.
    """

    job: Job
    values: Mapping[str, str | Mapping[str, str]]
    is_own: bool

    @property
    def wait_us(self) -> int | None:
        """How long results wait at most, by the policies of the inputs that the query reads; None: without a bound.

        The greatest distance of the watermark from the clock: late_arrival + out_of_order; allowed_lateness; delay.
        """
        waits = [_wait_us(self.job, name) for name in self.job.sources]
        return None if None in waits else max(wait for wait in waits if wait is not None)


def settings_of(job: Job, lists: Mapping[str, str]) -> tuple[Setting, ...]:
    """The cross product of ``lists``, which are durations between commas by flag; other values are the job's own.

    Raises :class:`UsageError` that names the flag where it is not one of the profile's, changes nothing in this job, or
    has a value that a job file could not have.
    """
    known = FLAGS[job.profile]
    for flag in lists:
        if flag not in known:
            takes = ", ".join(known)
            raise UsageError(f"profile {job.profile} has no such setting", key=flag, hint=f"it has {takes}")
        _require_effect(job, flag)
    choices = [[(known[flag], value) for value in _values(job, flag, text)] for flag, text in lists.items()]
    jobs = dict.fromkeys(_changed(job, dict(chosen)) for chosen in product(*choices))
    return tuple(Setting(one, _shown(one), one.orderings == job.orderings) for one in jobs)


def _values(job: Job, flag: str, text: str) -> list[int | None]:
    key = FLAGS[job.profile][flag]
    try:
        return [parse_setting(job.profile, key, part.strip()) for part in text.split(",")]
    except ValueError as error:
        raise UsageError(str(error), key=flag) from None


def _require_effect(job: Job, flag: str) -> None:
    policies = [job.ordering(one.name) for one in job.inputs]
    match job.profile:
        case "stream_analytics" if all(one.timestamp_by is None for one in job.inputs):
            why = "without timestamp_by events count when they arrive, and no tolerance applies"
        case "atlas" if any(isinstance(one, AtlasOrdering) and one.boundary != "event_time" for one in policies):
            why = "with boundary: processing_time nothing is late"
        case "stream_insight" if not any(_issues_ctis(one) for one in policies):
            why = "no input issues CTIs of its own, which a delay acts on"
        case _:
            return
    raise UsageError(f"has no effect in job {job.name}: {why}", key=flag)


def _issues_ctis(policy: Ordering) -> bool:
    return isinstance(policy, StreamInsightOrdering) and (policy.every_events or policy.every_us) is not None


def _changed(job: Job, values_us: Mapping[str, int | None]) -> Job:
    """``job`` with these settings, each on all inputs that it acts on."""
    changes: dict[str, Any] = {f"{key}_us": value for key, value in values_us.items()}
    orderings = tuple(
        (name, replace(policy, **changes) if _applies(job, name, policy) else policy) for name, policy in job.orderings
    )
    return replace(job, orderings=orderings)


def _applies(job: Job, name: str, policy: Ordering) -> bool:
    if isinstance(policy, StreamAnalyticsOrdering):
        return job.input(name).timestamp_by is not None
    return not isinstance(policy, StreamInsightOrdering) or _issues_ctis(policy)


def _shown(job: Job) -> dict[str, str | Mapping[str, str]]:
    found: dict[str, str | Mapping[str, str]] = {}
    for key in FLAGS[job.profile].values():
        by_input = {
            name: _text(key, getattr(policy, f"{key}_us"))
            for name, policy in job.orderings
            if _applies(job, name, policy)
        }
        if by_input:
            values = set(by_input.values())
            found[key] = values.pop() if len(values) == 1 else by_input
    return found


def _text(key: str, value_us: int | None) -> str:
    return _NONE[key] if value_us is None else format_duration(value_us)


def _wait_us(job: Job, name: str) -> int | None:
    match job.ordering(name):
        case StreamAnalyticsOrdering() if job.input(name).timestamp_by is None:
            return 0
        case StreamAnalyticsOrdering(late_arrival_us=late_us, out_of_order_us=order_us):
            return None if late_us is None else late_us + order_us
        case AtlasOrdering(allowed_lateness_us=lateness_us, boundary=boundary):
            return lateness_us if boundary == "event_time" else 0
        case StreamInsightOrdering(delay_us=delay_us):
            return delay_us
    raise AssertionError(name)
