"""Sessions of stream_analytics that are given step by step, while rows that no later one needs are forgotten."""

from __future__ import annotations

from random import Random

from session_walk import walked

from pipelines.core.model import Session
from pipelines.live.state.rows import FOREVER, NEVER, Row
from pipelines.live.windows.end_aligned import end_aligned, kept

TIMEOUT, LONGEST = 5, 10
WINDOW = Session(TIMEOUT, LONGEST, (), 0)


def rows_at(*times: int) -> list[Row]:
    return [Row(time, (number,), (), None) for number, time in enumerate(times)]


def kept_at(high: int, *times: int) -> list[int]:
    return [row.start for row in kept(WINDOW, rows_at(*times), high)]


def test_sessions_given_step_by_step_are_those_of_all_rows() -> None:
    for seed in range(2000):
        chance = Random(seed)
        timeout, longest = chance.randint(1, 12), chance.randint(1, 8)
        window = Session(timeout, longest, (), 0)
        times = [chance.randint(0, 9)]
        for _ in range(chance.randint(0, 25)):
            times.append(times[-1] + chance.choice([0, 1, timeout, timeout, timeout + 1, chance.randint(0, 12)]))
        waiting, known, found, low = rows_at(*times), list[Row](), [], NEVER
        while low != FOREVER:
            high = chance.choice([max(low, 0) + chance.randint(1, 15), times[-1] + 1]) if waiting else FOREVER
            # a row may come before its time is final, and none comes after
            ready = [row for row in waiting if row.start < high or chance.random() < 0.1]
            waiting = [row for row in waiting if row not in ready]
            known += ready
            found += end_aligned(window, known, low, high)
            known, low = kept(window, known, high), high
        assert [(start, end, len(inside)) for start, end, inside in found] == walked(times, timeout, longest), seed


def test_a_run_that_no_later_row_can_continue_is_forgotten() -> None:
    assert kept_at(17, 3, 7, 12) == [3, 7, 12]
    assert kept_at(18, 3, 7, 12) == []


def test_a_run_that_goes_on_is_kept_for_two_segments_and_a_timeout() -> None:
    assert kept_at(60, *range(3, 60, 4)) == list(range(39, 60, 4))
    assert kept_at(61, *range(4, 60, 4)) == list(range(40, 60, 4))
    assert kept_at(59, *range(34, 60, 4)) == list(range(38, 60, 4))
