"""The sentences of a report: the verdict over the range, the first difference, and commands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipelines.core.intervals import format_ends
from pipelines.core.model import OutputRange
from pipelines.core.time import format_duration, format_instant
from pipelines.plan.read_range import ReadRange
from pipelines.report.compare import Pair
from pipelines.report.report_data import ReportData

State = Literal["good", "bad", "open"]

CAUSES = {
    "another_policy": "The live run followed another policy than that of the job file.",
    "stream_stopped_or_restarted": "The live run had stopped or restarted here: a range of its output is missing.",
    "idle_close_not_recorded": "The live run closed the window while the input was idle, and the log does not show it.",
    "late_arrivals_after_output": "Events came into the log after the live run had emitted the window.",
    "duplicate_emission": "The live run emitted the same window more than once.",
    "lost_events": "The live run counted without events that are in the log.",
    "floating_point_only": "The values differ in the last bits of doubles alone.",
    "event_counted_twice": "The live run counted an event of the log more than once.",
    "replay_out_of_date": "The replay is older than the log or the job file: replaying again gives other values.",
    "row_missing_in_stream": "The live run's row was deleted or never delivered, though its neighbours are there.",
    "unexplained": "No single cause that was tried explains the difference.",
}

_STATUS = {
    "different": "both have the window, with different values",
    "missing_in_replay": "the live run has the window, the replay has not",
    "missing_in_stream": "the replay has the window, the live run has not",
    "duplicated_in_stream": "the live run has the window more than once",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict in one sentence; ``open``: there is nothing to compare with yet."""

    state: State
    sentence: str


def verdict(report: ReportData) -> Verdict:
    """The verdict over the range in one sentence."""
    windows, failed = report.windows, report.failed
    total = len(windows.pairs)
    state: State
    if not windows.has_windows:
        return Verdict("bad" if failed else "open", f"No replay has written windows yet{_but(failed)}.")
    if report.gaps:
        missing = " and ".join(span(gap) for gap in report.gaps)
        return Verdict(
            "bad" if failed else "open", f"Not all was replayed: no replay has written {missing}{_but(failed)}."
        )
    if not windows.has_stream:
        state = "bad" if failed else "open"
        text = f"{_n(total, 'window')} from {_n(report.events, 'event')}, with no live run to compare them with"
        return Verdict(state, f"{text}{_but(failed)}.")
    if windows.different:
        first = format_instant(windows.different[0].end_us)
        count = len(windows.different)
        verb = "differs" if count == 1 else "differ"
        return Verdict("bad", f"{count:,} of {_n(total, 'window')} {verb} from the live run, the first ending {first}.")
    text = f"All {_n(total, 'window')} are what the live run gave" if total else "No window ends in this range"
    return Verdict("bad" if failed else "good", f"{text}{_but(failed)}.")


def _but(failed: list[Any]) -> str:
    if not failed:
        return ""
    names = ", ".join(check.name for check in failed)
    return f", but {'a check' if len(failed) == 1 else f'{len(failed)} checks'} failed: {names}"


def first_divergence(report: ReportData) -> list[str]:
    """The first window that differs, in sentences; empty if none does."""
    if not report.windows.different:
        return []
    first = report.windows.different[0]
    before = next(place for place, pair in enumerate(report.windows.pairs) if pair is first)
    sentences = [
        f"The first window that differs {window_text(first)}: {_STATUS[first.status]}."
        + (f" The {_n(before, 'window')} before it in this range agree." if before else "")
    ]
    sentences += list(_values(first))
    if first.cause is not None:
        sentences.append(CAUSES.get(first.cause, f"The cause that was found: {first.cause}."))
    elif report.windows.reconciled:
        sentences.append("The reconciliation does not know this difference: it is older than the tables.")
    else:
        sentences.append("Why is not known yet: nothing was reconciled.")
    return sentences + evidence_sentences(first.evidence)


def window_text(pair: Pair) -> str:
    """``ends 2013-07-08T14:00:00Z (origin JFK, carrier B6)``"""
    keys = [f"{name} {shown(value)}" for name, value in pair.key.items() if name not in ("window_start", "window_end")]
    keys = [text for text, (name, value) in zip(keys, _keys(pair), strict=True) if name != "window_id" or value]
    return f"ends {format_instant(pair.end_us)}" + (f" ({', '.join(keys)})" if keys else "")


