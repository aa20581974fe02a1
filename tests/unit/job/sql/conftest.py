"""Scripts over two streams and two sets of reference data."""

from collections.abc import Callable

import pytest

from pipelines.core import model
from pipelines.core.steps import Rows
from pipelines.job.expressions import parse_columns
from pipelines.job.sql.scope import Settings
from pipelines.job.sql.script import Loaded, load

INPUTS = {
    "a": "k STRING, x BIGINT, y DOUBLE, t TIMESTAMP, u TIMESTAMP, r STRUCT<p: STRING, q: INT>, l ARRAY<BIGINT>",
    "b": "k STRING, x BIGINT, z DOUBLE, t TIMESTAMP",
    "c": "k STRING, t TIMESTAMP",
}
REFERENCES = {"ref": "k STRING, low DOUBLE, high DOUBLE"}

Script = Callable[[str], Loaded]


@pytest.fixture
def script() -> Script:
    inputs = {name: model.Input(name, parse_columns(text)) for name, text in INPUTS.items()}
    references = {name: model.Reference(name, parse_columns(text)) for name, text in REFERENCES.items()}
    return lambda text: load(text, inputs, references, Settings("script.asaql"))


@pytest.fixture
def rows(script: Script) -> Callable[[str], Rows]:
    """The relation of a script's only output."""

    def only(text: str) -> Rows:
        (output,) = script(text).steps.outputs
        return output.rows

    return only
