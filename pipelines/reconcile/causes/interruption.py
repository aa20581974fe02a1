"""Did the live run stop or begin inside the window, at the edge of a stop or of all that it wrote?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipelines.core.time import format_instant
from pipelines.recompute.reads import reach_us
from pipelines.reconcile.causes.gaps import Stop, stop_facts
from pipelines.reconcile.causes.names import STOPPED, Cause
from pipelines.reconcile.causes.rebuilt_window import Bench, Difference, Values, Workbench
from pipelines.reconcile.causes.subsets import counted
from pipelines.reference.events import place_of


@dataclass(frozen=True)
class Interruptions:
    """``stops`` of the live run, and the first and the last window end at which it has rows."""

    work: Workbench
    stops: Sequence[Stop]
    first_end_us: int | None
    last_end_us: int | None

    def near_stop(self, one: Difference) -> bool:
        """Whether a stop may have cut the window."""
        return any(self._at_edge(one, stop) for stop in self.stops)

    def edge_of_stop(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """The run had the window's events up to the stop only, or those from its end on."""
        if wanted is None:
            return None
        for stop in self.stops:
            if self._at_edge(one, stop):
                found = self._partly(one, bench, wanted, before=one.end_us < stop.first_us)
                if found is not None:
                    return Cause(STOPPED, found.says, {**found.facts, **stop_facts(stop)})
        return None

    def edge_of_log(self, one: Difference, bench: Bench, wanted: Values | None) -> Cause | None:
        """The run began or ended inside its first or its last window."""
        if wanted is None:
            return None
        if one.end_us == self.last_end_us and (found := self._partly(one, bench, wanted, before=True)):
            return found
        if one.end_us == self.first_end_us:
            return self._partly(one, bench, wanted, before=False)
        return None

    def _at_edge(self, one: Difference, stop: Stop) -> bool:
        if stop.window_id != one.key["window_id"]:
            return False
        reach = reach_us(self.work.job.query.window)
        before = stop.first_us - reach <= one.end_us < stop.first_us or one.end_us == stop.before_us
        after = stop.last_us < one.end_us <= stop.last_us + reach or one.end_us == stop.after_us
        return before or after

    def _partly(self, one: Difference, bench: Bench, wanted: Values, *, before: bool) -> Cause | None:
        """The live run had only the arrivals up to some instant (``before``), or only those from some instant on."""
        order = sorted(bench.members, key=place_of)
        for index in range(1, len(order)):
            border = place_of(order[index])
            kept = [arrival for arrival in bench.arrivals if (place_of(arrival) < border) == before]
            number = counted(self.work.job, wanted)
            if number is not None and number != (index if before else len(order) - index):
                continue
            if self.work.gives(one, kept, wanted):
                at = format_instant(order[index].arrival_time_us)
                which = f"before {at}" if before else f"from {at} on"
                facts = {"counted_arrivals": which, "counted": index if before else len(order) - index}
                facts["of"] = len(order)
                what = "stopped" if before else "began"
                return Cause(
                    STOPPED,
                    f"The live run {what} inside this window: recomputed from the arrivals {which} alone, the window is"
                    f" exactly what it wrote ({facts['counted']} of {len(order)} events).",
                    facts,
                )
        return None