def _keys(pair: Pair) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in pair.key.items() if name not in ("window_start", "window_end")]


def _values(pair: Pair) -> Iterator[str]:
    if pair.replay is None or pair.stream is None:
        there = pair.replay or pair.stream or {}
        yield f"Its values: {', '.join(f'{name} {shown(value)}' for name, value in there.items())}."
        return
    for name, ours in pair.replay.items():
        theirs = pair.stream.get(name)
        if ours != theirs:
            yield f"{name}: the replay gives {shown(ours)}, the live run {shown(theirs)}."


def evidence_sentences(evidence: str | None) -> list[str]:
    """The evidence of a reconciliation: its sentence ``says``, then each other entry by its name."""
    if not evidence:
        return []
    try:
        data = json.loads(evidence)
    except ValueError:
        return [evidence]
    if not isinstance(data, dict):
        return [shown(data)]
    says = [str(data.pop("says"))] if "says" in data else []
    return says + [f"{name.replace('_', ' ')}: {_listed(value)}" for name, value in data.items()]


def _listed(value: Any) -> str:
    """One entry of the evidence: the items of a list, the fields of an object, each as :func:`shown`."""
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} {shown(one)}" for name, one in value.items())
    return shown(value)


def shown(value: Any) -> str:
    """A value as text."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def span(output: OutputRange | ReadRange) -> str:
    """``[2013-01-01T00:00:00Z, the end)``; a read range includes both its ends."""
    return f"[{format_ends(output.from_us, output.to_us)}{']' if isinstance(output, ReadRange) else ')'}"


def range_text(output: OutputRange) -> str:
    """``from 2013-01-01T00:00:00Z up to the end of the log``"""
    begin = "the beginning of the log" if output.from_us is None else format_instant(output.from_us)
    end = "the end of the log" if output.to_us is None else format_instant(output.to_us)
    return f"from {begin} up to {end}"


def reproduce_command(report: ReportData, run: Mapping[str, Any]) -> str:
    """The command that computes the windows of ``run`` again: its range, and the versions that it read."""
    output = _range_options(run["output_from"], run["output_to"])
    versions = dict(run["versions_read"] or {})
    several = len(versions) > 1
    as_of = [
        f"--as-of {name.rpartition('/')[2]}={version}" if several else f"--as-of {version}"
        for name, version in sorted(versions.items())
    ]
    return " ".join(["tailrace replay", shlex.quote(report.job.name), *output, *as_of, _place(report)])


def reconcile_command(report: ReportData) -> str:
    """The command that finds the causes."""
    return " ".join(
        ["tailrace reconcile", shlex.quote(report.job.name), *_output_options(report.output), _place(report)]
    )


def why_command(report: ReportData, pair: Pair) -> str:
    """The command that explains the result of a window."""
    keys = [f"--key {shlex.quote(f'{name}={shown(value)}')}" for name, value in _keys(pair) if value is not None]
    end = format_instant(pair.end_us)
    return " ".join(["tailrace why", shlex.quote(report.job.name), f"--window-end {end}", *keys, _place(report)])


def _output_options(output: OutputRange) -> list[str]:
    ends = (("--from", output.from_us), ("--to", output.to_us))
    return [f"{name} {format_instant(instant_us)}" for name, instant_us in ends if instant_us is not None]


def _range_options(from_: Any, to: Any) -> list[str]:
    from pipelines.core.time import from_datetime

    ends = (("--from", from_), ("--to", to))
    return [f"{name} {format_instant(from_datetime(moment))}" for name, moment in ends if moment is not None]


def _place(report: ReportData) -> str:
    return f"--lakehouse {shlex.quote(report.lakehouse)}"


def _n(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def duration_text(duration_us: int) -> str:
    """A lag as text: ``2m``, ``-30s``; from a minute on without fractions of a second."""
    if abs(duration_us) >= 60_000_000:
        duration_us = duration_us // 1_000_000 * 1_000_000
    return format_duration(duration_us)
