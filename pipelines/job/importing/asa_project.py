"""Where a Stream Analytics job is defined: a project folder, an ARM template, or a script alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.errors import UsageError
from pipelines.job.importing.blocks import as_data, read_blocks
from pipelines.job.sql.inputs import job_name

SETTINGS = (
    "eventslatearrivalmaxdelayinseconds",
    "eventsoutofordermaxdelayinseconds",
    "eventsoutoforderpolicy",
    "outputerrorpolicy",
    "compatibilitylevel",
    "datalocale",
)
"""Settings of a job that can matter, in lower case: templates of different ages write them differently."""

_LOADED = re.compile(r"""\$\{(?:loadTextContent|file)\(['"](?:\$\{path\.module\}/)?([^'"]+)['"].*\)\}""", re.DOTALL)
"""A script that a Bicep or Terraform file loads from a file next to it."""


@dataclass(slots=True)
class Source:
    """An input as it is defined: ``reference`` or a stream; how its events are written; how its snapshots are named."""

    name: str
    reference: bool = False
    serialization: str = ""
    partitions: int | None = None
    path_pattern: str = ""
    refreshed: bool = False
    sample: Path | str | None = None
    """A file of events, or their text."""


@dataclass(slots=True)
class Definition:
    """A live job: its script, its inputs by their name in a job file, its settings by name in lower case."""

    name: str
    script: str
    script_file: str
    inputs: dict[str, Source] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def definitions(path: Path) -> list[Definition]:
    """The jobs defined at ``path``; :class:`UsageError` if there is none."""
    if not path.exists():
        raise UsageError("is not there", file=str(path), hint="name a project's folder, a template or a script")
    if path.is_dir():
        found = list(_project(path))
    elif path.suffix.lower() == ".json":
        is_project = path.name.lower() == "asaproj.json"
        found = list(_project(path.parent) if is_project else _template(path, _json(path)))
    elif path.suffix.lower() == ".bicep":
        found = list(_template(path, _of_bicep(_text(path))))
    elif path.suffix.lower() == ".tf":
        found = list(_of_terraform(path))
    else:
        found = [Definition(path.stem, _text(path), path.name)]
    for one in found:
        loaded = _LOADED.fullmatch(one.script.strip())
        if loaded is not None:
            one.script = _text(path.parent / loaded[1])
    if not found:
        raise UsageError("defines no Stream Analytics job", file=str(path), hint="name the script itself (*.asaql)")
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise UsageError(f"cannot be read: {why}", file=str(path)) from None


def _json(path: Path) -> Any:
    """The JSON of a file, with the comments and trailing commas that templates may have."""
    text = re.sub(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', lambda match: match[1] or "", _text(path), flags=re.DOTALL)
    text = re.sub(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', lambda match: match[1] or "", text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not JSON: {error}", file=str(path)) from None


def _lower(data: Any) -> dict[str, Any]:
    """A mapping with its keys in lower case; of anything else {}."""
    return {str(key).lower(): value for key, value in data.items()} if isinstance(data, dict) else {}


# a project's folder


def _project(folder: Path) -> Iterator[Definition]:
    """The job of each ``asaproj.json`` in or under the folder; without one each script with what stands around it."""
    projects = sorted(folder.rglob("asaproj.json"))
    for path in projects:
        described = _lower(_json(path))
        root = path.parent
        script = root / str(described.get("startfile") or "")
        if not script.is_file():
            scripts = sorted(root.glob("*.asaql"))
            if not scripts:
                raise UsageError("names no 'startFile' that is there", file=str(path), hint="name the script itself")
            script = scripts[0]
        files = [_lower(one) for one in described.get("configurations") or []]
        kinds = {str(one.get("filepath", "")).replace("\\", "/"): str(one.get("subtype", "")) for one in files}
        yield _of_files(str(described.get("name") or script.stem), script, [root / one for one in kinds])
    if projects:
        return
    for script in sorted(folder.rglob("*.asaql")):
        yield _of_files(script.stem, script, sorted(script.parent.rglob("*.json")))


def _of_files(name: str, script: Path, files: list[Path]) -> Definition:
    """The job of a script and its configuration files; what each is shows in its content."""
    found = Definition(name, _text(script), script.name)
    mocks = []
    for path in files:
        if not path.is_file() or path.suffix.lower() != ".json":
            continue
        data = _lower(_json(path))
        if any(key in data for key in SETTINGS):
            found.settings |= {key: data[key] for key in SETTINGS if data.get(key) is not None}
        elif "inputalias" in data:
            mocks.append((path, data))
        elif "serialization" in data and str(data.get("type", "")).lower() in ("data stream", "reference data"):
            one = _input_of_file(data)
            found.inputs[job_name(one.name)] = one
    for path, data in mocks:
        known = found.inputs.setdefault(
            job_name(str(data["inputalias"])),
            Source(str(data["inputalias"]), str(data.get("type", "")).lower() == "reference data"),
        )
        sample = path.parent / str(data.get("filepath") or "").replace("\\", "/")
        known.sample = sample if sample.is_file() else data.get("sample")
    return found


def _input_of_file(data: dict[str, Any]) -> Source:
    blob = _lower(data.get("blobreferenceproperties"))
    return Source(
        str(data.get("name", "input")),
        str(data.get("type", "")).lower() == "reference data",
        str(_lower(data.get("serialization")).get("type") or "").lower(),
        path_pattern=str(blob.get("pathpattern") or ""),
        refreshed="sqlreferenceinputinfo" in data,
    )


# a template


def _template(path: Path, data: Any) -> Iterator[Definition]:
    """The jobs of an ARM template; parameters stand for their default values."""
    template = _lower(data)
    resources = list(_resources(template.get("resources"), ""))
    values = _Values(template)
    for name, resource in resources:
        if str(resource.get("type", "")).lower() != "microsoft.streamanalytics/streamingjobs":
            continue
        job = _of_resource(values.of(name), path, _lower(resource.get("properties")), values)
        for child_name, child in resources:
            kind = str(child.get("type", "")).lower().removeprefix("microsoft.streamanalytics/streamingjobs/")
            parts = str(values.of(child_name)).split("/")
            if kind == "inputs":
                _add_input(job, parts[-1], child, values)
            elif kind == "transformations":
                job.script = str(values.of(_lower(child.get("properties")).get("query", job.script)) or "")
        yield job


def _resources(given: Any, parent: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every resource and those within it, whose type and name continue those of the outer one."""
    listed = list(given.values()) if isinstance(given, dict) else given if isinstance(given, list) else []
    for one in map(_lower, listed):
        kind = str(one.get("type", ""))
        if parent and "/" not in kind:
            one["type"] = f"{parent}/{kind}"
        yield str(one.get("name", "")), one
        yield from _resources(one.get("resources"), str(one["type"]) if "type" in one else "")


