"""Transcript text to :class:`Case`: a job, the arrivals typed by its columns, and the expected results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.columns import under_their_names
from pipelines.core.errors import TailraceError, UsageError, did_you_mean
from pipelines.core.model import Arrival, Input, Job, OutputRange
from pipelines.core.time import parse_instant
from pipelines.core.verdicts import VERDICT_FIELDS
from pipelines.job.load import build_job
from pipelines.job.yaml import Document, load_all
from pipelines.job.yaml import Path as KeyPath
from pipelines.transcripts.typed_values import typed

CASE_KEYS = ("name", "job", "arrivals", "references", "range", "expect")
ARRIVAL_KEYS = ("arrival", "input", "partition", "sequence", "punctuation", "cause")
EXPECT_KEYS = ("verdicts", "windows", "outputs", "plan", "error", "tolerance")
VERDICT_KEYS = tuple("partition" if name == "input_partition" else name for name, _ in VERDICT_FIELDS)
PLAN_KEYS = ("read_from", "read_to")


class TranscriptError(TailraceError):
    """A transcript cannot be read (exit code 2)."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """Section ``expect`` of a case; a part that is None is not compared.

    ``outputs``: the rows of each output that is named, by its name in lower case.
    ``plan`` maps ``read_from`` and ``read_to`` to microseconds or None; ``tolerance`` is relative to max(1, |x|).
    """

    verdicts: tuple[Mapping[str, Any], ...] | None = None
    windows: tuple[Mapping[str, Any], ...] | None = None
    outputs: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    plan: Mapping[str, int | None] | None = None
    error: str | None = None
    tolerance: float | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One document of a transcript file. ``job`` is None where job or data are refused; ``refused`` is the reason.

    ``references`` has the rows of each of the job's references. Only a case that expects an error has a refusal; for
    other cases reading raises it.
    """

    name: str
    file: str | None
    line: int
    job: Job | None
    arrivals: tuple[Arrival, ...]
    output: OutputRange
    expect: Expectation
    refused: TailraceError | None = None
    references: Mapping[str, tuple[Mapping[str, object], ...]] = field(default_factory=dict)


def find(paths: Iterable[str | Path]) -> list[Path]:
    """The transcript files that ``paths`` name, in order; a directory names every ``*.yaml`` below it."""
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            below = sorted(path.rglob("*.yaml"))
            if not below:
                raise UsageError("contains no transcript", file=str(path), hint="transcripts are files named *.yaml")
            files.extend(below)
        elif path.exists():
            files.append(path)
        else:
            raise UsageError("there is no such file or directory", file=str(path))
    return files


