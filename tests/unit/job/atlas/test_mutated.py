"""Damaged pipelines: each is read or refused, and nothing else happens."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest
from atlas_jobs import MERGE, SOURCE, job_text, tumbling

from pipelines.core.errors import JobFileError
from pipelines.job.atlas_pipeline.operators import OPERATORS
from pipelines.job.load import parse_job

GROUP = {
    "_id": {"m": "$machine", "at": {"$dateTrunc": {"date": {"$toDate": "$at"}, "unit": "hour"}}},
    "n": {"$sum": 1},
    "mean": {"$avg": {"$divide": ["$watts", "$temp"]}},
    "top": {"$topN": {"n": 2, "output": ["$watts", "$machine"], "sortBy": {"watts": -1}}},
    "all": {"$push": "$$ROOT"},
}
PIPELINE = [
    SOURCE,
    {"$match": {"watts": {"$gte": 0, "$nin": [5, None]}, "$or": [{"machine": {"$regex": "^m"}}, {"tags": "hot"}]}},
    {"$validate": {"validator": {"$jsonSchema": {"required": ["machine"], "properties": {"temp": {"maximum": 9}}}}}},
    {"$unwind": {"path": "$tags", "includeArrayIndex": "place_of_tag", "preserveNullAndEmptyArrays": True}},
    {"$addFields": {"hall": {"$ifNull": ["$place.hall", "none"]}, "place.wing": {"$toUpper": "$machine"}}},
    tumbling(
        {"$sort": {"temp": -1}},
        {"$group": GROUP},
        {"$project": {"_id": 0, "m": "$_id.m", "n": 1, "sums": {"$map": {"input": "$all", "in": "$$this.watts"}}}},
        allowedLateness={"size": 5, "unit": "second"},
    ),
    {
        "$addFields": {
            "parts": {"$reduce": {"input": "$sums", "initialValue": 0, "in": {"$add": ["$$value", "$$this"]}}}
        }
    },
    MERGE,
]
SPARE = [
    None,
    True,
    -1,
    10**30,
    0.5,
    "",
    "$",
    "$$",
    "$a.b",
    "$machine.x",
    "$$ROOT",
    [],
    {},
    [[]],
    {"$add": []},
    {"": 1},
]


def places(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every node."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, one in inner for found in places(one, (*path, key)))]


def mutated(chance: random.Random) -> Any:
    """The pipeline with one to three nodes replaced, renamed or removed."""
    pipeline: Any = copy.deepcopy(PIPELINE)
    for _ in range(chance.randint(1, 3)):
        *way, last = chance.choice([path for path in places(pipeline) if path])
        node = pipeline
        for key in way:
            node = node[key]
        match chance.randint(0, 3):
            case 0:
                node[last] = copy.deepcopy(chance.choice(SPARE))
            case 1 if isinstance(node, dict):
                node[chance.choice([*OPERATORS, "$group", "x", "$match"])] = node.pop(last)
            case 2:
                node[last] = {chance.choice(list(OPERATORS)): node[last]}
            case _:
                del node[last]
    return pipeline


def read(pipeline: str) -> bool:
    try:
        parse_job(job_text(pipeline), file="alerts.yaml")
    except JobFileError:
        return False
    return True


def test_a_mutated_pipeline_is_read_or_refused() -> None:
    chance = random.Random(20260101)
    assert read(json.dumps(PIPELINE))
    read_whole = sum(read(json.dumps(mutated(chance))) for _ in range(600))
    assert 20 < read_whole < 560, "mutations are neither all harmless nor all fatal"


def test_a_text_with_a_piece_missing_is_read_or_refused() -> None:
    chance = random.Random(20260102)
    text = json.dumps(PIPELINE)
    for _ in range(150):
        start = chance.randrange(len(text))
        read(text[:start] + text[start + chance.randint(1, 30) :])


@pytest.mark.parametrize("operator", sorted(OPERATORS))
def test_an_operator_with_any_argument_is_read_or_refused(operator: str) -> None:
    for spare in [*SPARE, ["$watts"], ["$watts", "$temp"], ["$machine", "$machine", "$machine"], "$tags", "$place"]:
        read(json.dumps([SOURCE, {"$addFields": {"x": {operator: spare}}}, MERGE]))


def test_deep_nesting_is_refused() -> None:
    node: Any = "$watts"
    for _ in range(500):
        node = {"$abs": node}
    assert not read(json.dumps([SOURCE, {"$addFields": {"x": node}}, MERGE]))


def test_an_expression_that_grows_with_each_level_is_refused() -> None:
    node: Any = "$temp"
    for _ in range(25):
        node = {"$toDouble": {"$toString": node}}
    with pytest.raises(JobFileError, match="becomes too long"):
        parse_job(job_text(json.dumps([SOURCE, {"$addFields": {"x": node}}, MERGE])))
