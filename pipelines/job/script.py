"""The query of a job file that is a Stream Analytics script: in a file, or in the job file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pipelines.core import model
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.sql.expressions.user_functions import user_function
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.scope import Settings, UserFunction
from pipelines.job.sql.script import Loaded, load
from pipelines.job.yaml import Path as KeyPath

_KEY: KeyPath = ("query", "sql")
_SELECT = re.compile(r"\bselect\s", re.IGNORECASE)


def build_script(
    say: Complaints,
    section: schema.JobSection,
    inputs: Mapping[str, model.Input],
    references: Mapping[str, model.Reference],
) -> Loaded:
    """The steps of ``query.sql``, and the inputs with its TIMESTAMP BY; errors name ``file:line:column``."""
    if section.profile != "stream_analytics":
        raise say.error(f"scripts are of profile stream_analytics, not of {section.profile}", _KEY)
    others = section.query.model_fields_set - {"sql"}
    if others:
        key = sorted(others)[0].rstrip("_")
        raise say.error(f"does not go with 'sql', which is the whole query; leave '{key}' out", ("query", key))
    text, file = _text(say, section.query.sql or "")
    # expressions contain what a failing run prints: without the folder, on which no fingerprint may depend
    settings = Settings(Path(file).name, section.string_comparison, section.on_cast_error, _functions(say, section))
    try:
        return load(text, inputs, references, settings)
    except Refused as refused:
        raise refused.at(file) from None


def _text(say: Complaints, given: str) -> tuple[str, str]:
    """The script, and what messages call it: its path, or the key of the job file."""
    if _SELECT.search(given):
        return given, f"{say.file}:query.sql" if say.file else "query.sql"
    path = Path(say.file or "").parent / given.strip()
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except UnicodeDecodeError as error:
        raise say.error(f"'{path}' is not UTF-8 text (byte {error.start})", _KEY) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise say.error(f"cannot read the script '{path}': {why}", _KEY) from None


def _functions(say: Complaints, section: schema.JobSection) -> dict[str, UserFunction]:
    found: dict[str, UserFunction] = {}
    for name, given in section.functions.items():
        path: KeyPath = ("functions", name)
        if name.lower() in found:
            raise say.error("stands there twice; names are compared without case", path)
        found[name.lower()] = say.at(path, partial(user_function, given))
    return found
