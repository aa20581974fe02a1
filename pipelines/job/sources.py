"""The source of an input: section ``source`` of a job file."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from pipelines.core import sources
from pipelines.core.errors import did_you_mean
from pipelines.core.query import Column
from pipelines.job import schema
from pipelines.job.diagnostics import JobFile
from pipelines.job.yaml import Path as KeyPath

_SECTIONS: dict[str, type[BaseModel]] = {
    "eventhubs_capture": schema.CaptureSection,
    "kafka": schema.KafkaSection,
    "delta": schema.DeltaSection,
    "files": schema.FilesSection,
}
_SECRET = re.compile(r"password|secret|\.key\.pem$|\.jaas\.config$|oauthbearer\.config$")
_VARIABLE = re.compile(r"\$\{\w+\}")
_TOKEN = re.compile(r"\{(\w+)\}")
_TOKENS = ("Namespace", "EventHub", "PartitionId", "Year", "Month", "Day", "Hour", "Minute", "Second")
_LOG_FIELDS = ("arrival_time", "input_partition", "sequence", "kind", "punctuation_time", "cause")


def build_source(file: JobFile, data: dict[str, Any], columns: tuple[Column, ...], path: KeyPath) -> sources.Source:
    """The source at ``path``: ``{kind: KIND, ...}``. A relative path of files is relative to the job file."""
    if "kind" not in data:
        raise file.error(f"'kind' is missing; it is one of {', '.join(_SECTIONS)}", path)
    kind = str(data["kind"])
    if kind not in _SECTIONS:
        raise file.error(f"there is no source '{kind}'; {did_you_mean(kind, _SECTIONS)}", (*path, "kind"))
    section = file.section(_SECTIONS[kind], data, path)
    match section:
        case schema.CaptureSection():
            file.at((*path, "pattern"), lambda: _check_pattern(section.pattern))
            return sources.EventHubsCapture(
                _place(file, section.path, path), section.pattern, section.body, section.events_per_message
            )
        case schema.KafkaSection():
            for name, value in section.properties.items():
                file.at((*path, "properties", name), partial(_check_secret, name, value))
            return sources.Kafka(
                section.bootstrap_servers,
                section.topic,
                section.time,
                section.value,
                tuple(sorted(section.properties.items())),
                section.isolation,
                section.events_per_message,
            )
        case schema.DeltaSection():
            fields = _fields(file, section, columns, path)
            return sources.DeltaTable(
                _place(file, section.path, path), fields, section.body, section.events_per_message
            )
        case schema.FilesSection():
            fields = _fields(file, section, columns, path)
            return sources.Files(
                _place(file, section.path, path), section.format, fields, section.body, section.events_per_message
            )
    raise AssertionError(kind)


def _place(file: JobFile, path: str, key: KeyPath) -> str:
    file.at((*key, "path"), lambda: sources.require_no_credential(path))
    if "://" in path or file.name is None:
        return path
    return str(Path(file.name).absolute().parent / Path(path).expanduser())


def _check_pattern(pattern: str) -> None:
    tokens = _TOKEN.findall(pattern)
    for token in tokens:
        if token not in _TOKENS:
            raise ValueError(f"there is no token '{{{token}}}'; {did_you_mean(token, _TOKENS)}")
    if "PartitionId" not in tokens:
        raise ValueError("lacks {PartitionId}: the files themselves do not name their partition")


def _check_secret(name: str, value: str) -> None:
    if _SECRET.search(name) and not _VARIABLE.fullmatch(value):
        raise ValueError("is a secret: write ${NAME}, and set the environment variable NAME")


def _fields(
    file: JobFile, section: schema.MappedSection, columns: tuple[Column, ...], path: KeyPath
) -> tuple[tuple[str, str], ...]:
    """The mapping from our columns to the source's; with ``body`` no payload column has a field of its own."""
    payload = [column.name for column in columns] if section.body is None else ["body"]
    known = [*_LOG_FIELDS, *payload]
    for name in section.fields:
        if name not in known:
            raise file.error(f"there is no column '{name}'; {did_you_mean(name, known)}", (*path, "fields", name))
    if section.events_per_message == "many" and section.body is None:
        raise file.error("'events_per_message: many' needs 'body'", (*path, "events_per_message"))
    return tuple(section.fields.items())
