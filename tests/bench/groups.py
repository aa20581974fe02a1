"""Which contenders are measured together: on one log, or along one cost curve."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import get_args

from pyspark.sql import SparkSession

from bench import contenders
from bench.contenders import Contender, Live, OneMachine, PlainToDelta, Replay, Site, ToNowhere, Tune
from bench.disorder import EVENTS_A_DAY, START_US, Disorder
from bench.logs import Log, departures, generated, with_own_results
from bench.on_one_machine import Engine
from bench.questions import DEPARTURES, MONITORING, ONE_WINDOW, ONE_WINDOW_SCRIPT, READINGS, Question
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import DAY, SECOND
from pipelines.plan.watermark_strategy import Strategy, WatermarkStrategy

LIVE_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a group: its label and its contenders, whose names begin with the label where there are several."""

    label: str
    contenders: tuple[Contender, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """What is measured in turns. ``axis`` names what varies between the points of a curve; a log has one point."""

    name: str
    title: str
    axis: str
    points: tuple[Point, ...]

    @property
    def contenders(self) -> tuple[Contender, ...]:
        return tuple(contender for point in self.points for contender in point.contenders)


class Stage:
    """Opens sites in the cache; each lasts as long as ``stack``."""

    def __init__(self, spark: SparkSession, jvm_pid: int, cache: Path, stack: ExitStack) -> None:
        self._spark, self._jvm_pid, self._cache, self._stack = spark, jvm_pid, cache, stack

    def generated(self, model: Disorder) -> Site:
        """A site on the log of ``model``."""
        return self._on(generated(model, self._cache))

    def departures(self) -> Site:
        """A site on the demo's log."""
        return self._on(departures(self._cache))

    def _on(self, log: Log) -> Site:
        return Site(self._spark, self._jvm_pid, log, self._stack.enter_context(with_own_results(log)))


def of_size(events: int) -> Disorder:
    """The stated model, at the stated rate."""
    return Disorder(events, days=events / EVENTS_A_DAY)


# -- logs ------------------------------------------------------------------------------------------------------------


def generated_log(stage: Stage, *, events: int, live_events: int, engines: Sequence[Engine]) -> Group:
    """All contenders on one generated log; the live run on a shorter one of the same model if this one is long."""
    site = stage.generated(of_size(events))
    live = site if live_events >= events else stage.generated(of_size(live_events))
    point = Point("", _all(site, live, READINGS, engines))
    return Group(f"{events}", f"{events:,} events, generated", "", (point,))


def real_log(stage: Stage, *, engines: Sequence[Engine]) -> Group:
    """All contenders on the demo's log."""
    site = stage.departures()
    point = Point("", _all(site, site, DEPARTURES, engines))
    title = f"{site.log.events:,} events: the departures of 2013 from New York"
    return Group("departures", title, "", (point,))


def _all(site: Site, live: Site, question: Question, engines: Sequence[Engine]) -> tuple[Contender, ...]:
    over = replace(question, over=question.substream)
    return (
        plain(site, question),
        textbook(site, question),
        tailrace(site, question),
        exceptions(site, question),
        ToNowhere("window_over", "the textbook job, each key a timeline", site, over, frames=contenders.textbook),
        each_key(site, question),
        PlainToDelta("plain_delta", "plain windowing, written to Delta", site, question, exact=False),
        Replay("replay", "tailrace replay: all of it, written to Delta", site, question, against="plain_delta"),
        Live("live", "tailrace stream, from the beginning", live, question, most_rounds=LIVE_ROUNDS),
        *(OneMachine(engine.name, TITLES[engine.name], site, question, engine=engine) for engine in engines),
    )


TITLES = {"duckdb": "the exact job in DuckDB", "polars": "the exact job in Polars"}


def plain(site: Site, question: Question) -> Contender:
    """What the others are divided by."""
    return ToNowhere("plain", "plain windowing in Spark", site, question, exact=False, frames=contenders.plain)


def textbook(site: Site, question: Question) -> Contender:
    return ToNowhere("window", "the textbook job: Spark's Window", site, question, frames=contenders.textbook)


def tailrace(site: Site, question: Question) -> ToNowhere:
    return ToNowhere("tailrace", "Tailrace, windows", site, question, frames=contenders.tailrace)


def exceptions(site: Site, question: Question) -> ToNowhere:
    title = "Tailrace, windows and the verdicts that are exceptions"
    return ToNowhere("exceptions", title, site, question, frames=contenders.tailrace_with_exceptions)


def each_key(site: Site, question: Question) -> ToNowhere:
    over = replace(question, over=question.substream)
    return ToNowhere("over", "Tailrace, each key a timeline", site, over, frames=contenders.tailrace)


# -- cost curves -----------------------------------------------------------------------------------------------------

CURVES = (
    *("log_length", "range", "lateness", "keys", "disorder", "skew", "aggregates", "strategies", "monitoring"),
    "settings",
)


def curve(name: str, stage: Stage, *, events: int) -> Group:
    """The cost curve ``name``, one of :data:`CURVES`, on logs of ``events`` events."""
    return {
        "log_length": _log_length,
        "range": _range,
        "lateness": _lateness,
        "keys": _keys,
        "disorder": _disorder,
        "skew": _skew,
        "aggregates": _aggregates,
        "strategies": _strategies,
        "monitoring": _monitoring,
        "settings": _settings,
    }[name](stage, events)


def _log_length(stage: Stage, events: int) -> Group:
    day = OutputRange(START_US + DAY, START_US + 2 * DAY)
    points = [(f"{days} days", [_replay(stage.generated(Disorder(events * days // 3, days)), day)]) for days in (3, 30)]
    return _curve("log_length", "One day's replay, from a log of so many days", "days in the log", points)


def _range(stage: Stage, events: int) -> Group:
    site = stage.generated(Disorder(events * 10, 30))
    week = OutputRange(START_US + 8 * DAY, START_US + 15 * DAY)
    ranges = {"1 day": OutputRange(week.from_us, START_US + 9 * DAY), "1 week": week, "30 days": EVERYTHING}
    points = [(label, [_replay(site, output)]) for label, output in ranges.items()]
    return _curve("range", "A replay of so much, from a log of 30 days", "output range", points)


def _lateness(stage: Stage, events: int) -> Group:
    site = stage.generated(of_size(events))
    points = []
    for seconds in (0, 5, 60):
        question = replace(READINGS, out_of_order_us=seconds * SECOND)
        points.append((f"{seconds} s", _three(site, question)))
    return _curve("lateness", "By the out-of-order tolerance", "out_of_order", points)


def _keys(stage: Stage, events: int) -> Group:
    points = []
    for keys in (10, 1_000, 100_000):
        site = stage.generated(replace(of_size(events), devices=keys, sites=keys))
        points.append((f"{keys:,}", [*_three(site, READINGS), each_key(site, READINGS)]))
    return _curve("keys", "By the number of keys", "keys", points)


def _disorder(stage: Stage, events: int) -> Group:
    model = of_size(events)
    points = []
    for factor in (0, 1, 10):
        shares = {name: getattr(model, name) * factor for name in model.shares}
        points.append((f"{factor} x", _three(stage.generated(replace(model, **shares)), READINGS)))
    return _curve("disorder", "By the share of events that are not regular", "shares, times the stated ones", points)


def _skew(stage: Stage, events: int) -> Group:
    points = []
    for skew in (0.0, 0.5):
        site = stage.generated(replace(of_size(events), skew=skew))
        points.append((f"{skew:.0%}", [*_three(site, READINGS), exceptions(site, READINGS), each_key(site, READINGS)]))
    return _curve("skew", "With so many events in one input partition and one key", "share of events", points)


def _aggregates(stage: Stage, events: int) -> Group:
    site = stage.generated(of_size(events))
    measured = {"count": None, "BIGINT": "octets", "DOUBLE": "reading"}
    points = [(label, _three(site, replace(READINGS, measured=name))) for label, name in measured.items()]
    return _curve("aggregates", "By what is aggregated: only counted, or summed and averaged", "type", points)


def _strategies(stage: Stage, events: int) -> Group:
    site = stage.generated(of_size(events))
    points = []
    for name in get_args(Strategy):
        strategy = WatermarkStrategy("packed" if name == "grid_cells" else name, name, "to be measured")
        alone = partial(contenders.tailrace, strategy=strategy)
        there = [
            plain(site, READINGS),
            ToNowhere("tailrace", "Tailrace, windows", site, READINGS, frames=alone),
        ]
        if name != "grid_cells":
            both = partial(contenders.tailrace_with_exceptions, strategy=strategy)
            there.append(ToNowhere("exceptions", "Tailrace, windows and exceptions", site, READINGS, frames=both))
        points.append((name, there))
    return _curve("strategies", "By the strategy that finds watermarks; a plan chooses among them", "strategy", points)


def _monitoring(stage: Stage, events: int) -> Group:
    site = stage.generated(of_size(events))
    questions = {
        "one window": (ONE_WINDOW, contenders.tailrace),
        "the same as a script": (ONE_WINDOW_SCRIPT, contenders.script),
        "all steps": (MONITORING, contenders.script),
    }
    points = [
        (
            label,
            [
                plain(site, question),
                ToNowhere("tailrace", "Tailrace", site, question, frames=frames),
                Replay("replay", "tailrace replay: all of it, written to Delta", site, question),
            ],
        )
        for label, (question, frames) in questions.items()
    ]
    return _curve("monitoring", "A monitoring job, by its steps", "query", points)


def _settings(stage: Stage, events: int) -> Group:
    """``× plain`` of ``tune`` is divided by the replay at the same point."""
    site = stage.generated(of_size(events))
    points = []
    for late, out_of_order in (("5m", "5s"), ("0s,5s,1m,5m,1h", "5s"), ("0s,5s,1m,5m,1h", "0s,5s,30s,2m")):
        lists = {"--late": late, "--out-of-order": out_of_order}
        count = (late.count(",") + 1) * (out_of_order.count(",") + 1)
        tuned = Tune("tune", "tailrace tune ¹", site, READINGS, against="replay", lists=lists)
        points.append((f"{count}", [_replay(site, EVERYTHING), tuned]))
    return _curve("settings", "So many settings compared; ¹ divided by one replay", "settings", points)


def _three(site: Site, question: Question) -> list[Contender]:
    return [plain(site, question), textbook(site, question), tailrace(site, question)]


def _replay(site: Site, output: OutputRange) -> Contender:
    return Replay("replay", "tailrace replay", site, READINGS, output=output)


def _curve(name: str, title: str, axis: str, points: Sequence[tuple[str, Sequence[Contender]]]) -> Group:
    named = [
        Point(
            label,
            tuple(replace(one, name=f"{label}/{one.name}", against=f"{label}/{one.against}") for one in there),
        )
        for label, there in points
    ]
    return Group(name, title, axis, tuple(named))
