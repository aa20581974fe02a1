"""Links to reports: URLs if the lakehouse's reports are served, else paths."""

import os
from pathlib import Path
from urllib.parse import quote

import dagster as dg

from assets.keys import report_key
from pipelines.lakehouse.root import Lakehouse

REPORTS_VARIABLE = "TAILRACE_REPORTS_URL"
"""Environment variable: the address under which the lakehouse's folder ``reports`` is served; ``make ui`` sets it."""
_FOLDER = "reports"


def page_of_report(job_name: str, partition: str) -> dg.MetadataValue:
    """The page of Dagster's UI that shows the newest report of a day, if there is one."""
    return dg.MetadataValue.url(f"/assets/{'/'.join(report_key(job_name).path)}?view=partitions&partition={partition}")


def address(lakehouse: Lakehouse, place: str) -> dg.MetadataValue:
    """A document of the lakehouse at ``place``, as a link where it is served, else as the path or URI it is."""
    base = os.environ.get(REPORTS_VARIABLE)
    root = str(lakehouse.folder) if lakehouse.is_local else lakehouse.root
    name = place.removeprefix(f"{root}/{_FOLDER}/")
    if base and name != place:
        return dg.MetadataValue.url(f"{base.rstrip('/')}/{quote(name)}")
    return dg.MetadataValue.url(place) if "://" in place else dg.MetadataValue.path(Path(place))
