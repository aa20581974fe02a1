"""Every script of tests/scripts loads, and so does what a slip of the pen makes of it, or is refused."""

import itertools
import os
import random
import re
from pathlib import Path

import pytest

from pipelines.core.errors import JobFileError
from pipelines.core.steps import Steps
from pipelines.job.load import build_job, load_job
from pipelines.job.sql.grammar.tokens import tokens
from pipelines.job.sql.places import Places
from pipelines.job.yaml import Document, load_all

FOLDER = Path(__file__).parents[3] / "scripts"
FILES = sorted(FOLDER.glob("*.yaml"))
CASES = int(os.environ.get("TAILRACE_FUZZ_CASES", "15"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_script_loads(file: Path) -> None:
    job = load_job(file)
    assert isinstance(job.query, Steps)
    assert job.query.outputs


def mutated(pieces: list[str], others: list[str], chance: random.Random) -> str:
    """The script with a few tokens left out, doubled, exchanged or replaced."""
    pieces = list(pieces)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        at, to = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        match chance.randrange(5):
            case 0 if len(pieces) > 1:
                del pieces[at]
            case 1:
                pieces.insert(at, pieces[at])
            case 2:
                pieces[at], pieces[to] = pieces[to], pieces[at]
            case 3:
                pieces[at] = chance.choice(others)
            case _:
                pieces.insert(at, chance.choice(others))
    return " ".join(pieces)


def refusal(document: Document) -> str | None:
    """Why the job does not load."""
    try:
        build_job(document, file="job.yaml")
    except JobFileError as error:
        return str(error)
    return None


def pieces_of(text: str) -> list[str]:
    """The tokens as they are written."""
    starts = [token.start for token in tokens(text, Places(text))]
    return [re.sub(r"--[^\n]*", "", text[one:other]).strip() for one, other in itertools.pairwise(starts)]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_mutated_script_loads_or_is_refused_with_its_place(file: Path) -> None:
    chance = random.Random(file.stem)
    pieces = pieces_of(file.with_suffix(".asaql").read_text())
    others = pieces_of((FOLDER / f"{chance.choice(FILES).stem}.asaql").read_text())
    (document,) = load_all(file.read_text())
    for _ in range(CASES):
        script = mutated(pieces, [*others, "1", "''", "NULL", "*", "(", ")"], chance)
        document.data["query"]["sql"] = f"{script}\n-- without SELECT it would be a path"
        error = refusal(document)
        assert error is None or re.match(r"job\.yaml:query\.sql:\d+:\d+: .", error), (script, error)
