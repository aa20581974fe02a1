"""The boundary between a profile's ordering policy and everything after it (G1).

Policies act once, at the input. What they give is all that the query sees: rows that count, each with its system
timestamp, and for each input a bound on what may still come.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Mapping
from typing import NamedTuple, Protocol

import pyarrow as pa

from pipelines.core.model import SimpleWindow
from pipelines.live.state.arrivals import Partitions
from pipelines.live.state.compiled_job import CompiledJob
from pipelines.live.state.messages import Commit
from pipelines.live.state.output import WindowResult
from pipelines.live.state.rows import FOREVER, Counted
from pipelines.live.windows.buffers import WindowBuffer


class Decided(NamedTuple):
    """What a policy has decided: verdicts (a table of :data:`~pipelines.live.state.output.VERDICTS`), and by input the
    rows that count, without those that ``where`` removes (G2)."""

    verdicts: pa.Table
    counted: Mapping[str, Counted]


class OrderingPolicy(Protocol):
    """A profile's ordering policy and its state: which events count, at which time, and what may still come."""

    compiled: CompiledJob
    partitions: Partitions

    @abstractmethod
    def decide(self, commit: Commit) -> Decided:
        """Decide what can be decided now that ``commit`` has come; :class:`LogOutOfOrder` where it came too late."""

    @abstractmethod
    def decide_rest(self) -> Decided:
        """Decide what still waits, as if nothing more would come. The policy cannot go on after it."""

    @abstractmethod
    def bound(self, name: str) -> int:
        """No further row of an input counts before this instant (microseconds); ``NEVER`` where nothing is known."""

    @abstractmethod
    def buffer(self, window_id: str | None, window: SimpleWindow) -> WindowBuffer:
        """An empty buffer that forms windows by the profile's rules."""

    def emits(self, _: WindowResult) -> bool:
        """May a window be emitted as soon as it is final? Under ``end_of_log: hold`` it may have to wait."""
        return True

    def emits_at_end(self, result: WindowResult) -> bool:
        """Is a window emitted if the log ends here, under ``end_of_log: hold`` (A12, I17)?"""
        return self.settled(result.end_us, {})

    # -- steps under ``end_of_log: hold`` -----------------------------------------------------------------------------

    def released(self) -> int:
        """Whatever comes, a window of steps that ends before this instant (microseconds) is emitted if the log ends."""
        return FOREVER

    def settled(self, end_us: int, _: Mapping[str, Hashable]) -> bool:
        """Is a window of steps emitted if the log ends here? With its group: the keys that are columns, in lower
        case."""
        return all(end_us < self.bound(name) for name in self.compiled.sources)
