"""``tailrace why``: the reasons behind one event's verdict, or behind a window's number."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, note
from pipelines.core.errors import UsageError
from pipelines.core.time import parse_instant

EVENT = Annotated[str | None, typer.Option("--event", metavar="INPUT/PARTITION/SEQUENCE", help="Which event.")]
WINDOW_END = Annotated[str | None, typer.Option("--window-end", metavar="T", help="Which windows.")]
AT = Annotated[str | None, typer.Option("--at", metavar="T", help="Rows of an output of that time.")]
OUTPUT = Annotated[str | None, typer.Option("--output", metavar="NAME", help="Of which output.")]
KEY = Annotated[list[str] | None, typer.Option("--key", metavar="K=V", help="Of which group; once for each key.")]


def why(
    job: JOB, event: EVENT = None, window_end: WINDOW_END = None, at: AT = None, output: OUTPUT = None, key: KEY = None
) -> None:
    """Explain why an event counts where it does, which events made a window's number, or may have made a row."""
    from pipelines.explain.event import why_event
    from pipelines.explain.output import why_row
    from pipelines.explain.window import why_window

    found = find_job(job)
    if [event, window_end, at].count(None) != 2:
        raise UsageError(
            "give one of --event, --window-end and --at",
            hint="--event cars/0/17, --window-end T --key K=V, or --output NAME --at T",
        )
    if event is not None and key:
        raise UsageError("--key goes with --window-end or --at", key="--key")
    if at is not None and found.steps is None:
        raise UsageError("this job's results are windows", key="--at", hint="name one with --window-end")
    if event is not None:
        story = why_event(found, event, context().lakehouse)
    elif found.steps is not None:
        story = why_row(found, output, _instant(at or window_end), _keys(key or []), context().lakehouse)
    else:
        story = why_window(found, _instant(window_end), _keys(key or []), context().lakehouse)
    for text in story.notes:
        note(f"note: {text}")
    emit(story.as_dict(), story.sentences)


def _instant(text: str | None) -> int:
    assert text is not None
    try:
        return parse_instant(text)
    except ValueError as error:
        raise UsageError(str(error), key="--at or --window-end") from None


def _keys(given: list[str]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise UsageError(f"'{text}' is not a key and its value", key="--key", hint="write it like booth=a")
    return dict(text.split("=", 1) for text in given)
