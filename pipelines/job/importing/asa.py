"""Job files of Stream Analytics jobs: policies from the definition, columns from tables, samples and use."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sqlglot import exp

from pipelines.core.errors import UsageError
from pipelines.job.atlas_pipeline.stages import plain_name
from pipelines.job.atlas_pipeline.values import Guess
from pipelines.job.importing.asa_project import Definition, Source, definitions
from pipelines.job.importing.asa_script import METADATA, Reads, expressions_of, reads_of
from pipelines.job.importing.fields import columns_of, columns_text, learn, paths_of, read_sample
from pipelines.job.importing.result import Imported, job_file
from pipelines.job.sql.calls import called, is_timestamp
from pipelines.job.sql.grammar.expressions import Over
from pipelines.job.sql.grammar.statements import parse
from pipelines.job.sql.grammar.syntax import Rows, Script, Select
from pipelines.job.sql.inputs import job_name
from pipelines.job.sql.refusal import Refused
from pipelines.job.sql.types import TEXT

_SNAPSHOT = "snapshot_time"
"""The column with the time from which a snapshot of reference data is valid."""
_LEVELS = ("1.0", "1.1", "1.2")


def import_asa(path: Path, samples: Mapping[str, Path]) -> list[Imported]:
    """The jobs defined at ``path``; :class:`UsageError` if nothing there can be read as one."""
    return [_job(one, samples) for one in definitions(path)]


def _job(definition: Definition, samples: Mapping[str, Path]) -> Imported:
    name = plain_name(definition.name) or "job"
    job = Imported(name, script_name=definition.script_file, script=definition.script)
    if not definition.script.strip() or definition.script.startswith("["):
        raise UsageError("has no query that can be read", file=definition.name, hint="name the script itself (*.asaql)")
    known = _known_fields(job, definition, samples)
    script = _parsed(job, definition)
    reads = Reads(copy.deepcopy(known))
    if script is not None:
        reads = reads_of(script, copy.deepcopy(known))
        job.open_points += _open_points(script)
    for one in definition.inputs:
        reads.inputs.setdefault(one, Guess())
    ordering = _ordering(job, definition)
    inputs: dict[str, dict[str, object]] = {}
    references: dict[str, dict[str, object]] = {}
    for key, guess in reads.inputs.items():
        source = definition.inputs.get(key, Source(key, key in reads.references))
        _note_guesses(job, source, paths_of(known.get(key, Guess())), guess, script)
        if source.reference:
            references[key] = _reference(job, source, guess)
        else:
            inputs[key] = _input(job, source, guess)
    if key_unknown := [key for key in reads.inputs if key not in definition.inputs]:
        job.guesses.append(f"no definition of {', '.join(key_unknown)}: events are taken as JSON objects of a stream")
    job.open_points += definition.notes
    remarks = [f"Imported from the Stream Analytics job '{definition.name}'."]
    remarks += [f"guessed: {one}" for one in job.guesses] + [f"left out: {one}" for one in job.refusals]
    query = {"sql": job.script_name}
    job.yaml = job_file(name, "stream_analytics", inputs, ordering, references, query, remarks)
    return job


def _known_fields(job: Imported, definition: Definition, samples: Mapping[str, Path]) -> dict[str, Guess]:
    """Fields that samples have: those given, and those of the project's local inputs."""
    found = {key: one.sample for key, one in definition.inputs.items() if one.sample} | dict(samples)
    known: dict[str, Guess] = {}
    for key, path in found.items():
        conflicts: list[str] = []
        learn(known.setdefault(key, Guess()), read_sample(path), conflicts)
        for name in [name for name in known[key].fields if name.lower() in METADATA]:
            del known[key].fields[name]
        job.guesses += [f"{key}.{one} has values of several types in its samples: taken as text" for one in conflicts]
    return known


def _parsed(job: Imported, definition: Definition) -> Script | None:
    try:
        return parse(definition.script)
    except Refused as refused:
        job.refusals.append(str(refused.at(definition.script_file)))
        job.is_readable = False
        return None


def _note_guesses(
    job: Imported, source: Source, sampled: Mapping[str, str], guess: Guess, script: Script | None
) -> None:
    """Fields that neither a sample nor CREATE TABLE names; of CSV, every field is text."""
    tables = script.tables if script is not None else ()
    if any(job_name(table.name.name) == job_name(source.name) for table in tables):
        return
    if source.serialization == "csv":
        for one in guess.fields.values():
            one.found, one.fields, one.element = TEXT, {}, None
    key = job_name(source.name)
    found = {path: kind for path, kind in paths_of(guess).items() if path not in sampled}
    job.guesses += [f"{key}.{path} {kind}: guessed from its use in the script" for path, kind in found.items()]


def _input(job: Imported, source: Source, guess: Guess) -> dict[str, object]:
    columns = columns_of(guess, job.refusals)
    if not columns:
        job.guesses.append(f"no field of {source.name} is known: give --samples {source.name}=FILE")
    if source.serialization in ("customclr", "protobuf"):
        job.refusals.append(f"{source.name} is read by code ({source.serialization}): ingest its events as JSON")
    settings: dict[str, object] = {"columns": columns_text(columns) or "event STRING"}
    if source.partitions is not None:
        settings["partitions"] = source.partitions
    return settings


