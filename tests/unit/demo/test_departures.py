"""The real arrival log of the demo, against facts counted from the package's own table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pipelines.demo.departures import INPUT_PARTITIONS, arrival_log, flights

if TYPE_CHECKING:
    import pandas as pd


@pytest.fixture(scope="module")
def log() -> pd.DataFrame:
    return arrival_log(flights())


def test_flights_that_never_left_are_not_in_the_log(log: pd.DataFrame) -> None:
    table = flights()
    assert len(table) == 336_776
    assert len(log) == len(table) - int(table["dep_delay"].isna().sum()) == 328_521


def test_each_airport_is_an_input_partition(log: pd.DataFrame) -> None:
    assert (log["origin"].map(INPUT_PARTITIONS) == log["input_partition"]).all()


def test_sequences_count_from_zero_without_gaps_and_arrivals_never_fall(log: pd.DataFrame) -> None:
    for _, part in log.groupby("input_partition"):
        assert part["sequence"].tolist() == list(range(len(part)))
        assert part["arrival_time"].is_monotonic_increasing


def test_ties_are_in_the_order_of_carrier_then_flight(log: pd.DataFrame) -> None:
    previous = log.shift(1)
    tied = (log["arrival_time"] == previous["arrival_time"]) & (log["input_partition"] == previous["input_partition"])
    assert tied.sum() > 1000
    same_carrier = tied & (log["carrier"] == previous["carrier"])
    assert (log["carrier"] >= previous["carrier"])[tied].all()
    assert (log["flight"] >= previous["flight"])[same_carrier].all()


def test_arrival_minus_schedule_is_the_delay(log: pd.DataFrame) -> None:
    delay = (log["arrival_time"] - log["scheduled"]).dt.total_seconds() / 60
    assert (delay == log["delay_minutes"]).all()
    first = log.iloc[0]
    assert (first["carrier"], first["flight"], str(first["arrival_time"])) == ("UA", 1545, "2013-01-01 10:17:00+00:00")
