"""Bins of time and bands of lag: what holds an instant, and that no band is half inside a policy."""

from __future__ import annotations

import pytest

from pipelines.core.time import DAY, HOUR, MINUTE, SECOND, parse_instant
from pipelines.report.axes import Bands, all_bands, bins_over, compact

T = parse_instant


def band_of(bands: Bands, lag_us: int) -> int:
    return sum(edge_us < lag_us for edge_us in bands.lags_us)


def test_a_year_is_cut_into_bins_of_days_that_begin_at_midnight() -> None:
    bins = bins_over(T("2013-01-01T10:54:00Z"), T("2014-01-01T05:26:00Z"))
    assert (bins.width_us, bins.count) == (4 * DAY, 92)
    assert bins.first_us % DAY == 0
    assert bins.index(T("2013-01-01T10:54:00Z")) == 0
    assert bins.index(T("2014-01-01T05:26:00Z")) == bins.count - 1


def test_a_single_instant_has_one_bin() -> None:
    bins = bins_over(T("2026-01-01T00:00:00.5Z"), T("2026-01-01T00:00:00.5Z"))
    assert (bins.first_us, bins.width_us, bins.count) == (T("2026-01-01T00:00:00Z"), SECOND, 1)


def test_instants_on_a_boundary_belong_to_the_bin_that_begins_there() -> None:
    bins = bins_over(T("2026-01-01T00:00:00Z"), T("2026-01-01T01:00:00Z"))
    assert bins.index(bins.start_us(3)) == 3
    assert bins.index(bins.start_us(3) - 1) == 2


def test_all_of_history_still_fits_the_bins() -> None:
    bins = bins_over(T("0001-01-01T00:00:00Z"), T("9999-12-31T00:00:00Z"))
    assert bins.count <= 100


@pytest.mark.parametrize("late_us", [20 * MINUTE, 7 * SECOND, 21 * DAY])
def test_an_event_at_exactly_the_late_tolerance_is_in_the_band_below_it(late_us: int) -> None:
    bands = all_bands(None, late_us)
    assert band_of(bands, late_us) + 1 == band_of(bands, late_us + 1)


@pytest.mark.parametrize("early_us", [5 * MINUTE, 7 * SECOND])
def test_an_event_exactly_as_early_as_the_guard_allows_is_in_the_band_above_it(early_us: int) -> None:
    bands = all_bands(early_us, None)
    assert band_of(bands, -early_us) == band_of(bands, -early_us - 1) + 1


def test_a_band_is_named_by_what_it_holds() -> None:
    bands = all_bands(5 * MINUTE, 20 * MINUTE)
    assert bands.name(band_of(bands, 90 * SECOND)) == "1m to 2m after"
    assert bands.name(band_of(bands, 2 * MINUTE)) == "1m to 2m after"
    assert bands.name(band_of(bands, 0)) == "0 to 1s before"
    assert bands.name(band_of(bands, -90 * SECOND)) == "1m to 2m before"
    assert bands.name(band_of(bands, 400 * DAY)) == "more than 365d after"
    assert bands.name(band_of(bands, -400 * DAY)) == "more than 365d before"


def test_empty_bands_are_joined_outwards_and_no_event_changes_its_side_of_an_edge() -> None:
    bands = all_bands(5 * MINUTE, 20 * MINUTE)
    counts = [0] * bands.count
    for lag_us in (90 * SECOND, 90 * SECOND, 3 * HOUR, -45 * SECOND):
        counts[band_of(bands, lag_us)] += 1
    fewer, moved = compact(bands, counts, [20 * MINUTE, -5 * MINUTE - 1])
    assert [edge.label for edge in fewer.edges] == ["-5m", "-1m", "0", "2m", "20m", "4h"]
    totals = [0] * fewer.count
    for band, count in enumerate(counts):
        totals[moved[band]] += count
    assert totals == [0, 0, 1, 2, 0, 1, 0]
    for lag_us in (90 * SECOND, 3 * HOUR, -45 * SECOND):
        assert moved[band_of(bands, lag_us)] == band_of(fewer, lag_us)


def test_what_lies_furthest_out_keeps_its_bound() -> None:
    bands = all_bands(None, None)
    counts = [0] * bands.count
    counts[band_of(bands, 5 * HOUR)] = 1
    fewer, moved = compact(bands, counts, [])
    assert fewer.name(moved[band_of(bands, 5 * HOUR)]) == "0 to 8h after"
