"""Commits that others may come in between of: tried again on the table as it is then."""

from __future__ import annotations

from collections.abc import Callable

from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError

from pipelines.core.errors import EnvironmentUnfit
from pipelines.lakehouse.root import Lakehouse


def committed(lakehouse: Lakehouse, name: str, write: Callable[[DeltaTable | None], None], attempts: int) -> bool:
    """Call ``write`` with the table at its newest version, None where there is none, until its commit stands.

    False if others committed first in each of so many attempts. Raises :class:`EnvironmentUnfit` if the table cannot
    be written at all.
    """
    for _ in range(attempts):
        table = lakehouse.open(name)
        try:
            write(table)
        except CommitFailedError:
            continue
        except DeltaError as error:
            if table is None and lakehouse.open(name) is not None:
                continue
            first_line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise EnvironmentUnfit(f"the table {name} cannot be written: {first_line}") from error
        return True
    return False


def commit(lakehouse: Lakehouse, name: str, write: Callable[[DeltaTable | None], None], attempts: int) -> None:
    """As :func:`committed`; :class:`EnvironmentUnfit` also if others always committed first."""
    if not committed(lakehouse, name, write, attempts):
        raise EnvironmentUnfit(f"the table {name} was changed by others {attempts} times in a row", hint="run again")
