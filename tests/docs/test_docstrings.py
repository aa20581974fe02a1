"""The examples in docstrings give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest

MODULES = ("core.intervals", "core.time", "core.values", "job.expressions", "plan.read_range")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name: str) -> None:
    results = doctest.testmod(import_module(f"pipelines.{name}"))
    assert results.attempted > 0
    assert results.failed == 0
