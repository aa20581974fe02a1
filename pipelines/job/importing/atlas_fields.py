"""The fields that a pipeline reads: those that are known, and those that its use of them lets one guess."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pipelines.core.model import Column, Reference
from pipelines.job.atlas_pipeline.stages import Guesses, Translated, translate
from pipelines.job.atlas_pipeline.text import Processor
from pipelines.job.atlas_pipeline.values import Guess, spark_type

_PASSES = 6
"""A field that a document written whole brings is found in the pass after the one that finds the document's others."""


@dataclass(frozen=True, slots=True)
class Fields:
    """Columns as ``name TYPE`` of the source's documents and of each collection looked up, and which were guessed."""

    columns: tuple[Column, ...]
    references: Mapping[str, tuple[Column, ...]]
    guessed: tuple[str, ...]


def fields_read(
    processor: Processor, known: tuple[Column, ...], references: Mapping[str, Reference]
) -> tuple[Fields, Translated]:
    """The fields, and the pipeline over them; Refused where it cannot be translated."""
    guesses = Guesses()
    seen = -1
    for _ in range(_PASSES):
        translated = translate(processor, "documents", known, references, guesses)
        count = _count(guesses.documents) + sum(map(_count, guesses.references.values()))
        if count == seen:
            break
        seen = count
    columns = (*known, *_columns(guesses.documents))
    found = {name: _columns(guess) for name, guess in guesses.references.items()}
    guessed = [f"{one.name} {one.type}" for one in _columns(guesses.documents)]
    guessed += [f"{name}.{one.name} {one.type}" for name, fields in found.items() for one in fields]
    return Fields(columns, found, tuple(guessed)), translated


def _columns(guess: Guess) -> tuple[Column, ...]:
    return tuple(Column(name, spark_type(one)) for name, one in guess.fields.items())


def _count(guess: Guess) -> int:
    inner = list(guess.fields.values()) + ([guess.element] if guess.element is not None else [])
    return 1 + sum(map(_count, inner))
