"""The ``tailrace`` command: collects the commands, gives them the global options, turns errors into exit codes."""

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
from pipelines.cli.common import Commands
from pipelines.core.errors import TailraceError

COMMANDS = (
    "demo",
    "check",
    "import",
    "ingest",
    "stream",
    "plan",
    "replay",
    "reconcile",
    "why",
    "show",
    "verify",
    "report",
    "doctor",
)

_MODULES = {"import": "imports"}
"""The modules of commands whose names are no names of modules."""

OTHER_FAILURE = 4
"""Exit code of a failure that Tailrace does not know: most often the environment's."""


def application() -> Commands:
    """All commands."""
    app = Commands(
        name="tailrace",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        help="Re-run history and get the numbers the stream gave.",
    )

    @app.callback(invoke_without_command=True)
    def root(
        ctx: typer.Context,
        version: bool = typer.Option(False, "--version", help="Print the version and leave."),
    ) -> None:
        if version:
            typer.echo(__version__)
        elif ctx.invoked_subcommand is None:
            typer.echo(ctx.get_help())
            raise typer.Exit(2)

    for name in COMMANDS:
        importlib.import_module(f"pipelines.cli.{_MODULES.get(name, name)}").register(app)
    return app


def run(arguments: Sequence[str]) -> int:
    """Run the command line ``arguments`` (without the program's name) and return its exit code."""
    try:
        # outside typer's standalone mode, leaving with a code is what the call returns
        code = typer.main.get_command(application())(list(arguments), prog_name="tailrace", standalone_mode=False)
        sys.stdout.flush()
    except Exit as leave:
        return leave.exit_code
    except BrokenPipeError:
        # the reader has seen enough, as with `tailrace show ... | head`; point stdout away so that exit cannot fail
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        return _report(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _report(error: BaseException, *, as_json: bool) -> int:
    """Print what went wrong as one sentence on stderr, under ``--json`` also as an object; the exit code."""
    data: dict[str, object] = {}
    match error:
        case Abort() | KeyboardInterrupt():
            sentence, code = "stopped before it was done", 130
        case TyperException():
            sentence, code = f"{error.format_message()} (tailrace --help shows how it is called)", 2
        case TailraceError():
            sentence, code, data = str(error), error.exit_code, error.as_dict()
        case _:
            sentence, code = _first_sentence(error), OTHER_FAILURE
    sys.stderr.write(f"error: {sentence}\n")
    if as_json:
        sys.stdout.write(json.dumps({"error": "Error", "message": sentence, **data, "exit_code": code}) + "\n")
    return code


def main() -> None:
    """Entry point of the ``tailrace`` command."""
    code = OTHER_FAILURE

    def leave() -> None:
        # a thread of Arrow that closes a file only now would find no interpreter any more, and abort the process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    # what is registered first is called last, after what the command has registered
    atexit.register(leave)
    code = run(sys.argv[1:])
    sys.exit(code)


def _first_sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{what}; nothing was half-written; --debug shows where it happened"


if __name__ == "__main__":
    main()
