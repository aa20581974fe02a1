"""The lakehouse as a Dagster resource."""

import os

import dagster as dg

from pipelines.lakehouse.root import Lakehouse

LAKEHOUSE_VARIABLE = "TAILRACE_LAKEHOUSE"
"""Environment variable that names the folder or URI of all tables; left out: ``./lakehouse``."""


def lakehouse_root() -> str:
    """The root of all tables, as the environment names it: an absolute folder or a URI."""
    return Lakehouse.at(os.environ.get(LAKEHOUSE_VARIABLE) or "./lakehouse").root


class LakehouseResource(dg.ConfigurableResource["LakehouseResource"]):
    """Where the tables are."""

    root: str

    @property
    def lakehouse(self) -> Lakehouse:
        """The lakehouse that the tables are opened in."""
        return Lakehouse.at(self.root)
