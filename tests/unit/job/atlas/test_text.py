"""The text of a pipeline: JSON, extended JSON and scripts of the shell."""

from __future__ import annotations

import pytest

from pipelines.core.time import parse_instant
from pipelines.job.atlas_pipeline.text import Instant, Pattern, Refused, Unknown, read_processors, read_value


def test_json_and_shell_text_give_the_same_values() -> None:
    strict = '[{"$match": {"speed": {"$gt": 30}, "kind": "car", "ok": true, "note": null}}]'
    loose = "[ // fast ones\n {$match: {speed: {$gt: 30,}, 'kind': 'car', ok: true, note: undefined}}, /* end */ ]"
    assert read_value(strict) == read_value(loose)


def test_extended_json_and_constructors_are_values() -> None:
    value = read_value('{"a": {"$numberLong": "9007199254740993"}, "b": {"$date": "2026-01-01T00:00:00Z"}}')
    assert value == {"a": 9007199254740993, "b": Instant(parse_instant("2026-01-01"))}
    value = read_value(
        "{a: NumberLong('5'), b: new ISODate('2026-01-01'), c: {$date: {$numberLong: '1500'}}, d: /x.y/i}"
    )
    assert value == {
        "a": 5,
        "b": Instant(parse_instant("2026-01-01")),
        "c": Instant(1_500_000),
        "d": Pattern("x.y", "i"),
    }


def test_values_know_their_lines() -> None:
    pipeline = read_value('[\n  {"$match": {}},\n  {"$project":\n    {"a": 1}}\n]')
    assert [pipeline.line, pipeline[0].line, pipeline[1]["$project"].line] == [1, 2, 4]


def test_escapes_and_pairs_of_surrogates_are_characters() -> None:
    assert read_value(r'"a\n\u00e9\ud83d\ude00\x41"') == "a\né😀A"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[1,\n 2", 2, "the end of the text"),
        ("{a: 1,\n a: 2}", 2, "stands there twice"),
        ("[speed]", 1, "'speed' is not a value"),
        ("{at: ISODate()}", 1, "no clock of its own"),
        ("{at: ISODate('soon')}", 1, "not a date"),
        ("[1] 2", 1, "follows the end"),
        ("`a ${b}`", 1, "template"),
        ("[" * 200, 1, "nested too deeply"),
        ("{n: NumberLong('x')}", 1, "not a whole number"),
    ],
)
def test_what_is_no_value_is_refused_with_its_line(text: str, line: int, what: str) -> None:
    with pytest.raises(Refused, match=what) as refused:
        read_value(text)
    assert refused.value.line == line


def test_a_script_gives_the_processors_that_it_creates() -> None:
    script = """
    db.readings.insertOne({at: new Date(), watts: 5})   // passed over
    const source = {$source: {connectionName: SOURCE_NAME, topic: 'readings'}}
    let busy = {$match: {watts: {$gt: 5}}};
    sp.process([source])
    sp.createStreamProcessor('busy', [source, busy], {dlq: {db: 'plant', coll: 'dlq'}})
    sp.createStreamProcessor('all', [source])
    sp.busy.start()
    """
    busy, every = read_processors(script)
    assert (busy.name, len(busy.pipeline), busy.options["dlq"]["coll"]) == ("busy", 2, "dlq")
    assert (every.name, len(every.pipeline)) == ("all", 1)
    assert busy.pipeline[0]["$source"]["connectionName"] == Unknown("SOURCE_NAME")


@pytest.mark.parametrize(
    "script",
    [
        "job = {name: 'a', pipeline: [{$source: {}}]}\nsp.createStreamProcessor(job.name, job.pipeline)",
        "load('common.js')\nconst jobs = [{name: 'a', pipeline: [{$source: {}}]}]\njobs.forEach(j => sp.run(j))",
    ],
)
def test_a_script_may_name_the_parts_of_its_processors(script: str) -> None:
    (one,) = read_processors(script)
    assert (one.name, one.pipeline) == ("a", [{"$source": {}}])


def test_without_a_call_the_stages_are_those_assigned() -> None:
    (one,) = read_processors("s = {$source: {topic: 'a'}}\nw = {$match: {x: 1}}")
    assert ([next(iter(stage)) for stage in one.pipeline], one.assembled) == (["$source", "$match"], True)


def test_an_expression_of_a_script_is_not_taken_for_its_first_part() -> None:
    (one,) = read_processors("t = 'read' + x\np = [{$source: {topic: t}}]\nsp.process(p)")
    assert one.pipeline[0]["$source"]["topic"] == Unknown("t")


def test_a_text_without_a_pipeline_is_refused() -> None:
    with pytest.raises(Refused, match="no pipeline can be read"):
        read_processors("This is a story, don't read it.")
