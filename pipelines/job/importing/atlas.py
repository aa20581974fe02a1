"""Job files of Atlas stream processors: one for each processor of a file, or of the files of a folder."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.core.errors import UsageError
from pipelines.core.time import format_instant
from pipelines.job.atlas_pipeline.stages import Guesses, Translated, plain_name, source_name, translate
from pipelines.job.atlas_pipeline.text import Doc, Instant, Items, Pattern, Processor, Refused, Unknown, read_processors
from pipelines.job.atlas_pipeline.values import Guess
from pipelines.job.importing.fields import columns_of, columns_text, learn, paths_of, read_sample
from pipelines.job.importing.result import Imported, job_file

_SUFFIXES = (".json", ".js", ".mongodb", ".data", ".txt")
_PASSES = 6
"""A field of a document that is written whole is found in the pass after the one that finds the others."""


def import_atlas(path: Path, samples: Mapping[str, Path]) -> list[Imported]:
    """The jobs of the processors at ``path``; :class:`UsageError` if nothing there can be read as one."""
    jobs: list[Imported] = []
    failures: list[str] = []
    for file in _files(path):
        try:
            text = file.read_text(encoding="utf-8-sig")
            processors = read_processors(text)
        except (OSError, UnicodeDecodeError) as error:
            failures.append(f"{file}: cannot be read: {error}")
            continue
        except Refused as refused:
            failures.append(f"{file}:{refused.line or 1}: {refused.what}")
            continue
        for one in processors:
            jobs.append(_job(one, file, text if len(processors) == 1 else "", samples))
    if not jobs:
        raise UsageError(failures[0] if failures else f"there is no pipeline in {path}", hint="name a pipeline's file")
    return jobs


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise UsageError("is not there", file=str(path), hint="name a file or a folder")
    if path.is_file():
        yield path
        return
    for file in sorted(path.rglob("*")):
        if file.suffix in _SUFFIXES and file.is_file() and "$source" in file.read_text("utf-8", "replace"):
            yield file


def _job(processor: Processor, file: Path, text: str, samples: Mapping[str, Path]) -> Imported:
    name = plain_name(processor.name or file.stem) or "job"
    job = Imported(name)
    is_json = text.lstrip()[:1] in ("[", "{") and not processor.assembled
    job.script_name = f"{name}.json"
    job.script = text if is_json else json.dumps(_extended(processor), indent=2, ensure_ascii=False) + "\n"
    guesses = Guesses()
    source = _source_of(processor)
    _learn_samples(job, processor, guesses, source, samples)
    known = copy.deepcopy(guesses)
    try:
        translated = _translated(processor, guesses)
    except Refused as refused:
        job.refusals.append(f"{file}:{refused.line or 1}: {refused.what}")
        translated = None
    _note_guesses(job, known, guesses)
    _describe(job, processor, guesses, source, translated)
    return job


def _source_of(processor: Processor) -> Doc:
    first = processor.pipeline[0] if processor.pipeline else None
    body = first.get("$source") if isinstance(first, Doc) else None
    return body if isinstance(body, Doc) else Doc()


def _learn_samples(
    job: Imported, processor: Processor, guesses: Guesses, source: Doc, samples: Mapping[str, Path]
) -> None:
    conflicts: list[str] = []
    if isinstance(source.get("documents"), Items):
        learn(guesses.documents, iter(source["documents"]), conflicts)
    for name, path in samples.items():
        if name in (input_name(processor), "source") or len(samples) == 1:
            learn(guesses.documents, read_sample(path), conflicts)
        else:
            learn(guesses.references.setdefault(name, Guess()), read_sample(path), conflicts)
    job.guesses += [f"field '{one}' has values of several types in the samples: taken as text" for one in conflicts]


def input_name(processor: Processor) -> str:
    """The name of the one input: that of its topic, collection or connection."""
    return source_name(_source_of(processor))


def _translated(processor: Processor, guesses: Guesses) -> Translated:
    """The pipeline, after as many passes as find no further field."""
    seen: dict[str, str] = {}
    for _ in range(_PASSES):
        translated = translate(processor, "documents", (), {}, guesses)
        found = paths_of(guesses.documents)
        if found == seen:
            break
        seen = found
    return translated


def _note_guesses(job: Imported, known: Guesses, guesses: Guesses) -> None:
    before = paths_of(known.documents)
    found = {path: kind for path, kind in paths_of(guesses.documents).items() if path not in before}
    for name, guess in guesses.references.items():
        own = paths_of(known.references[name]) if name in known.references else {}
        found |= {f"{name}.{path}": kind for path, kind in paths_of(guess).items() if path not in own}
    job.guesses += [f"{path} {kind}: guessed from its use in the pipeline" for path, kind in found.items()]


def _describe(
    job: Imported, processor: Processor, guesses: Guesses, source: Doc, translated: Translated | None
) -> None:
    """Write the job file, and note what only a person can know."""
    columns = columns_of(guesses.documents, job.refusals)
    if not columns:
        job.guesses.append("no field of the documents is known: give --samples SOURCE=FILE")
    settings: dict[str, object] = {"columns": columns_text(columns) or "_id STRING"}
    count = source.get("partitionCount")
    if isinstance(count, int) and count > 0:
        settings["partitions"] = count
    references: dict[str, dict[str, object]] = {
        name: {"columns": columns_text(columns_of(guess, job.refusals)), "effective": "static"}
        for name, guess in guesses.references.items()
    }
    if references:
        job.guesses.append(
            "collections that are looked up are taken as unchanging (effective: static): give snapshots if they change"
        )
    if processor.assembled:
        job.guesses.append("no call creates a processor: its stages are those that the script assigns, in that order")
    if translated is not None:
        job.open_points += translated.notes
    if "timeField" not in source:
        job.open_points.append("no timeField: the event time is the message's own, the arrival time of the log")
    remarks = [f"Imported from the stream processor '{processor.name or job.job}'."]
    remarks += [f"guessed: {one}" for one in job.guesses] + [f"left out: {one}" for one in job.refusals]
    query = {"pipeline": job.script_name}
    job.yaml = job_file(job.job, "atlas", {input_name(processor): settings}, {}, references, query, remarks)


def _extended(value: Any) -> Any:
    """A value as extended JSON."""
    match value:
        case Processor(name, pipeline, options):
            return {"name": name, "pipeline": _extended(pipeline), "options": _extended(options)}
        case dict():
            return {key: _extended(one) for key, one in value.items()}
        case list():
            return [_extended(one) for one in value]
        case Instant(us):
            return {"$date": format_instant(us)}
        case Pattern(pattern, options):
            return {"$regularExpression": {"pattern": pattern, "options": options}}
        case Unknown(name):
            return name
    return value