def _reference(job: Imported, source: Source, guess: Guess) -> dict[str, object]:
    columns = columns_text(columns_of(guess, job.refusals)) or "id STRING"
    if "{date}" not in source.path_pattern.lower() and not source.refreshed:
        return {"columns": columns, "effective": "static"}
    job.open_points.append(
        f"{source.name} changes: ingest each snapshot with the time from which it is valid in {_SNAPSHOT} (Q85)"
    )
    return {"columns": f"{columns}, {_SNAPSHOT} TIMESTAMP", "effective": _SNAPSHOT}


def _ordering(job: Imported, definition: Definition) -> dict[str, object]:
    """The policy: an absent late tolerance has no bound; a script alone has no policy at all."""
    settings = definition.settings
    if not settings:
        job.guesses.append("no settings of the job are known: late 5 s, out of order 0 s, adjust, as in the portal")
        return {"late_arrival": "5s", "out_of_order": "0s", "action": "adjust"}
    late = _seconds(job, settings, "eventslatearrivalmaxdelayinseconds", "-1")
    disorder = _seconds(job, settings, "eventsoutofordermaxdelayinseconds", "0")
    action = str(settings.get("eventsoutoforderpolicy", "Adjust")).lower()
    if action not in ("adjust", "drop"):
        job.guesses.append(f"out-of-order policy '{action}' is not known: taken as adjust")
        action = "adjust"
    level = settings.get("compatibilitylevel")
    if str(level) not in _LEVELS:
        job.guesses.append("the compatibility level is not known: names and types are taken as at 1.2")
    elif str(level) != "1.2":
        job.open_points.append(f"compatibility level {level}: names and types are those of 1.2 here (Q26, Q28)")
    if str(settings.get("datalocale", "en-US")).lower() != "en-us":
        job.refusals.append(f"numbers in CSV are written as in {settings['datalocale']}: ingest them as en-US")
    if str(settings.get("outputerrorpolicy", "Stop")).lower() == "drop":
        job.open_points.append("output error policy Drop: the live run may lack rows that its sink refused (Q96)")
    return {"late_arrival": "unbounded" if late < 0 else f"{late}s", "out_of_order": f"{disorder}s", "action": action}


def _seconds(job: Imported, settings: Mapping[str, Any], key: str, absent: str) -> int:
    given = settings.get(key, absent)
    if re.fullmatch(r"-?\d+", str(given)):
        return int(given)
    job.guesses.append(f"{key} is computed ({given}): taken as {absent}")
    return int(absent)


def _open_points(script: Script) -> list[str]:
    """Questions that the product's pages leave open and that the script touches."""
    nodes = [node for select in _selects(script) for one in expressions_of(select) for node in one.walk()]
    compared = (exp.EQ, exp.NEQ, exp.LT, exp.GT, exp.LTE, exp.GTE, exp.Like, exp.In)
    texts = any(isinstance(one, exp.Literal) and one.is_string and isinstance(one.parent, compared) for one in nodes)
    found = {
        "NOT over a comparison with null is null, which keeps no row (Q31)": any(
            isinstance(one, exp.Not) and isinstance(one.this.unnest(), compared) for one in nodes
        ),
        "a quotient of whole numbers is cut to a whole number (Q36)": any(
            isinstance(one, (exp.Div, exp.Mod)) for one in nodes
        ),
        "texts are compared exactly; string_comparison: ignore_case is the other choice (Q39)": texts,
        "AVG of whole numbers has a fraction (Q52)": any(called(one) == "AVG" for one in nodes),
        "LIMIT DURATION leaves out the row that is exactly that long ago (Q62)": any(
            isinstance(one, Over) and one.args.get("limit") is not None for one in nodes
        ),
        "EventProcessedUtcTime is a wall clock that no log contains (Q24)": any(
            isinstance(one, exp.Column) and one.name.lower() == "eventprocessedutctime" for one in nodes
        ),
    }
    return [text for text, touched in found.items() if touched] + list(_outputs_without_time(script))


def _outputs_without_time(script: Script) -> Iterator[str]:
    """The outputs that select System.Timestamp() neither themselves nor from a step that does (Q95)."""
    times: dict[str, set[str]] = {}
    for step in script.steps:
        times[step.name.name.lower()] = _times(_first_branch(step.rows), times)
    for rows in script.outputs:
        select = _first_branch(rows)
        if not _times(select, times):
            name = select.into.name if select.into is not None else "output"
            yield f"{name} does not select System.Timestamp(): its live rows can be compared only as a whole (Q95)"


def _times(select: Select, times: Mapping[str, set[str]]) -> set[str]:
    """The columns of a SELECT that contain System.Timestamp(), in lower case; ``times``: those of the steps before."""
    known = times.get(select.source.name.name.lower(), set())
    found: set[str] = set()
    for item in select.items:
        value = item.value
        if isinstance(value, exp.Star) or (isinstance(value, exp.Dot) and isinstance(value.expression, exp.Star)):
            found |= known
        elif _is_time(value, known):
            found.add((item.alias.name if item.alias is not None else value.name).lower())
    return found


def _is_time(value: exp.Expr, known: set[str]) -> bool:
    if isinstance(value, exp.Column) and value.name.lower() in known:
        return True
    return any(is_timestamp(node) for node in value.walk())


def _first_branch(rows: Rows) -> Select:
    return rows if isinstance(rows, Select) else rows.branches[0]


def _selects(script: Script) -> Iterator[Select]:
    for rows in (*(one.rows for one in script.steps), *script.outputs):
        yield from [rows] if isinstance(rows, Select) else rows.branches
