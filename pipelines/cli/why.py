"""``tailrace why``: the reasons behind one event's verdict, or behind a window's number."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli.common import JOB, context, emit, find_job, note
from pipelines.core.errors import UsageError
from pipelines.core.time import parse_instant

EVENT = Annotated[str | None, typer.Option("--event", metavar="INPUT/PARTITION/SEQUENCE", help="Which event.")]
WINDOW_END = Annotated[str | None, typer.Option("--window-end", metavar="T", help="Which windows.")]
KEY = Annotated[list[str] | None, typer.Option("--key", metavar="K=V", help="Of which group; once for each key.")]


def why(job: JOB, event: EVENT = None, window_end: WINDOW_END = None, key: KEY = None) -> None:
    """Explain why an event counts where it does, or which events made a window's number."""
    from pipelines.explain.event import why_event
    from pipelines.explain.window import why_window

    found = find_job(job)
    if event is not None and key:
        raise UsageError("--key goes with --window-end", key="--key")
    if event is not None and window_end is None:
        story = why_event(found, event, context().lakehouse)
    elif event is None and window_end is not None:
        story = why_window(found, _instant(window_end), _keys(key or []), context().lakehouse)
    else:
        raise UsageError("give either --event or --window-end", hint="--event cars/0/17, or --window-end T --key K=V")
    for text in story.notes:
        note(f"note: {text}")
    emit(story.as_dict(), story.sentences)


def _instant(text: str) -> int:
    try:
        return parse_instant(text)
    except ValueError as error:
        raise UsageError(str(error), key="--window-end") from None


def _keys(given: list[str]) -> dict[str, str]:
    for text in given:
        if "=" not in text:
            raise UsageError(f"'{text}' is not a key and its value", key="--key", hint="write it like booth=a")
    return dict(text.split("=", 1) for text in given)
