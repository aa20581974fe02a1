"""The query of a job file that is a Stream Analytics script: in a file, or in the job file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pipelines.core import model
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.expressions import check_expression, columns_read
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.scope import Settings, UserFunction
from pipelines.job.sql.script import Loaded, load
from pipelines.job.yaml import Path as KeyPath

_KEY: KeyPath = ("query", "sql")
_SELECT = re.compile(r"\bselect\s", re.IGNORECASE)
_ARGUMENTS = ("x", "y", "z")
"""What a function that names no arguments calls them: it has those up to the last one that it reads."""


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
    # what stops a run names the script without its folder: it is part of the expressions, and so of the fingerprint
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
        arguments, text = (_ARGUMENTS, given) if isinstance(given, str) else (tuple(given.args), given.as_)
        sql = say.at(path, partial(check_expression, text, arguments))
        if isinstance(given, str):
            last = max((_ARGUMENTS.index(one) for one in columns_read([sql])), default=-1)
            arguments = _ARGUMENTS[: last + 1]
        found[name.lower()] = UserFunction(arguments, sql)
    return found
