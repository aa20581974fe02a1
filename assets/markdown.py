"""Text of job files and of tables in what Dagster renders as Markdown: descriptions, and metadata of that type."""

import re

_MARKUP = re.compile(r"[\\`*\[\]<>|#]|(?<![^\W_])_|_(?![^\W_])")
"""Lists of Dagster's UI show descriptions without rendering them, so that what needs no escape gets none."""


def escaped(text: str) -> str:
    """``text`` to be shown as it is: no HTML, no link, no image, no code, no table, no heading, no list."""
    return _MARKUP.sub(r"\\\g<0>", text)
