"""What all commands share: global options, finding a job, printing, progress bars."""

from __future__ import annotations

import functools
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from pipelines.core.errors import UsageError, did_you_mean
from pipelines.core.model import Job, OutputRange
from pipelines.core.time import parse_instant

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

LAKEHOUSE_VARIABLE = "TAILRACE_LAKEHOUSE"

Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Context:
    """The global options of the running command."""

    lakehouse: str = "./lakehouse"
    json: bool = False
    quiet: bool = False
    debug: bool = False


_context: ContextVar[Context] = ContextVar("tailrace_cli", default=Context())  # noqa: B039  # replaced, never changed


def context() -> Context:
    """Global options of the command that runs now."""
    return _context.get()


class Commands(typer.Typer):
    """A typer application whose every command takes the global options; they go to :func:`context`."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Function], Function]:
        """As typer's own, with the global options added to the function's."""
        register = super().command(name, **options)

        def decorate(function: Function) -> Function:
            register(_with_global_options(function))
            return function

        return decorate


def _with_global_options(function: Function) -> Function:
    own = inspect.signature(function, eval_str=True)
    known = [field.name for field in fields(Context)]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        _context.set(Context(**{name: kwargs.pop(name) for name in known}))
        return function(*args, **kwargs)

    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=getattr(Context, name), annotation=annotation)
        for name, annotation in _OPTIONS.items()
    ]
    # the attributes that give its signature are unknown to mypy
    call.__signature__ = own.replace(parameters=[*own.parameters.values(), *extra])  # type: ignore[attr-defined]
    call.__annotations__ = {**function.__annotations__, **_OPTIONS}
    # it takes more options than Function, which its type cannot express
    return call  # type: ignore[return-value]


_OPTIONS: dict[str, Any] = {
    "lakehouse": Annotated[
        str, typer.Option("--lakehouse", help="Folder or URI of the tables.", envvar=LAKEHOUSE_VARIABLE)
    ],
    "json": Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")],
    "quiet": Annotated[bool, typer.Option("--quiet", help="No progress bars, no notes.")],
    "debug": Annotated[bool, typer.Option("--debug", help="Show the stack trace of an error.")],
}


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

    def instant(option: str, text: str | None) -> int | None:
        if text is None:
            return None
        try:
            return parse_instant(text)
        except ValueError as error:
            raise UsageError(str(error), key=option) from None

    result = OutputRange(instant("--from", from_), instant("--to", to))
    if result.from_us is not None and result.to_us is not None and result.from_us >= result.to_us:
        raise UsageError("--from must be before --to: the range is half-open", key="--from")
    return result


def console(*, stderr: bool = False) -> Console:
    """A console on stdout or stderr; plain text when that is no terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, soft_wrap=not stream.isatty(), highlight=False)


def note(text: str) -> None:
    """A line for a person, on stderr; nothing under ``--quiet``."""
    if not context().quiet:
        console(stderr=True).print(text, markup=False)


def emit(data: Any, human: Callable[[Console], None]) -> None:
    """``data`` as one JSON document under ``--json``, else what ``human`` prints."""
    if context().json:
        sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False, default=str) + "\n")
    else:
        human(console())


class Steps:
    """The steps of long work: called with a few words when the next one begins; ``expect`` sets how many there are."""

    def __init__(self, title: str, bar: Progress | None = None, count: int | None = None) -> None:
        self._title = title
        self._bar = bar
        self._task = None if bar is None else bar.add_task(title, total=count)
        self._begun = False

    def __call__(self, text: str) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=f"{self._title}: {text}", advance=int(self._begun))
            self._begun = True

    def expect(self, count: int) -> None:
        """There are ``count`` steps."""
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
