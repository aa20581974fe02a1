"""What every check answers: did it pass, how many rows failed, and which."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.core.model import AnyOf, Job, Session

SAMPLE = 20
"""How many failed rows a result names; it counts them all."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check over one range.

    ``blocking``: if it fails, nothing built on the table should go on. ``failed_rows`` counts every row that fails,
    once however many rules it breaks; ``sample`` holds the first :data:`SAMPLE` of them as JSON-ready data: their key
    columns, ``problem``, and where one column is at fault its ``column`` and ``value``. ``description`` says in
    sentences what was checked or what is wrong.
    """

    name: str
    passed: bool
    blocking: bool
    failed_rows: int
    sample: tuple[Mapping[str, object], ...]
    description: str

    def as_dict(self) -> dict[str, object]:
        """JSON-ready data."""
        return {
            "name": self.name,
            "passed": self.passed,
            "blocking": self.blocking,
            "failed_rows": self.failed_rows,
            "sample": [dict(row) for row in self.sample],
            "description": self.description,
        }


def blocked_by(results: tuple[CheckResult, ...] | list[CheckResult]) -> list[CheckResult]:
    """The blocking checks that failed: empty means go on."""
    return [result for result in results if result.blocking and not result.passed]


def keys_are_unique(job: Job) -> bool:
    """Whether two results never share start, end, id and group keys.

    Sessions of several chains may, where what parts the chains is no group key.
    """
    window = job.window_query.window
    members = [member for _, member in window.members] if isinstance(window, AnyOf) else [window]
    keys = {name.lower() for name in job.window_query.group_by}
    sessions = [member for member in members if isinstance(member, Session)]
    return all({name.lower() for name in member.partition_by} <= keys for member in sessions)