class _Values:
    """Values of a template, in which ``[parameters('x')]`` and ``[variables('x')]`` stand for others."""

    def __init__(self, template: dict[str, Any]) -> None:
        self._known = {
            **{key: _lower(one).get("defaultvalue") for key, one in _lower(template.get("parameters")).items()},
            **_lower(template.get("variables")),
        }

    def of(self, value: Any) -> Any:
        """The value, or what it refers to; an expression that computes stays as it is."""
        if isinstance(value, str) and value.startswith("["):
            names = re.findall(r"(?:parameters|variables)\('([^']+)'\)", value)
            if len(names) == 1 and re.fullmatch(r"\[\w+\('[^']+'\)\]", value):
                return self._known.get(names[0].lower(), value)
            literal = re.search(r"/?'?([\w-]+)'\)\]$", value)
            return literal[1] if literal else value
        return value


def _of_resource(name: Any, path: Path, properties: dict[str, Any], values: _Values) -> Definition:
    transformation = _lower(_lower(properties.get("transformation")).get("properties"))
    job = Definition(
        str(name) if re.search(r"\w", str(name)) and not str(name).startswith("[") else path.stem,
        str(values.of(transformation.get("query", "")) or ""),
        f"{path.stem}.asaql",
    )
    job.settings = {key: values.of(properties[key]) for key in SETTINGS if properties.get(key) is not None}
    start = values.of(properties.get("outputstartmode"))
    if start is not None:
        job.notes.append(f"the live job starts its output by {start}: earlier rows of a replay are not missing there")
    for one in properties.get("inputs") or []:
        _add_input(job, str(values.of(_lower(one).get("name", "input"))), _lower(one), values)
    return job


def _add_input(job: Definition, name: str, resource: dict[str, Any], values: _Values) -> None:
    properties = _lower(resource.get("properties"))
    source = _lower(_lower(properties.get("datasource")).get("properties"))
    count = values.of(source.get("sourcepartitioncount"))
    job.inputs[job_name(name)] = Source(
        name,
        str(values.of(properties.get("type", ""))).lower() == "reference",
        str(_lower(properties.get("serialization")).get("type") or "").lower(),
        int(count) if isinstance(count, (int, str)) and str(count).isdigit() else None,
        str(values.of(source.get("pathpattern")) or ""),
        refreshed=str(values.of(source.get("refreshtype")) or "static").lower() != "static",
    )


# Bicep and Terraform


def _of_bicep(text: str) -> dict[str, Any]:
    """The resources of a Bicep file as those of a template."""
    blocks = read_blocks(text).blocks
    resources = []
    for one in blocks:
        if one.key == "resource" and len(one.labels) > 1:
            data = as_data(one.value)
            resources.append({**(data if isinstance(data, dict) else {}), "type": one.labels[1].partition("@")[0]})
    return {"resources": resources}


def _of_terraform(path: Path) -> Iterator[Definition]:
    """The job of a Terraform file, with the inputs in it; the provider's late tolerance is 5 s where none is given."""
    blocks = [one for one in read_blocks(_text(path)).blocks if one.key == "resource" and len(one.labels) == 2]
    resources = [(one.labels[0], one.labels[1], as_data(one.value)) for one in blocks]
    for kind, label, data in resources:
        if kind != "azurerm_stream_analytics_job":
            continue
        settings = {key.replace("_", ""): value for key, value in data.items()}
        job = Definition(str(data.get("name", label)), str(data.get("transformation_query", "")), f"{path.stem}.asaql")
        job.settings = {"eventslatearrivalmaxdelayinseconds": 5} | {
            key: settings[key] for key in SETTINGS if key in settings
        }
        for input_kind, input_label, one in resources:
            match = re.match(r"azurerm_stream_analytics_(stream|reference)_input_", input_kind)
            if match is not None:
                name = str(one.get("name", input_label))
                job.inputs[job_name(name)] = Source(
                    name,
                    match[1] == "reference",
                    str(_lower(one.get("serialization")).get("type") or "").lower(),
                    path_pattern=str(one.get("path_pattern") or ""),
                    refreshed=str(one.get("refresh_type") or "Static") != "Static",
                )
        yield job
