"""Run the commands of a page and put their output where the page shows it.

In a ``console`` block a line that begins with ``$ `` is a command, and the lines up to the next command are what it
prints. ``..`` in a line stands for any text, such as run ids and durations, and a line ``..`` for any lines.

``python tests/docs/executed_page.py docs/PAGE.md PROJECT`` runs the commands in a copy of the project's folder and
writes what they print into the page.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from pipelines.cli.main import run

_BLOCK = re.compile(r"```console\n(.*?)```", re.DOTALL)
_ANY = ".."


@dataclass(frozen=True)
class Command:
    """A command and what the page shows of its output."""

    text: str
    shown: str


def commands_of(page: str) -> list[Command]:
    """The commands of all console blocks, in order."""
    found = []
    for block in _BLOCK.findall(page):
        before, *parts = re.split(r"^\$ ", block, flags=re.MULTILINE)
        assert not before, f"a console block begins with output: {before}"
        for part in parts:
            text, _, shown = part.partition("\n")
            found.append(Command(text, shown))
    return found


class Shell:
    """Runs commands in the current folder; ``tailrace`` runs in this process, so that all share one Spark session."""

    def __init__(self) -> None:
        self._exit_code = 0

    def run(self, command: str) -> str:
        """What the command prints, on stdout and stderr; afterwards ``$?`` is its exit code."""
        if command.startswith("tailrace "):
            printed = io.StringIO()
            with redirect_stdout(printed), redirect_stderr(printed):
                self._exit_code = run(shlex.split(command)[1:])
            return printed.getvalue()
        before = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; (exit {self._exit_code}); "
        done = subprocess.run(["bash", "-c", before + command], capture_output=True, text=True, check=False)
        self._exit_code = done.returncode
        return done.stdout + done.stderr


def is_shown(shown: str, printed: str) -> bool:
    """Whether the page shows what a command printed; blanks at the ends of lines do not count."""
    lines = [line.rstrip() for line in shown.splitlines()]
    pattern = "".join(r"(?:.*\n)*" if line == _ANY else _pattern(line) + r"\n" for line in lines)
    return re.fullmatch(pattern, "".join(f"{line.rstrip()}\n" for line in printed.splitlines())) is not None


def updated(page: str, shell: Shell) -> str:
    """The page with what its commands print; a line that still is what is printed stays, with its ``..``."""

    def block(found: re.Match[str]) -> str:
        lines = []
        for command in commands_of(found[0]):
            known = [line for line in command.shown.splitlines() if line != _ANY]
            printed = [line.rstrip() for line in shell.run(command.text).splitlines()]
            lines += [
                f"$ {command.text}",
                *(next((old for old in known if re.fullmatch(_pattern(old), new)), new) for new in printed),
            ]
        return "\n".join(["```console", *lines, "```"])

    return _BLOCK.sub(block, page)


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, line.split(_ANY)))


if __name__ == "__main__":
    path, project = Path(sys.argv[1]).absolute(), Path(sys.argv[2]).absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(shutil.copytree(project, folder, dirs_exist_ok=True))
        path.write_text(updated(path.read_text(encoding="utf-8"), Shell()), encoding="utf-8")
