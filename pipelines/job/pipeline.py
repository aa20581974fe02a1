"""``query: {pipeline: ..}`` of a job file: an Atlas pipeline, its event time and settings of ordering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pipelines.core import model
from pipelines.core.errors import JobFileError
from pipelines.job import schema
from pipelines.job.atlas_pipeline.stages import Translated, translate
from pipelines.job.atlas_pipeline.text import Refused, read_processors
from pipelines.job.diagnostics import JobFile
from pipelines.job.yaml import Path as KeyPath

_KEY: KeyPath = ("query", "pipeline")


def build_pipeline(
    file: JobFile, section: schema.JobSection, source: model.Input, references: Sequence[model.Reference]
) -> Translated:
    """The pipeline of the job file, over its one input."""
    part = section.query
    if section.profile != "atlas":
        raise file.error(f"a pipeline belongs to profile atlas, not to {section.profile}", _KEY)
    if len(section.inputs) != 1:
        raise file.error("a pipeline reads one source; describe one input", ("inputs",))
    others = sorted(key for key in part.model_fields_set if key != "pipeline")
    if others:
        raise file.error(
            "does not go with 'pipeline', which is the whole query; leave it out", ("query", others[0].strip("_"))
        )
    text, name = _text(file, part.pipeline or "")
    try:
        processors = read_processors(text)
        if len(processors) > 1:
            names = ", ".join(str(one.name) for one in processors)
            raise Refused(f"contains {len(processors)} processors ({names}); give each a file of its own")
        return translate(processors[0], source.name, source.columns, {one.name: one for one in references})
    except Refused as refused:
        if name is None:
            raise file.error(refused.what, _KEY) from None
        raise JobFileError(refused.what, file=name, line=refused.line) from None


def _text(file: JobFile, given: str) -> tuple[str, str | None]:
    """(the pipeline's text, its file as messages name it; None if it stands in the job file)."""
    if given.lstrip()[:1] in ("[", "{"):
        return given, None
    path = Path(given) if file.name is None else Path(file.name).parent / given
    try:
        return path.read_text(encoding="utf-8"), str(path)
    except (OSError, UnicodeDecodeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise file.error(f"cannot read '{given}': {why}", _KEY) from None


def with_pipeline_time(file: JobFile, source: model.Input, pipeline: Translated) -> model.Input:
    """The input with the pipeline's event time; the job file may give the same."""
    if source.timestamp_by is None:
        return replace(source, timestamp_by=pipeline.timestamp_by)
    if source.timestamp_by != pipeline.timestamp_by:
        theirs = pipeline.timestamp_by or "the arrival time"
        raise file.error(f"the pipeline has {theirs}; leave this out", ("inputs", source.name, "timestamp_by"))
    return source


def with_pipeline_ordering(file: JobFile, section: schema.JobSection, pipeline: Mapping[str, str]) -> schema.JobSection:
    """The job file with the ordering settings of the pipeline; the job file may give the others, or the same."""
    given: dict[str, Any] = section.ordering
    (name,) = section.inputs
    path: KeyPath = ("ordering",)
    if isinstance(given.get(name), dict):
        given, path = given[name], ("ordering", name)
    for key, value in pipeline.items():
        if key in given and _setting(given[key]) != _setting(value):
            raise file.error(f"the pipeline has {value}; leave this out", (*path, key))
    return section.model_copy(update={"ordering": {**pipeline, **given}})


def _setting(value: Any) -> Any:
    try:
        return schema._duration_us(value)
    except ValueError:
        return value
