"""Judge every contender's answer, then time them in turns; ratios come from times of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from bench import on_spark
from bench.compare import TOLERANCE, Difference, compare
from bench.contenders import Contender, Exceptions, tailrace, within
from bench.meters import ProcessCost, SparkCost, SparkMeter
from bench.questions import Question

Tell = Callable[[str], None]

EQUAL, INEXACT, NOT_EQUAL, FAILED = "equal", "inexact by design", "not equal", "failed"


@dataclass(frozen=True, slots=True)
class Sample:
    """One timed run, in ``round``; ``spark`` is None for contenders without it."""

    round: int
    seconds: float
    processes: ProcessCost | None
    spark: SparkCost | None


@dataclass
class Row:
    """What is known of one contender on one log. ``status`` is EQUAL .. FAILED; ``note`` says more."""

    name: str
    title: str
    against: str
    events: int
    status: str = EQUAL
    note: str = ""
    samples: list[Sample] = field(default_factory=list)

    @property
    def counts(self) -> bool:
        """Whether its times may be shown."""
        return self.status in (EQUAL, INEXACT) and bool(self.samples)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Median and ends of what a contender took for one event, divided by what another did, round by round."""

    median: float
    least: float
    most: float


class Expected:
    """What an exact contender must answer: Tailrace's windows, and the textbook job's count of verdicts."""

    def __init__(self) -> None:
        self._windows: dict[tuple[str, Question], pa.Table] = {}
        self._exceptions: dict[tuple[str, Question], Exceptions] = {}

    def windows(self, contender: Contender) -> pa.Table:
        """Every window of the contender's question and output range; of a script's as a job file asks for them."""
        site, question = contender.site, replace(contender.question, script="")
        key = (site.log.uri, question)
        if key not in self._windows:
            self._windows[key] = site.collected(tailrace(site, question).windows, question)
        return within(self._windows[key], contender.output)

    def exceptions(self, contender: Contender) -> Exceptions:
        """Events that were not simply accepted, by their reasons."""
        key = (contender.site.log.uri, contender.question)
        if key not in self._exceptions:
            found = on_spark.textbook_exceptions(contender.site.arrivals(), contender.question)
            self._exceptions[key] = found
        return self._exceptions[key]


def judge(contenders: Sequence[Contender], expected: Expected, tell: Tell) -> dict[str, Row]:
    """A row for each contender, by name; ``expected`` gives the answer that an exact one must give.

    A contender that fails is told as failed, so that one of them does not cost the others' figures.
    """
    rows = {}
    for contender in contenders:
        tell(f"checking {contender.name}")
        row = rows[contender.name] = Row(contender.name, contender.title, contender.against, contender.site.log.events)
        try:
            row.status, row.note = _judged(contender, expected)
        except Exception as failure:
            row.status, row.note = FAILED, _first_line(failure)
    return rows


def _judged(contender: Contender, expected: Expected) -> tuple[str, str]:
    given = contender.answer()
    found = compare(expected.windows(contender), given.windows, contender.question)
    told = f"{found.differing:,} of {found.rows:,} windows differ"
    if not contender.exact:
        return INEXACT, told
    if found.differing:
        return NOT_EQUAL, told
    if given.exceptions is not None and given.exceptions != (wanted := expected.exceptions(contender)):
        return NOT_EQUAL, f"verdicts differ: {dict(given.exceptions)}, not {dict(wanted)}"
    return EQUAL, _precision(found)


def _precision(found: Difference) -> str:
    return "bit by bit" if found.widest == 0 else f"doubles within {TOLERANCE:g}"


def measure(
    contenders: Sequence[Contender], rows: dict[str, Row], rounds: int, meter: SparkMeter, tell: Tell, warm_up: int = 0
) -> None:
    """Time the contenders whose answers were right, in turns, into ``rows``; the first ``warm_up`` rounds are not kept.

    Each round begins with another contender, and each is run once right before it is timed: what the JVM compiled for
    another one's rows it compiles anew, and that would be charged to the first of those that share code.
    """
    for number in range(-warm_up, rounds):
        turn = number % max(1, len(contenders))
        for contender in [*contenders[turn:], *contenders[:turn]]:
            row = rows[contender.name]
            if row.status not in (EQUAL, INEXACT) or number >= contender.most_rounds:
                continue
            tell(f"round {number + 1} of {rounds}: {contender.name}" if number >= 0 else f"warming {contender.name}")
            try:
                if contender.uses_spark:
                    contender.seconds()
                sample = _sample(contender, number, meter)
            except Exception as failure:
                row.status, row.note = FAILED, _first_line(failure)
                continue
            if number >= 0:
                row.samples.append(sample)


def _sample(contender: Contender, number: int, meter: SparkMeter) -> Sample:
    processes = contender.processes()
    if contender.uses_spark:
        # nothing that an earlier run kept may help this one
        contender.site.spark.catalog.clearCache()
        meter.begin()
    processes.begin()
    seconds = contender.seconds()
    cost = processes.end()
    return Sample(number, seconds, cost, meter.end() if contender.uses_spark else None)


def seconds(sample: Sample) -> float | None:
    """Time, for :func:`ratio`."""
    return sample.seconds


def cpu_seconds(sample: Sample) -> float | None:
    """Processor time, for :func:`ratio`."""
    return None if sample.processes is None else sample.processes.cpu_seconds


def ratio(row: Row, base: Row, cost: Callable[[Sample], float | None] = seconds, *, by_event: bool) -> Ratio | None:
    """Row by base over the rounds that both ran in, as they are or for each event; None where either has no time."""
    of_base = {sample.round: cost(sample) for sample in base.samples}
    quotients = []
    for sample in row.samples:
        ours, theirs = cost(sample), of_base.get(sample.round)
        if ours is not None and theirs:
            quotients.append(ours / theirs * (base.events / row.events if by_event else 1))
    if not quotients or not (row.counts and base.counts):
        return None
    return Ratio(statistics.median(quotients), min(quotients), max(quotients))


def _first_line(failure: Exception) -> str:
    return (str(failure).strip().splitlines() or [type(failure).__name__])[0]
