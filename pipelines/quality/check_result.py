"""The result that every check gives: did it pass, how many rows failed, and which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from pipelines.core.model import AnyOf, Job, Session

SAMPLE_ROWS = 20
"""How many failed rows a result names; it counts them all."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over one range.

    ``blocking``: if it fails, nothing built on the table should go on. ``failed_rows`` counts every row that fails,
    once however many rules it breaks; ``sample`` contains the first :data:`SAMPLE_ROWS` of them as JSON-ready data:
    their key columns, ``problem``, and where one column is at fault its ``column`` and ``value``. ``description`` is
    in sentences: what was checked, or what is wrong. ``counts`` are further numbers by name.
    """

    name: str
    passed: bool
    blocking: bool
    failed_rows: int
    sample: tuple[Mapping[str, object], ...]
    description: str
    counts: Mapping[str, int] = field(default_factory=dict)

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data, without the counts."""
        return {name: value for name, value in asdict(self).items() if name != "counts"}


def keys_are_unique(job: Job) -> bool:
    """Whether two results never share start, end, id and group keys.

    Sessions may, where a column of ``partition_by`` is no group key.
    """
    window = job.window_query.window
    members = [member for _, member in window.members] if isinstance(window, AnyOf) else [window]
    keys = {name.lower() for name in job.window_query.group_by}
    sessions = [member for member in members if isinstance(member, Session)]
    return all({name.lower() for name in member.partition_by} <= keys for member in sessions)
