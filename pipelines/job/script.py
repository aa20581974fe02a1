"""The query of a job file that is a Stream Analytics script: in a file, or in the job file itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from pipelines.core import model
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
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
    file: JobFile,
    section: schema.JobSection,
    inputs: Mapping[str, model.Input],
    references: Mapping[str, model.Reference],
) -> Loaded:
    """The steps of ``query.sql``, and the inputs with its TIMESTAMP BY; errors name ``file:line:column``."""
    if section.profile != "stream_analytics":
        raise file.error(f"scripts are of profile stream_analytics, not of {section.profile}", _KEY)
    others = section.query.model_fields_set - {"sql"}
    if others:
        key = sorted(others)[0].rstrip("_")
        raise file.error(f"does not go with 'sql', which is the whole query; leave '{key}' out", ("query", key))
    text, script = _text(file, section.query.sql or "")
    # an error of a run names the script without its folder: it is part of the expressions, and so of the fingerprint
    settings = Settings(Path(script).name, section.string_comparison, section.on_cast_error, _functions(file, section))
    try:
        return load(text, inputs, references, settings)
    except Refused as refused:
        raise refused.at(script) from None


def _text(file: JobFile, given: str) -> tuple[str, str]:
    """The script, and what messages call it: its path, or the key of the job file."""
    if _SELECT.search(given):
        return given, f"{file.name}:query.sql" if file.name else "query.sql"
    path = Path(file.name or "").parent / given.strip()
    try:
        return path.read_text(encoding="utf-8-sig"), str(path)
    except UnicodeDecodeError as error:
        raise file.error(f"'{path}' is not UTF-8 text (byte {error.start})", _KEY) from None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise file.error(f"cannot read the script '{path}': {why}", _KEY) from None


def _functions(file: JobFile, section: schema.JobSection) -> dict[str, UserFunction]:
    found: dict[str, UserFunction] = {}
    for name, given in section.functions.items():
        path: KeyPath = ("functions", name)
        if name.lower() in found:
            raise file.error("stands there twice; names are compared without case", path)
        arguments, text = (_ARGUMENTS, given) if isinstance(given, str) else (tuple(given.args), given.as_)
        sql = file.at(path, partial(check_expression, text, arguments))
        if isinstance(given, str):
            last = max((_ARGUMENTS.index(one) for one in columns_read([sql])), default=-1)
            arguments = _ARGUMENTS[: last + 1]
        found[name.lower()] = UserFunction(arguments, sql)
    return found
