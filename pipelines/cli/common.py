"""What all commands share: options, finding a job, printing, progress bars."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.intervals import parse_range
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import parse_instant

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress

LAKEHOUSE_VARIABLE = "TAILRACE_LAKEHOUSE"

JOB = Annotated[str, typer.Argument(metavar="JOB", help="Job file, or the name of a job.")]
FROM = Annotated[str | None, typer.Option("--from", metavar="T", help="First window end; left out: the beginning.")]
TO = Annotated[str | None, typer.Option("--to", metavar="T", help="Window ends are before it; left out: the end.")]


@dataclass(frozen=True)
class Context:
    """The global options of the running command."""

    lakehouse: str = "./lakehouse"
    json: bool = False
    quiet: bool = False
    debug: bool = False


_OPTIONS: dict[str, Any] = {
    "lakehouse": Annotated[
        str, typer.Option("--lakehouse", help="Folder or URI of the tables.", envvar=LAKEHOUSE_VARIABLE)
    ],
    "json": Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")],
    "quiet": Annotated[bool, typer.Option("--quiet", help="No progress bars, no notes.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")],
}
_context: ContextVar[Context] = ContextVar("tailrace_cli", default=Context())  # noqa: B039  # replaced, never changed


def context() -> Context:
    """Global options of the command that runs now."""
    return _context.get()


def with_global_options(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` with the global options added to its own; :func:`context` gives their values."""

    @functools.wraps(command)
    def call(**options: Any) -> None:
        _context.set(Context(**{field.name: options.pop(field.name) for field in fields(Context)}))
        command(**options)

    own = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(Context, name), annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    # typer reads both; mypy does not know the first
    call.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    call.__annotations__ = {**command.__annotations__, **_OPTIONS}
    return call


def find_job(text: str) -> Job:
    """The job that ``text`` names: a job file's path, or a name in the folder of job files (job or file)."""
    from pipelines.job.folder import job_files, jobs_folder, load_folder
    from pipelines.job.load import load_job

    path = Path(text)
    if path.suffix in (".yaml", ".yml") or path.is_file():
        return load_job(path)
    folder = jobs_folder()
    files = {file.stem: file for file in job_files(folder)}
    if text in files:
        return load_job(files[text])
    jobs = {job.name: job for job in load_folder(folder).values() if isinstance(job, Job)}
    if text in jobs:
        return jobs[text]
    raise UsageError(
        f"there is no job '{text}' in {folder} and no file of that name; {did_you_mean(text, {*files, *jobs})}"
    )


def output_range(from_: str | None, to: str | None) -> OutputRange:
    """The half-open output range of ``--from`` and ``--to``; either left out leaves that side open."""
    return parse_range(from_, to, ("--from", "--to"))


def instant(text: str | None, option: str) -> int | None:
    """The instant given to an option, in microseconds."""
    try:
        return None if text is None else parse_instant(text)
    except ValueError as error:
        raise UsageError(str(error), key=option) from None


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr; plain text when that is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False)


def note(text: str) -> None:
    """A line for a person, on stderr; nothing under ``--quiet``."""
    if not context().quiet:
        console(stderr=True).print(text, markup=False)


def emit(data: Any, lines: Iterable[RenderableType]) -> None:
    """``data`` as one JSON document under ``--json``, else ``lines``."""
    if context().json:
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
        return
    out = console()
    for line in lines:
        out.print(line, markup=False)


def run_lines(
    job: str, run_id: str, took_us: int, by_verdict: Mapping[str, int], by_reason: Mapping[str, int]
) -> Iterator[str]:
    """How long a run took, and its events by verdict and reason."""
    yield f"{job}: run {run_id} took {took_us / 1_000_000:.1f} s over {sum(by_verdict.values())} event(s)"
    yield from (f"  {verdict}: {count}" for verdict, count in by_verdict.items())
    if by_reason:
        yield "  reasons: " + ", ".join(f"{name} {count}" for name, count in by_reason.items())


class Steps:
    """The steps of long work: called with a description of each step as it begins; ``expect`` sets their number."""

    def __init__(self, title: str, bar: Progress | None = None, count: int | None = None) -> None:
        self._title = title
        self._bar = bar
        self._task = None if bar is None else bar.add_task(title, total=count)
        self._begun = False

    def __call__(self, text: str, advance: int | None = None) -> None:
        """A step begins; or, with ``advance``, that much of the work is done."""
        if self._bar is not None and self._task is not None:
            done = int(self._begun) if advance is None else advance
            self._bar.update(self._task, description=f"{self._title}: {text}", advance=done)
            self._begun = True

    def expect(self, count: int) -> None:
        """There are ``count`` steps, or so much work."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, total=count)


@contextmanager
def progress(title: str, steps: int | None = None) -> Iterator[Steps]:
    """A progress bar on stderr, only on a terminal and not under ``--quiet``.

    ``steps`` None: the number is not known yet, the bar pulses.
    """
    settings = context()
    if settings.quiet or settings.json or not sys.stderr.isatty():
        yield Steps(title)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as bar:
        yield Steps(title, bar, steps)