def read_file(path: str | Path) -> list[Case]:
    """Every case in the file at ``path``; :class:`TailraceError` names file, line and key of what cannot be read."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read the transcript: {error.strerror}", file=str(path)) from None
    except UnicodeDecodeError as error:
        raise TranscriptError(f"not UTF-8 text (byte {error.start})", file=str(path)) from None
    return read_text(text, file=str(path))


def read_text(text: str, *, file: str | None = None) -> list[Case]:
    """Every case in a multi-document YAML text."""
    documents = load_all(text, file=file)
    if not documents:
        raise TranscriptError("contains no case", file=file)
    return [_Reader(document, file).case() for document in documents]


class _Reader:
    """Reads one document; each error names the case, the line and the key."""

    def __init__(self, document: Document, file: str | None) -> None:
        self.document = document
        self.file = file
        self.name: str | None = None

    # -- errors and shapes --------------------------------------------------------------------------------------

    def error(self, what: str, path: KeyPath, hint: str | None = None) -> TranscriptError:
        case = f"case '{self.name}': " if self.name else ""
        key = ".".join(map(str, path)) or None
        return TranscriptError(case + what, file=self.file, line=self.document.line_of(path), key=key, hint=hint)

    def keys(self, value: object, known: Iterable[str], path: KeyPath) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(f"{value!r} is not a mapping of keys to values", path)
        for key in value:
            if key not in known:
                raise self.error(f"unknown key '{key}'", (*path, key), did_you_mean(key, known))
        return value

    def rows(self, value: object, path: KeyPath) -> list[Any]:
        if not isinstance(value, list):
            raise self.error("must be a list of rows", path)
        return value

    def instant(self, value: object, path: KeyPath, *, truncate: bool = False) -> int:
        if not isinstance(value, str):
            raise self.error(f"{value!r} is not an instant", path, "write it like 2026-01-01T12:07:00Z")
        try:
            return parse_instant(value, truncate=truncate)
        except ValueError as error:
            raise self.error(str(error), path) from None

    def whole(self, value: object, path: KeyPath) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(f"{value!r} is not a whole number from 0", path)
        return value

    # -- the case -----------------------------------------------------------------------------------------------

    def case(self) -> Case:
        data = self.document.data
        name = data.get("name") if isinstance(data, dict) else None
        self.name = name if isinstance(name, str) else None
        data = self.keys(data, CASE_KEYS, ())
        if self.name is None:
            raise self.error("needs a name", ("name",) if "name" in data else ())
        for key in ("job", "expect"):
            if key not in data:
                raise self.error(f"'{key}' is missing", ())
        output = self.range(data.get("range"))
        rows = self.rows(data.get("arrivals") or [], ("arrivals",))
        expected_error = self.expected_error(data["expect"])
        refused: TailraceError | None = None
        job: Job | None = None
        arrivals: tuple[Arrival, ...] = ()
        references: dict[str, tuple[Mapping[str, object], ...]] = {}
        try:
            job = self.job(data["job"])
            arrivals = _Log(self, job).read(rows)
            references = self.references(data.get("references") or {}, job)
        except TailraceError as error:
            if expected_error is None:
                raise
            job, refused = None, error
        expect = self.expect(data["expect"], job)
        line = self.document.line_of(()) or 1
        return Case(self.name, self.file, line, job, arrivals, output, expect, refused, references)

    def job(self, data: object) -> Job:
        if isinstance(data, dict):
            data.setdefault("tailrace", 1)
        job = build_job(self.document, file=self.file, root=("job",))
        for part in job.inputs:
            for column in part.columns:
                if column.name.lower() in ARRIVAL_KEYS:
                    what = f"column '{column.name}' cannot be written in a transcript, whose rows have that key already"
                    raise self.error(what, ("job", "inputs", part.name, "columns"), "give it another name")
        return job

    def references(self, value: object, job: Job) -> dict[str, tuple[Mapping[str, object], ...]]:
        """The rows of each reference of the job, typed by its columns; without rows where none are given."""
        path: KeyPath = ("references",)
        given = self.keys(value, [one.name for one in job.references], path)
        found: dict[str, tuple[Mapping[str, object], ...]] = {}
        for one in job.references:
            columns = {column.name: column.type for column in one.columns}
            rows = []
            for index, row in enumerate(self.rows(given.get(one.name) or [], (*path, one.name))):
                here = (*path, one.name, index)
                row = under_their_names(row, columns) if isinstance(row, dict) else row
                self.keys(row, columns, here)
                rows.append({name: self.value(row.get(name), kind, (*here, name)) for name, kind in columns.items()})
                if one.effective is not None and rows[-1][one.effective] is None:
                    raise self.error("is missing: from this time on the row is in force", (*here, one.effective))
            found[one.name] = tuple(rows)
        return found

    def value(self, value: object, type_name: str, path: KeyPath, *, truncate: bool = False) -> object:
        try:
            return typed(value, type_name, truncate=truncate)
        except ValueError as error:
            raise self.error(str(error), path) from None

    def range(self, value: object) -> OutputRange:
        if value is None:
            return OutputRange()
        part = self.keys(value, ("from", "to"), ("range",))
        ends = {key: self.instant(part[key], ("range", key)) for key in part if part[key] is not None}
        output = OutputRange(ends.get("from"), ends.get("to"))
        if output.from_us is not None and output.to_us is not None and output.from_us >= output.to_us:
            raise self.error("'to' must be later than 'from'", ("range", "to"))
        return output

    # -- expect -------------------------------------------------------------------------------------------------

    def expected_error(self, value: object) -> str | None:
        error = value.get("error") if isinstance(value, dict) else None
        if error is not None and (not isinstance(error, str) or not error.strip()):
            raise self.error("must be text that the message contains", ("expect", "error"))
        return error

    def expect(self, value: object, job: Job | None) -> Expectation:
        part = self.keys(value, EXPECT_KEYS, ("expect",))
        if not set(part) - {"tolerance"}:
            raise self.error("expects nothing, so it cannot fail", ("expect",))
        if "error" in part and set(part) & {"verdicts", "windows", "outputs"}:
            raise self.error("'error' excludes 'verdicts', 'windows' and 'outputs'", ("expect", "error"))
        tolerance = part.get("tolerance")
        if "tolerance" in part and (isinstance(tolerance, bool) or not isinstance(tolerance, int | float)):
            raise self.error(f"{tolerance!r} is not a number", ("expect", "tolerance"))
        return Expectation(
            verdicts=self.verdicts(part["verdicts"], job) if "verdicts" in part else None,
            windows=self.results(part["windows"], ("expect", "windows")) if "windows" in part else None,
            outputs=self.outputs(part.get("outputs") or {}, job),
            plan=self.plan(part["plan"]) if "plan" in part else None,
            error=self.expected_error(part),
            tolerance=None if tolerance is None else float(tolerance),
        )

    def verdicts(self, value: object, job: Job | None) -> tuple[Mapping[str, Any], ...]:
        path: KeyPath = ("expect", "verdicts")
        rows = []
        for index, row in enumerate(self.rows(value or [], path)):
            here = (*path, index)
            part = dict(self.keys(row, VERDICT_KEYS, here))
            if "input" not in part:
                if job is None or len(job.inputs) > 1:
                    raise self.error("the job has several inputs; name one", here)
                part["input"] = job.inputs[0].name
            part.setdefault("partition", 0)
            if "sequence" not in part:
                raise self.error("'sequence' is missing", here)
            rows.append(part)
        identity = Counter((row["input"], row["partition"], row["sequence"]) for row in rows)
        for event, count in identity.items():
            if count > 1:
                raise self.error(f"event {'/'.join(map(str, event))} is listed twice", path)
        return tuple(rows)

    def outputs(self, value: object, job: Job | None) -> dict[str, tuple[Mapping[str, Any], ...]]:
        path: KeyPath = ("expect", "outputs")
        if value and (job is None or job.steps is None):
            raise self.error("the job has only windows", path, "expect 'windows'")
        names = [] if job is None or job.steps is None else [one.name for one in job.steps.outputs]
        lowered = {str(name).lower(): rows for name, rows in value.items()} if isinstance(value, dict) else value
        return {name: self.results(rows, (*path, name)) for name, rows in self.keys(lowered, names, path).items()}

    def results(self, value: object, path: KeyPath) -> tuple[Mapping[str, Any], ...]:
        rows = self.rows(value or [], path)
        for index, row in enumerate(rows):
            if not isinstance(row, dict) or not row:
                raise self.error(f"{row!r} is not a mapping of columns to values", (*path, index))
        return tuple(rows)

    def plan(self, value: object) -> Mapping[str, int | None]:
        path: KeyPath = ("expect", "plan")
        part = self.keys(value, PLAN_KEYS, path)
        return {key: None if text is None else self.instant(text, (*path, key)) for key, text in part.items()}


class _Log:
    """Reads section ``arrivals`` and counts sequences. ``inputs`` are those that have a log of their own."""

    def __init__(self, reader: _Reader, job: Job) -> None:
        self.reader = reader
        self.job = job
        self.inputs = {part.name: part for part in job.inputs if part.same_log_as is None}
        self.position: Counter[tuple[str, int | None]] = Counter()
        self.last: dict[tuple[str, int | None], tuple[int, int]] = {}

    def read(self, rows: list[Any]) -> tuple[Arrival, ...]:
        return tuple(self.arrival(row, ("arrivals", index)) for index, row in enumerate(rows))

    def arrival(self, row: Any, path: KeyPath) -> Arrival:
        if not isinstance(row, dict):
            raise self.reader.error(f"{row!r} is not a mapping of keys to values", path)
        part = self.input(row, path)
        names = {column.name for column in part.columns}
        log = {key: value for key, value in row.items() if key in ARRIVAL_KEYS}
        row = log | under_their_names({key: row[key] for key in row if key not in log}, names)
        self.reader.keys(row, [*ARRIVAL_KEYS, *sorted(names)], path)
        if "arrival" not in row:
            raise self.reader.error("'arrival' is missing", path)
        truncate = part.sub_microsecond == "truncate"
        arrival_us = self.reader.instant(row["arrival"], (*path, "arrival"), truncate=truncate)
        partition = self.partition(row, path)
        sequence = self.sequence(row, (part.name, partition), arrival_us, path)
        punctuation_us = None
        if "punctuation" in row:
            punctuation_us = self.reader.instant(row["punctuation"], (*path, "punctuation"), truncate=truncate)
            for key in row:
                if key in names:
                    raise self.reader.error("a punctuation has no payload", (*path, key))
        elif "cause" in row:
            raise self.reader.error("only a punctuation has a cause", (*path, "cause"))
        payload = {
            column.name: self.reader.value(row.get(column.name), column.type, (*path, column.name), truncate=truncate)
            for column in part.columns
        }
        return Arrival(part.name, partition, sequence, arrival_us, payload, punctuation_us, row.get("cause"))

    def input(self, row: dict[str, Any], path: KeyPath) -> Input:
        name = row.get("input")
        if name is None:
            if len(self.inputs) > 1:
                raise self.reader.error("the job has several inputs; name one", path, "add 'input'")
            return next(iter(self.inputs.values()))
        if name not in self.inputs:
            hint = did_you_mean(str(name), self.inputs)
            raise self.reader.error(f"there is no input '{name}'", (*path, "input"), hint)
        return self.inputs[name]

    def partition(self, row: dict[str, Any], path: KeyPath) -> int | None:
        value = row.get("partition", 0)
        if value is None:
            if "punctuation" not in row:
                raise self.reader.error("only a punctuation may apply to all partitions", (*path, "partition"))
            return None
        return self.reader.whole(value, (*path, "partition"))

    def sequence(self, row: dict[str, Any], log: tuple[str, int | None], arrival_us: int, path: KeyPath) -> int:
        default = self.position[log]
        sequence = self.reader.whole(row["sequence"], (*path, "sequence")) if "sequence" in row else default
        self.position[log] += 1
        before = self.last.get(log)
        if before is not None and sequence <= before[0]:
            raise self.reader.error(f"sequence {sequence} does not rise", (*path, "sequence"))
        if before is not None and arrival_us < before[1]:
            raise self.reader.error("arrives before the row above: rows must be in arrival order", (*path, "arrival"))
        self.last[log] = (sequence, arrival_us)
        return sequence
