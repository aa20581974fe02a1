"""Logs in the cache, and places to run contenders on them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from deltalake import CommitProperties

from bench.disorder import Disorder, as_table, chunks
from bench.questions import DEPARTURES, MONITORING, READINGS, SITES
from pipelines.ingest.batch import ingest
from pipelines.ingest.references import ingest_reference
from pipelines.ingest.sorted_runs import SortedRuns
from pipelines.lakehouse.append import append
from pipelines.lakehouse.layout import arrivals_table
from pipelines.lakehouse.root import Lakehouse
from pipelines.lakehouse.schema import arrivals_schema

DEPARTURES_LOG = "departures"
INPUTS = ("arrivals", "references")


@dataclass(frozen=True, slots=True)
class Log:
    """An arrival log that lies in the cache, of table ``arrivals/<input>`` in ``lakehouse``."""

    lakehouse: Lakehouse
    input: str
    events: int

    @property
    def uri(self) -> str:
        """Where its table lies."""
        return self.lakehouse.uri(arrivals_table(self.input))

    def files(self) -> list[str]:
        """The paths of its data files."""
        table = self.lakehouse.open(arrivals_table(self.input))
        assert table is not None, self.uri
        return [uri.removeprefix("file://") for uri in table.file_uris()]


def generated(model: Disorder, cache: Path) -> Log:
    """The log of ``model``, written unless it is there already, in the layout that ingest gives one batch."""
    folder = cache / model.name
    log = Log(Lakehouse.at(folder), READINGS.input, model.events)
    done = folder / "model.json"
    if done.exists():
        return log
    shutil.rmtree(folder, ignore_errors=True)
    log.lakehouse.require_writable()
    schema = arrivals_schema(READINGS.job().input(READINGS.input))
    with tempfile.TemporaryDirectory() as spilled:
        rows = SortedRuns(schema, Path(spilled))
        for chunk in chunks(model):
            rows.add(as_table(chunk, schema))
        about = CommitProperties(custom_metadata={"tailrace": "ingest", "batch_id": "bench"})
        append(log.lakehouse, arrivals_table(READINGS.input), None, schema, rows.days(), about)
    _write_sites(model.sites, log.lakehouse)
    done.write_text(json.dumps(asdict(model), indent=2) + "\n")
    return log


def _write_sites(sites: int, lakehouse: Lakehouse) -> None:
    """The reference data of a generated log: each site may have means that rise by so much."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [f"{site},site {site},{1 + site % 10 / 10}" for site in range(sites)]
        (file := Path(folder) / "sites.csv").write_text("\n".join([",".join(SITES), *rows]) + "\n")
        ingest_reference(MONITORING.job(), "sites", [file], lakehouse)


def departures(cache: Path) -> Log:
    """The demo's year of departures, ingested as the demo does."""
    from pipelines.demo.departures import write_arrival_log

    lakehouse = Lakehouse.at(cache / DEPARTURES_LOG)
    with tempfile.TemporaryDirectory(prefix="tailrace-bench-") as folder:
        ingest(DEPARTURES.job(), DEPARTURES.input, [write_arrival_log(Path(folder))], lakehouse, batch="bench")
    table = lakehouse.open(arrivals_table(DEPARTURES.input))
    assert table is not None, lakehouse.root
    return Log(lakehouse, DEPARTURES.input, table.to_pyarrow_dataset().count_rows())


@contextmanager
def with_own_results(log: Log) -> Iterator[Lakehouse]:
    """A lakehouse to write results into, which has the tables :data:`INPUTS` of the log too."""
    with tempfile.TemporaryDirectory(prefix="results-", dir=log.lakehouse.folder.parent) as folder:
        for name in INPUTS:
            if (log.lakehouse.folder / name).exists():
                # their files never change, so that names of their own are enough
                shutil.copytree(log.lakehouse.folder / name, Path(folder) / name, copy_function=os.link)
        yield Lakehouse.at(folder)
