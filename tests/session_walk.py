"""Sessions of stream_analytics found by a walk through time, as the product's page writes their end condition."""

from __future__ import annotations

from collections.abc import Iterable


def walked(times: Iterable[int], timeout: int, longest: int) -> list[tuple[int, int, int]]:
    """Start, end and number of events of each session of one chain, with check points at multiples of ``longest``.

    At each instant events come first. Then a check point closes a session that has been open for ``longest`` and opens
    the next. Then the timeout closes what had no event for ``timeout``.
    """
    waiting = sorted(times)
    found = []
    opened: int | None = None
    inside: list[int] = []
    last = 0
    for now in range(waiting[0], waiting[-1] + timeout + longest + 1):
        while waiting and waiting[0] == now:
            opened = now if opened is None else opened
            last = now
            inside.append(waiting.pop(0))
        if opened is None:
            continue
        checked = now % longest == 0 and now - opened >= longest
        timed_out = now - last == timeout
        if (checked or timed_out) and inside:
            found.append((inside[0], now, len(inside)))
            inside = []
        if checked:
            opened = now
        if timed_out:
            opened = None
    return found
