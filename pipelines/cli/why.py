"""``tailrace why``: the chain of reasons behind an event's fate or a window's number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from pipelines.cli.common import context, emit, find_job, note
from pipelines.cli.plan import JOB
from pipelines.core.errors import UsageError
from pipelines.core.time import parse_instant

if TYPE_CHECKING:
    from rich.console import Console


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""

    @app.command("why")
    def why(
        job: JOB,
        event: Annotated[
            str | None, typer.Option("--event", metavar="INPUT/PARTITION/SEQUENCE", help="Which event.")
        ] = None,
        window_end: Annotated[str | None, typer.Option("--window-end", metavar="T", help="Which windows.")] = None,
        at: Annotated[str | None, typer.Option("--at", metavar="T", help="Rows of an output of that time.")] = None,
        output: Annotated[str | None, typer.Option("--output", metavar="NAME", help="Of which output.")] = None,
        key: Annotated[
            list[str] | None, typer.Option("--key", metavar="K=V", help="Of which group; once for each key.")
        ] = None,
    ) -> None:
        """Tell why an event counts where it does, which events made a window's number, or may have made a row."""
        from pipelines.explain.event import why_event
        from pipelines.explain.output import why_row
        from pipelines.explain.window import why_window

        found = find_job(job)
        if [event, window_end, at].count(None) != 2:
            raise UsageError(
                "say either --event, --window-end or --at",
                hint="--event cars/0/17, --window-end T --key K=V, or --output NAME --at T",
            )
        if event is not None and key:
            raise UsageError("--key goes with --window-end or --at", key="--key")
        if at is not None and found.steps is None:
            raise UsageError("this job's results are windows", key="--at", hint="name one with --window-end")
        if event is not None:
            story = why_event(found, event, context().lakehouse)
        elif found.steps is not None:
            story = why_row(found, output, _instant(at or window_end), _keys(key), context().lakehouse)
        else:
            story = why_window(found, _instant(window_end), _keys(key), context().lakehouse)
        for text in story.notes:
            note(f"note: {text}")

        def human(out: Console) -> None:
            for sentence in story.sentences:
                out.print(sentence, markup=False)

        emit(story.as_dict(), human)


def _instant(text: str | None) -> int:
    assert text is not None
    try:
        return parse_instant(text)
    except ValueError as error:
        raise UsageError(str(error), key="--at or --window-end") from None


def _keys(given: list[str] | None) -> dict[str, str]:
    keys = {}
    for text in given or []:
        name, sign, value = text.partition("=")
        if not sign:
            raise UsageError(f"'{text}' is not a key and its value", key="--key", hint="write it like booth=a")
        keys[name] = value
    return keys
