"""YAML 1.2 text as plain data, with the line of each key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pipelines.core.errors import JobFileError

Path = tuple[str | int, ...]

_TAG = "tag:yaml.org,2002:"
_MAX_DEPTH = 64
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass
class Document:
    """One YAML document: ``data`` as dict, list and scalars, ``lines`` from key path to line (counted from 1)."""

    data: Any
    lines: dict[Path, int] = field(default_factory=dict)

    def line_of(self, path: Path) -> int | None:
        """The line of ``path`` or of its nearest ancestor in the text."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.lines:
                return self.lines[path[:length]]
        return None


def load_all(text: str, *, file: str | None = None) -> list[Document]:
    """Every document of a YAML 1.2 text; instants stay text. Raises :class:`JobFileError` naming the line."""
    try:
        nodes = list(YAML(typ="safe", pure=True).compose_all(text))
        return [_document(node, file) for node in nodes if node is not None]
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else None
        problem = error.problem or "not YAML"
        raise JobFileError(f"not valid YAML: {problem}", file=file, line=line, hint="correct the syntax") from None
    except YAMLError as error:
        raise JobFileError(f"not valid YAML: {str(error).splitlines()[0]}", file=file) from None


def _document(node: Node, file: str | None) -> Document:
    document = Document(None)
    document.data = _value(node, (), document.lines, file)
    return document


def _value(node: Node, path: Path, lines: dict[Path, int], file: str | None) -> Any:
    line = node.start_mark.line + 1
    lines.setdefault(path, line)
    if len(path) > _MAX_DEPTH:
        raise JobFileError("nested too deeply, or an alias contains itself", file=file, line=line)
    if isinstance(node, MappingNode):
        mapping: dict[str, Any] = {}
        for key, key_line, value in _entries(node, file):
            if key in mapping:
                raise JobFileError(
                    "is given twice",
                    file=file,
                    line=key_line,
                    key=".".join(map(str, (*path, key))),
                    hint="keep one of the two",
                )
            lines[(*path, key)] = key_line
            mapping[key] = _value(value, (*path, key), lines, file)
        return mapping
    if isinstance(node, SequenceNode):
        return [_value(item, (*path, index), lines, file) for index, item in enumerate(node.value)]
    assert isinstance(node, ScalarNode)
    return _scalar(node, file)


def _entries(node: MappingNode, file: str | None) -> Iterator[tuple[str, int, Node]]:
    for key_node, value_node in node.value:
        yield _text(key_node, file), key_node.start_mark.line + 1, value_node


def _text(node: Node, file: str | None) -> str:
    text = str(node.value)
    if _SURROGATE.search(text):
        line = node.start_mark.line + 1
        raise JobFileError("half of a surrogate pair is no text", file=file, line=line, hint="write the character")
    return text


def _scalar(node: ScalarNode, file: str | None) -> Any:
    text = _text(node, file)
    match (node.tag or "").removeprefix(_TAG):
        case "null":
            return None
        case "bool":
            return text.lower() == "true"
        case "int":
            return int(text.replace("_", ""), 0) if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(text)
        case "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        case _:
            return text
