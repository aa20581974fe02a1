"""From the text of a job file to a validated, frozen :class:`~pipelines.core.model.Job`, or one error."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.core import model
from pipelines.core.errors import JobFileError, UsageError
from pipelines.core.results import known_columns
from pipelines.core.steps import SYSTEM_TIMESTAMP, Steps, columns_of
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.inputs import build_input, check_same_log
from pipelines.job.limits import limits_exceeded
from pipelines.job.orderings import build_orderings, default_end_of_log
from pipelines.job.pipeline import build_pipeline, with_pipeline_ordering, with_pipeline_time
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
    try:
        documents = load_all(text, file=file)
        if len(documents) != 1:
            raise JobFileError(f"has {len(documents)} documents; a job file has one", file=file)
        return build_job(documents[0], file=file)
    except RecursionError:
        raise JobFileError("a value is nested too deeply", file=file, hint="write it with fewer brackets") from None


def build_job(document: Document, *, file: str | None = None, root: KeyPath = ()) -> model.Job:
    """The job at key path ``root`` of ``document`` (the whole document by default)."""
    data = document.data
    for key in root:
        data = data[key]
    return _job(JobFile(document, file, root), data)


def _job(file: JobFile, data: Any) -> model.Job:
    section = file.section(schema.JobSection, data, ())
    inputs = tuple(build_input(file, name, part, section.profile) for name, part in section.inputs.items())
    by_name = {part.name: part for part in inputs}
    for part in inputs:
        check_same_log(file, part, by_name)
    references = tuple(build_reference(file, name, part, by_name) for name, part in section.references.items())
    query: model.Query | Steps
    if section.query.pipeline is not None:
        pipeline = build_pipeline(file, section, inputs[0], references)
        inputs = (with_pipeline_time(file, inputs[0], pipeline),)
        section = with_pipeline_ordering(file, section, pipeline.ordering)
    orderings = build_orderings(file, section, by_name)
    if section.query.pipeline is not None:
        query = pipeline.query
    elif section.query.sql is not None:
        loaded = build_script(file, section, by_name, {part.name: part for part in references})
        query, inputs = loaded.steps, loaded.inputs
        orderings += tuple((part.name, dict(orderings)[str(part.same_log_as)]) for part in inputs[len(by_name) :])
    else:
        query = build_query(file, section, by_name)
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
        stream_columns=build_stream_columns(file, section.stream, _result_columns(query, inputs, references)),
        references=references,
        stream_outputs=build_stream_outputs(file, section, query),
    )
    exceeded = limits_exceeded(job) if job.strict_limits else []
    if exceeded:
        raise file.error(f"{exceeded[0]}; relax it, or leave strict_limits out", ("strict_limits",))
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
