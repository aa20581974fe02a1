"""Every parser, fed with damaged bytes: it gives a value or a sentence."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from fuzz import Parser, crashes, parsers
from hypothesis import given, settings
from hypothesis import strategies as st
from table import fuzzed_records

from pipelines.core.errors import JobFileError
from pipelines.core.time import format_duration, format_instant, parse_duration, parse_instant
from pipelines.job.load import parse_job

COUNT, SEED = int(os.environ.get("TAILRACE_FUZZ", "150")), int(os.environ.get("TAILRACE_SEED", "1"))
NAMES = [parser.name for parser in parsers(Path())]


@pytest.fixture
def all_parsers(tmp_path: Path) -> dict[str, Parser]:
    return {parser.name: parser for parser in parsers(tmp_path)}


@pytest.mark.parametrize("name", NAMES)
def test_damaged_bytes_make_no_parser_crash(all_parsers: dict[str, Parser], name: str) -> None:
    found = list(crashes(all_parsers[name], SEED, COUNT))
    assert not found, found[0]


def test_the_seeds_themselves_are_parsed(all_parsers: dict[str, Parser]) -> None:
    # scripts and pipelines have inputs of their own, which the job files among the seeds give them
    for parser in all_parsers.values():
        for seed in parser.seeds if parser.name not in ("SQL", "pipeline") else ():
            parser.parse(seed)


def test_every_fuzzed_record_is_in_the_log_or_in_the_quarantine(tmp_path: Path) -> None:
    assert fuzzed_records(tmp_path, SEED, 4000) == ("fuzzed records not accounted for", 4000, 0)


@given(st.text(max_size=40))
@settings(max_examples=COUNT)
def test_any_text_is_an_instant_that_can_be_written_again_or_none(text: str) -> None:
    try:
        found = parse_instant(text)
    except ValueError:
        return
    assert parse_instant(format_instant(found)) == found


@given(st.from_regex(r"[+-]?(\d{1,30}(us|ms|s|m|h|d|w)){1,3}|P(\d{1,9}D)?T?(\d{1,9}[HMS])?", fullmatch=True))
@settings(max_examples=COUNT)
def test_any_duration_can_be_written_again(text: str) -> None:
    try:
        found = parse_duration(text)
    except ValueError:
        return
    assert parse_duration(format_duration(found)) == found


_YAML = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=10)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(["job", "profile", "inputs", "query", "ordering", "end_of_log", "references", "stream"]), _YAML)
@settings(max_examples=COUNT)
def test_any_value_of_a_key_of_a_job_file_is_taken_or_refused(key: str, value: object) -> None:
    job = {
        "tailrace": 1,
        "job": "cars",
        "profile": "atlas",
        "inputs": {"cars": {"columns": "at TIMESTAMP", "timestamp_by": "at"}},
        "query": {"from": "cars", "window": {"tumbling": {"size": "1h"}}, "aggregates": {"n": "count(*)"}},
    }
    with suppress(JobFileError):
        parse_job(json.dumps({**job, key: value}))
