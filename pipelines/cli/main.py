"""The ``tailrace`` command: collects the commands, adds the global options, turns errors into exit codes."""

from __future__ import annotations

import atexit
import importlib
import json
import os
import sys
import traceback
from collections.abc import Sequence

import typer
from typer.exceptions import Abort, Exit, TyperException

from pipelines import __version__
from pipelines.cli.common import with_global_options
from pipelines.core.errors import TailraceError
from pipelines.lakehouse.damage import explained

COMMANDS = (
    "demo",
    "check",
    "import",
    "ingest",
    "stream",
    "plan",
    "replay",
    "promote",
    "reconcile",
    "tune",
    "why",
    "show",
    "runs",
    "verify",
    "report",
    "setup",
    "doctor",
    "pack",
)
"""Each is a function in the module of the same name."""

_IMPORT = ("imports", "import_job")
"""The module and the function of ``import``, which Python reserves."""

OTHER_FAILURE = 4
"""Exit code of a failure that Tailrace does not know; the usual cause is the environment."""


def application() -> typer.Typer:
    """All commands."""
    app = typer.Typer(
        name="tailrace",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Re-run history and get the numbers the stream gave.",
    )

    @app.callback(invoke_without_command=True)
    def root(
        ctx: typer.Context,
        version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    ) -> None:
        if version:
            typer.echo(__version__)
        elif ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())
            raise typer.Exit(2)

    for name in COMMANDS:
        module_name, function = _IMPORT if name == "import" else (name, name)
        module = importlib.import_module(f"pipelines.cli.{module_name}")
        app.command(name)(with_global_options(getattr(module, function)))
    return app


def run(arguments: Sequence[str]) -> int:
    """Run the command line ``arguments`` (without the program's name) and return its exit code."""
    try:
        # outside typer's standalone mode the call returns the exit code
        code = typer.main.get_command(application())(list(arguments), prog_name="tailrace", standalone_mode=False)
        sys.stdout.flush()
    except Exit as exited:
        return exited.exit_code
    except BrokenPipeError:
        # the reader closed the pipe, as in `tailrace show ... | head`; redirect stdout so that the exit cannot fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _report(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _report(error: BaseException, *, as_json: bool) -> int:
    """Print the error as one sentence on stderr, under ``--json`` also as an object; return the exit code."""
    error = explained(error) or error
    data: dict[str, object] = {}
    match error:
        case Abort() | KeyboardInterrupt():
            sentence, code = "stopped before it was done", 130
        case TyperException():
            sentence, code = f"{error.format_message()} (tailrace --help lists the commands)", 2
        case TailraceError():
            sentence, code, data = str(error), error.exit_code, error.as_dict()
        case _:
            sentence, code = _first_sentence(error), OTHER_FAILURE
    sentence = "; ".join([sentence, *getattr(error, "__notes__", ())])
    sys.stderr.write(f"error: {sentence}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": "Error", "message": sentence, **data, "exit_code": code}) + "\n")
    return code


def main() -> None:
    """Entry point of the ``tailrace`` command."""
    code = OTHER_FAILURE

    def end_process() -> None:
        # an Arrow thread that closes a file after the interpreter is gone would abort the process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    # what is registered first is called last, so after what the command registers
    atexit.register(end_process)
    code = run(sys.argv[1:])
    sys.exit(code)


def _first_sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{what}; no table was half-written; --debug shows where it happened"


if __name__ == "__main__":
    main()
