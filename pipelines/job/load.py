"""A job file's text to a validated, frozen :class:`~pipelines.core.model.Job`, or one error that names key and line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.core import model
from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.results import known_columns
from pipelines.core.steps import SYSTEM_TIMESTAMP, Steps, columns_of
from pipelines.job import schema
from pipelines.job.diagnostics import Complaints
from pipelines.job.inputs import build_input, check_same_log
from pipelines.job.limits import limits_exceeded
from pipelines.job.orderings import build_orderings, default_end_of_log
from pipelines.job.query import build_query, build_stream_columns, build_stream_outputs
from pipelines.job.references import build_reference
from pipelines.job.script import build_script
from pipelines.job.yaml import Document, load_all
from pipelines.job.yaml import Path as KeyPath


def load_job(path: str | Path) -> model.Job:
    """The job in the file at ``path``; raises :class:`JobFileError`, or :class:`UsageError` if it cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the job file: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise JobFileError(f"not UTF-8 text (byte {error.start})", file=str(path)) from None
    return parse_job(text, file=str(path))


def parse_job(text: str, *, file: str | None = None) -> model.Job:
    """The job in a YAML text of exactly one document."""
    documents = load_all(text, file=file)
    if len(documents) != 1:
        raise JobFileError(f"holds {len(documents)} documents; a job file holds one job", file=file)
    return build_job(documents[0], file=file)


def build_job(document: Document, *, file: str | None = None, root: KeyPath = ()) -> model.Job:
    """The job at key path ``root`` of ``document`` (the whole document by default)."""
    data = document.data
    for key in root:
        data = data[key]
    return _job(Complaints(document, file, root), data)


def _job(say: Complaints, data: Any) -> model.Job:
    section = say.section(schema.JobSection, data, ())
    inputs = tuple(build_input(say, name, part, section.profile) for name, part in section.inputs.items())
    by_name = {part.name: part for part in inputs}
    for part in inputs:
        check_same_log(say, part, by_name)
    references = tuple(build_reference(say, name, part, by_name) for name, part in section.references.items())
    orderings = build_orderings(say, section, by_name)
    query: model.Query | Steps
    if section.query.sql is not None:
        loaded = build_script(say, section, by_name, {part.name: part for part in references})
        query, inputs = loaded.steps, loaded.inputs
        orderings += tuple((part.name, dict(orderings)[str(part.same_log_as)]) for part in inputs[len(by_name) :])
    else:
        query = build_query(say, section, by_name)
    job = model.Job(
        name=section.job,
        profile=section.profile,
        inputs=inputs,
        orderings=orderings,
        query=query,
        end_of_log=section.end_of_log or default_end_of_log(section.profile, orderings),
        strict_limits=section.strict_limits,
        keep_verdicts=section.keep_verdicts,
        stream_windows=section.stream.windows or f"stream_windows/{section.job}",
        stream_columns=build_stream_columns(say, section.stream, _result_columns(query, inputs, references)),
        references=references,
        stream_outputs=build_stream_outputs(say, section, query),
    )
    exceeded = limits_exceeded(job) if job.strict_limits else []
    if exceeded:
        raise say.error(f"{exceeded[0]}; relax it, or leave strict_limits out", ("strict_limits",))
    return job


def _result_columns(
    query: model.Query | Steps, inputs: Sequence[model.Input], references: Sequence[model.Reference]
) -> list[str]:
    """Columns of the job's result that are no window's; none if it has several outputs."""
    if isinstance(query, model.Query):
        return [*map(model.output_name, query.group_by), *(one.name for one in query.aggregates)]
    if len(query.outputs) != 1:
        return []
    return [*columns_of(query.outputs[0].rows, query, known_columns(inputs, references)), SYSTEM_TIMESTAMP]
