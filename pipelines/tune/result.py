"""The figures of each setting, the settings on the efficient frontier, and the sentence about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from pipelines.core.model import REASONS, Job, OutputRange
from pipelines.core.time import format_duration
from pipelines.plan.definition import instant_or_none
from pipelines.tune.differences import Differences
from pipelines.tune.settings import Setting


@dataclass(frozen=True, slots=True)
class Decisions:
    """The events of the output range under one setting; ``moved_sum_us`` and ``moved_max_us``: of those adjusted, how
    far their system timestamps are from their own times."""

    counts_by_verdict: Mapping[str, int] = field(default_factory=dict)
    counts_by_reason: Mapping[str, int] = field(default_factory=dict)
    moved_sum_us: int = 0
    moved_max_us: int = 0

    @property
    def events(self) -> int:
        """All of them."""
        return sum(self.counts_by_verdict.values())


@dataclass(frozen=True, slots=True)
class Figures:
    """All that is known of one setting; ``on_frontier``: no other has fewer windows that differ at no longer wait."""

    setting: Setting
    decisions: Decisions
    differences: Differences
    on_frontier: bool = False

    @property
    def share(self) -> float:
        """The windows that differ, as a share of the windows of the complete truth."""
        true = self.differences.windows - self.differences.extra
        return self.differences.differ / true if true else 0.0

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        decisions, found = self.decisions, self.differences
        return {
            **self.setting.values,
            "own": self.setting.is_own,
            "events": decisions.events,
            "counts_by_verdict": dict(decisions.counts_by_verdict),
            "counts_by_reason": dict(decisions.counts_by_reason),
            "moved_us": {"sum": decisions.moved_sum_us, "max": decisions.moved_max_us},
            "windows": found.windows,
            "windows_that_differ": found.differ,
            "windows_missing": found.missing,
            "windows_extra": found.extra,
            "values": {name: {"windows": v.windows, "sum": v.sum, "max": v.max} for name, v in found.values},
            "wait_us": self.setting.wait_us,
            "on_frontier": self.on_frontier,
        }


Method = Literal["at_once", "one_after_another"]
"""Whether one computation served all settings, or each had its own over the same arrivals."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The figures of all settings of a job over an output range."""

    job: Job
    output: OutputRange
    settings: tuple[Figures, ...]
    method: Method = "at_once"

    @property
    def frontier(self) -> list[Figures]:
        """The settings on the efficient frontier, the shortest wait first."""
        return sorted((one for one in self.settings if one.on_frontier), key=_wait)

    @property
    def sentence(self) -> str:
        """The best setting of the frontier against the job's own, or against the one that waits least."""
        frontier = self.frontier
        best = frontier[-1]
        own = next((one for one in self.settings if one.setting.is_own), frontier[0])
        if own.differences.differ == best.differences.differ and own.on_frontier:
            values = ", ".join(f"{key} {value_of(own, key)}" for key in self.varied)
            return f"{values}: {percent(own.share)} of windows differ from the complete truth; none has fewer"
        values = ", ".join(
            f"{value_of(best, key)} instead of {value_of(own, key)}" + (f" ({key})" if len(self.varied) > 1 else "")
            for key in self.varied
            if value_of(best, key) != value_of(own, key)
        )
        return f"{values}: {percent(best.share)} instead of {percent(own.share)} of windows differ, {_waits(own, best)}"

    @property
    def varied(self) -> list[str]:
        """The keys in which settings differ."""
        keys = self.settings[0].setting.values
        found = [key for key in keys if len({value_of(one, key) for one in self.settings}) > 1]
        return found or list(keys)

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "job": self.job.name,
            "from": instant_or_none(self.output.from_us),
            "to": instant_or_none(self.output.to_us),
            "method": self.method,
            "settings": [one.as_dict() for one in self.settings],
            "sentence": self.sentence,
        }


def decisions_of(groups: Iterable[tuple[tuple[str, Sequence[str]], int, int, int]]) -> Decisions:
    """From groups of events: verdict and reasons, how many, the sum and the greatest of how far they were moved."""
    verdicts, reasons = Counter[str](), Counter[str]()
    total_us = greatest_us = 0
    for (verdict, why), events, moved_us, moved_max_us in groups:
        verdicts[verdict] += events
        reasons.update(dict.fromkeys(why, events))
        total_us, greatest_us = total_us + moved_us, max(greatest_us, moved_max_us)
    by_reason = {name: reasons[name] for name in REASONS if reasons[name]}
    return Decisions({name: verdicts[name] for name in sorted(verdicts)}, by_reason, total_us, greatest_us)


def with_frontier(figures: Sequence[Figures]) -> tuple[Figures, ...]:
    """Marks the settings that no other beats: in windows that differ or in wait, and in neither is worse."""

    def is_beaten(one: Figures) -> bool:
        mine = (one.differences.differ, _wait(one))
        others = ((other.differences.differ, _wait(other)) for other in figures)
        return any(other != mine and other[0] <= mine[0] and other[1] <= mine[1] for other in others)

    return tuple(Figures(one.setting, one.decisions, one.differences, not is_beaten(one)) for one in figures)


def percent(share: float) -> str:
    """``3.1 %``; more digits for less."""
    return f"{share * 100:.{0 if share in (0, 1) else 1 if share >= 0.01 else 2}f} %"


def wait_text(one: Figures) -> str:
    """The wait as a duration."""
    return "without bound" if one.setting.wait_us is None else format_duration(one.setting.wait_us)


def _wait(one: Figures) -> float:
    return inf if one.setting.wait_us is None else one.setting.wait_us


def _waits(own: Figures, best: Figures) -> str:
    before_us, now_us = own.setting.wait_us, best.setting.wait_us
    if before_us == now_us:
        return "results wait as long"
    if before_us is None or now_us is None:
        return f"results wait {wait_text(best)} instead of {wait_text(own)}"
    return f"results wait {format_duration(abs(now_us - before_us))} {'longer' if now_us > before_us else 'less'}"


def value_of(one: Figures, key: str) -> str:
    """A value of a setting; where inputs differ in it, theirs in order."""
    value = one.setting.values[key]
    return value if isinstance(value, str) else "/".join(value.values())


def described(one: Figures, keys: Sequence[str]) -> str:
    """A setting in a line: its values of ``keys``, the windows that differ, the wait."""
    values = ", ".join(f"{key} {value_of(one, key)}" for key in keys)
    return f"{values}: {percent(one.share)} of windows differ, results wait {wait_text(one)}"


COLUMNS = ("accepted", "adjusted", "dropped", "moved at most", "windows that differ", "share", "wait", "frontier")
"""What :func:`row_of` shows after the values of a setting; ``partial`` events are in ``adjusted``."""


def row_of(one: Figures, keys: Sequence[str]) -> list[str]:
    """The cells of a setting's row in a table."""
    counts = one.decisions.counts_by_verdict
    return [
        *(value_of(one, key) for key in keys),
        f"{counts.get('accepted', 0):,}",
        f"{counts.get('adjusted', 0) + counts.get('partial', 0):,}",
        f"{counts.get('dropped', 0):,}",
        format_duration(one.decisions.moved_max_us),
        f"{one.differences.differ:,}",
        percent(one.share),
        wait_text(one),
        "*" if one.on_frontier else "",
    ]
