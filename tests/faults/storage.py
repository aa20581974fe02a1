"""Storage that refuses in the middle of a command: a full disk, a table that is read-only, permission that is lost.

Afterwards, and after the same command with the storage as it was, the tables are what :mod:`kills` asks for.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from kills import Kills

Refusal = Callable[[Path, Random], list[str]]
_COMMANDS = ("ingest", "replay", "stream", "reconcile", "promote")


def full_disk(lakehouse: Path, chance: Random) -> list[str]:
    """A command that leaves so little room on the disk (a tmpfs) that a commit or a data file does not fit."""
    disk = os.statvfs(lakehouse)
    used = (disk.f_blocks - disk.f_bfree) * disk.f_frsize
    size = used + chance.choice([0, 1, 2, 4, 8]) * disk.f_frsize
    return ["mount", "-o", f"remount,size={size}", str(lakehouse)]


def read_only_table(lakehouse: Path, chance: Random) -> list[str]:
    """One that takes the permission to commit to one table, or to the ledger."""
    logs = sorted(lakehouse.glob("**/_delta_log"))
    return _immutable(chance.choice(logs))


def lost_permission(lakehouse: Path, _: Random) -> list[str]:
    """One that takes it for every folder."""
    return _immutable(*(folder for folder, *_ in os.walk(lakehouse)))


def _immutable(*folders: Path | str) -> list[str]:
    # root may write whatever its modes are
    change = ["chattr", "+i"] if os.geteuid() == 0 else ["chmod", "a-w"]
    return [*change, *map(str, folders)]


def _undone(lakehouse: Path) -> None:
    if os.path.ismount(lakehouse):
        subprocess.run(["mount", "-o", "remount,size=1g", lakehouse], check=True)
    else:
        change = ["chattr", "-i"] if os.geteuid() == 0 else ["chmod", "u+w"]
        subprocess.run([*change, *(folder for folder, *_ in os.walk(lakehouse))], check=True)


REFUSALS: dict[str, Refusal] = {
    **({"a full disk": full_disk} if os.geteuid() == 0 else {}),
    "a read-only table": read_only_table,
    "lost permission": lost_permission,
}
"""A full disk needs a file system of its own, which root alone may mount."""


class Refusals(Kills):
    """As :class:`Kills`; the command goes on, and its storage refuses from a random moment on."""

    def refuse(self, refusal: Refusal, chance: Random) -> list[str]:
        """What is wrong after a refusal; empty if nothing is."""
        self.number += 1
        with self._place(f"refused-{self.number}", is_disk=refusal is full_disk) as lakehouse:
            self.helper.begin(*self._arguments(self.operation.command, lakehouse))
            if refusal is not read_only_table:
                self._wait(self.helper, lakehouse, chance)
            subprocess.run(refusal(lakehouse, chance), check=True)
            outcome = self.helper.outcome()
            _undone(lakehouse)
            return [f"{refusal.__name__}: {one}" for one in self._judged(lakehouse, outcome)]

    @contextmanager
    def _place(self, name: str, *, is_disk: bool) -> Iterator[Path]:
        if not is_disk:
            yield self._copy(name)
            return
        place = self.folder / name
        place.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1g", "tmpfs", place], check=True)
        try:
            subprocess.run(["cp", "-r", f"{self.start}/.", place], check=True)
            yield place
        finally:
            subprocess.run(["umount", "-l", place], check=True)


def refuse_all(trials: Callable[[str], Refusals], seed: int, count: int) -> Iterator[tuple[str, int, int]]:
    """Refusals by kind, and how many left something wrong, which is printed."""
    for index, (name, refusal) in enumerate(REFUSALS.items()):
        chance, tried = Random(f"{name} {seed}"), count // len(REFUSALS) + (index < count % len(REFUSALS))
        commands = [_COMMANDS[number % len(_COMMANDS)] for number in range(tried)]
        found = [(one, wrong) for one in commands if (wrong := trials(one).refuse(refusal, chance))]
        for one, wrong in found:
            print(f"{name}, {one}: {'; '.join(wrong)}", flush=True)
        yield f"commands with {name}", tried, len(found)
