"""Plans: what will be read and written, predicted from the logs alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from lakehouse_samples import JOB_TEXT, job, lines, record

from pipelines.core.errors import UsageError
from pipelines.core.model import EVERYTHING, OutputRange
from pipelines.core.time import DAY, HOUR, MINUTE, parse_instant
from pipelines.ingest.batch import ingest
from pipelines.job.load import parse_job
from pipelines.lakehouse import runs
from pipelines.lakehouse.root import Lakehouse
from pipelines.plan.definition import is_settled
from pipelines.plan.read_range import ReadRange
from pipelines.plan.stages import describe_plan, stages_of
from pipelines.replay import builder, size
from pipelines.replay.builder import LogReads, make_plan
from pipelines.replay.size import tasks_of

JOB = job()
NOON = parse_instant("2026-01-01T12:00:00Z")


@pytest.fixture
def lakehouse(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        times = [f"2026-01-0{day}T{hour:02d}:00:00Z" for hour in (6, 12, 18)]
        records = [record(10 * day + i, arrival_time=time, at=time) for i, time in enumerate(times)]
        ingest(JOB, "cars", [lines(tmp_path / f"{day}.jsonl", *records)], tmp_path / "lakehouse")
    return tmp_path / "lakehouse"


def test_a_plan_names_range_rule_version_and_cost(lakehouse: Path) -> None:
    plan = make_plan(JOB, OutputRange(NOON + DAY, NOON + DAY + HOUR), lakehouse)
    assert (plan.read.from_us, plan.read.to_us) == (NOON + DAY - 15 * MINUTE, NOON + DAY + HOUR + 5 * MINUTE)
    (read,) = plan.reads
    assert (read.table, read.version, read.files, read.files_total, read.rows, read.rows_total) == (
        "arrivals/cars",
        2,
        1,
        3,
        3,
        9,
    )
    assert read.size_bytes > 0
    assert [(table.table, table.version, table.replaced_rows) for table in plan.writes] == [
        ("verdicts/cars_per_booth", None, 0),
        ("windows/cars_per_booth", None, 0),
    ]
    assert plan.settled


def test_the_reads_of_a_range_are_those_of_its_plan(lakehouse: Path) -> None:
    early_off = parse_job(JOB_TEXT.replace("ordering: {", "ordering: {early_arrival: off, "))
    output = OutputRange(NOON + DAY, NOON + DAY + HOUR)
    for one in (JOB, early_off):
        plan, reads = make_plan(one, output, lakehouse), LogReads(one, Lakehouse.at(lakehouse)).of(output)
        assert (reads.range, reads.initial_states) == (plan.read, plan.initial_states)
    assert reads.initial_states is not None
    of_older = LogReads(early_off, Lakehouse.at(lakehouse), as_of=0).of(output)
    assert of_older.initial_states not in (None, reads.initial_states)


def test_a_range_without_a_formula_depends_on_all_that_came_before(lakehouse: Path) -> None:
    output = OutputRange(NOON + DAY, NOON + DAY + HOUR)
    by_formula = LogReads(JOB, Lakehouse.at(lakehouse))
    assert by_formula.that_matter(output) == by_formula.of(output).range
    early_off = LogReads(
        parse_job(JOB_TEXT.replace("ordering: {", "ordering: {early_arrival: off, ")), Lakehouse.at(lakehouse)
    )
    assert early_off.of(output).range.from_us is not None
    assert early_off.that_matter(output).from_us is None


def test_an_older_version_of_the_log_is_planned_as_it_was(lakehouse: Path) -> None:
    plan = make_plan(JOB, OutputRange(NOON, NOON + DAY), lakehouse, as_of=0)
    (read,) = plan.reads
    assert (read.version, read.rows_total, read.end_of_log_us) == (0, 3, NOON + 6 * HOUR)
    assert not plan.settled
    assert make_plan(JOB, EVERYTHING, lakehouse, as_of={"cars": 1}).versions == {"arrivals/cars": 1}


def test_a_version_whose_files_a_vacuum_removed_is_refused_where_a_range_reads_them(tmp_path: Path) -> None:
    root = tmp_path / "lakehouse"
    for number in range(17):
        # the 17th batch puts the first day's files into one
        ingest(JOB, "cars", [lines(tmp_path / "batch.jsonl", record(number))], root)
    tomorrow = "2026-01-02T12:00:00Z"
    ingest(JOB, "cars", [lines(tmp_path / "batch.jsonl", record(17, arrival_time=tomorrow, at=tomorrow))], root)
    log = DeltaTable(root / "arrivals" / "cars")
    assert make_plan(JOB, EVERYTHING, root, as_of=15).rows == 16
    log.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    with pytest.raises(
        UsageError, match=r"arrivals/cars was vacuumed: of version 15 16 of the 16 data files .* --as-of"
    ):
        make_plan(JOB, EVERYTHING, root, as_of=15)
    assert make_plan(JOB, EVERYTHING, root, as_of=log.version()).rows == 18
    assert make_plan(JOB, OutputRange(NOON + DAY, None), root, as_of=log.version()).rows == 1
    assert make_plan(JOB, EVERYTHING, root).rows == 18


def test_a_version_or_input_that_is_not_there_is_an_error_of_use(lakehouse: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read at version 9: its newest is 2"):
        make_plan(JOB, EVERYTHING, lakehouse, as_of=9)
    with pytest.raises(UsageError, match="no input 'car'"):
        make_plan(JOB, EVERYTHING, lakehouse, as_of={"car": 1})


def test_an_input_without_a_log_is_an_error_that_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no arrival log yet.*tailrace ingest JOB --input cars"):
        make_plan(JOB, EVERYTHING, tmp_path / "lakehouse")
    assert not (tmp_path / "lakehouse").exists()


def test_a_log_without_a_column_of_the_job_is_an_error_of_use(lakehouse: Path) -> None:
    with pytest.raises(UsageError, match="lacks the column 'lane'"):
        make_plan(job("at TIMESTAMP, booth STRING, lane INT"), EVERYTHING, lakehouse)
    with pytest.raises(UsageError, match="column 'n' is int32"):
        make_plan(job("at TIMESTAMP, booth STRING, n STRING"), EVERYTHING, lakehouse)


def test_a_range_at_the_beginning_of_time_can_be_planned(lakehouse: Path) -> None:
    plan = make_plan(JOB, OutputRange(parse_instant("0001-01-01T00:00:00Z"), NOON), lakehouse)
    assert plan.as_dict()["read_from"] == "0001-01-01T00:00:00Z"


def test_planning_starts_no_spark(lakehouse: Path) -> None:
    before = "pyspark" in sys.modules
    make_plan(JOB, EVERYTHING, lakehouse)
    assert ("pyspark" in sys.modules) == before


@pytest.mark.parametrize(
    ("to_us", "ends_us", "settled"),
    [(10, (11,), True), (10, (10,), False), (10, (11, 9), False), (None, (11,), False), (10, (None,), False)],
)
def test_a_range_is_settled_once_every_log_has_gone_beyond_it(
    to_us: int | None, ends_us: tuple[int | None, ...], settled: bool
) -> None:
    reported, why = is_settled(ReadRange(0, to_us, "rule"), ends_us)
    assert reported is settled
    assert (why is None) is settled


def test_a_plan_names_the_few_files_it_reads_and_a_longer_log_changes_none_of_them(
    lakehouse: Path, tmp_path: Path
) -> None:
    hour = OutputRange(NOON + DAY, NOON + DAY + HOUR)
    (before,) = make_plan(JOB, hour, lakehouse).reads
    assert [path.split("/")[0] for path in before.paths] == ["arrival_date=2026-01-02"]
    times = [f"2026-{month:02d}-{day:02d}T12:00:00Z" for month in (2, 3) for day in range(1, 29)]
    records = [record(100 + place, arrival_time=time, at=time) for place, time in enumerate(times)]
    ingest(JOB, "cars", [lines(tmp_path / "more.jsonl", *records)], lakehouse)
    (after,) = make_plan(JOB, hour, lakehouse).reads
    assert (after.paths, after.size_bytes, after.files_total) == (before.paths, before.size_bytes, 59)
    assert make_plan(JOB, EVERYTHING, lakehouse).reads[0].paths == ()


def test_a_cold_plan_needs_neither_spark_nor_pandas(lakehouse: Path, tmp_path: Path) -> None:
    runs.record(Lakehouse.at(lakehouse), {"run_id": "1", "job": JOB.name, "kind": "replay", "status": runs.SUCCEEDED})
    (tmp_path / "job.yaml").write_text(JOB_TEXT)
    reported = (
        "import sys\n"
        "from pipelines.cli.main import run\n"
        "code = run(sys.argv[1:])\n"
        "heavy = {'pyspark', 'pandas', 'pyarrow.dataset'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)"
    )
    command = [
        sys.executable,
        "-c",
        reported,
        "plan",
        str(tmp_path / "job.yaml"),
        "--from",
        "2026-01-02",
        "--to",
        "2026-01-03",
    ]
    done = subprocess.run(
        [*command, "--lakehouse", str(lakehouse)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_range_is_cut_at_midnights_or_hours_into_slices_of_as_many_arrivals(lakehouse: Path) -> None:
    whole = OutputRange(NOON, NOON + 3 * DAY)
    midnights = [NOON + DAY // 2, NOON + 3 * DAY // 2]
    two, three = (make_plan(JOB, whole, lakehouse, slices=count) for count in (2, 3))
    assert [(one.output.from_us, one.output.to_us) for one in two.slices] == [
        (NOON, midnights[1]),
        (midnights[1], NOON + 3 * DAY),
    ]
    assert [one.output.to_us for one in three.slices] == [*midnights, NOON + 3 * DAY]
    more = [one.output.to_us for one in make_plan(JOB, whole, lakehouse, slices=9).slices]
    assert len(more) > 3
    assert all(end_us is not None and end_us % HOUR == 0 for end_us in more)
    assert make_plan(JOB, OutputRange(NOON, NOON + HOUR), lakehouse, slices=9).slices == ()


def test_a_plan_shows_its_slices_and_the_stages_of_each(lakehouse: Path) -> None:
    plan = make_plan(JOB, EVERYTHING, lakehouse, slices=2)
    assert plan.as_dict()["slices"] == [
        {"output_from": None, "output_to": "2026-01-03T00:00:00Z", "rows": 6, "bytes": plan.slices[0].size_bytes},
        {"output_from": "2026-01-03T00:00:00Z", "output_to": None, "rows": 3, "bytes": plan.slices[1].size_bytes},
    ]
    assert stages_of(plan) == (*stages_of(plan.slices[0]), *stages_of(plan.slices[1]))
    assert "in 2 slices, one after another, each committed before the next begins" in describe_plan(plan)


def test_a_plan_cuts_a_big_range_by_itself_where_slices_read_little_again(
    lakehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert make_plan(JOB, EVERYTHING, lakehouse).slices == ()
    monkeypatch.setattr(builder, "MOST_ROWS_OF_A_SLICE", 4)
    assert len(make_plan(JOB, EVERYTHING, lakehouse).slices) == 3
    monkeypatch.setattr(builder, "MOST_READ_AGAIN", 0.9)
    assert make_plan(JOB, EVERYTHING, lakehouse).slices == ()
    assert make_plan(JOB, EVERYTHING, lakehouse, slices=1).slices == ()


def test_tasks_grow_with_the_arrivals(lakehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan(JOB, EVERYTHING, lakehouse)
    assert tasks_of(plan) == 1
    monkeypatch.setattr(size, "TASK_BYTES", plan.size_bytes // 10)
    assert tasks_of(plan) in (10, 11)
