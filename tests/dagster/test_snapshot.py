"""Everything that a folder of job files becomes in Dagster, held to ``definitions.txt`` line by line.

A line that changes here changes what people have in their UI, their alerts and their scripts: name it in the changelog.
``python tests/dagster/test_snapshot.py`` writes the file again.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from small_jobs import DOCKS, TOLLS

from assets.definitions import build

SNAPSHOT = Path(__file__).with_name("definitions.txt")


def lines(defs: dg.Definitions) -> Iterator[str]:
    """The definitions, a fact a line."""
    graph = defs.get_repository_def().asset_graph
    for key in sorted(graph.get_all_asset_keys()):
        node = graph.get(key)
        name = key.to_user_string()
        how = [word for word in ("materializable", "observable", "external") if getattr(node, f"is_{word}")]
        yield f"asset {name}: group {node.group_name}, {' '.join(how)}, kinds {' '.join(sorted(node.kinds))}"
        if node.partitions_def is not None:
            days = node.partitions_def.get_partition_keys()
            yield f"asset {name}: {type(node.partitions_def).__name__} {days[0]} to {days[-1]}"
        for parent in sorted(node.parent_keys):
            yield f"asset {name}: after {parent.to_user_string()} by {mapping(node.partition_mappings.get(parent))}"
        if node.is_executable:
            backfill, pools = node.backfill_policy, " ".join(sorted(node.pools or [])) or "none"
            yield f"asset {name}: backfill {backfill.policy_type.value if backfill else 'none'}, pools {pools}"
        together = sorted(one.to_user_string() for one in node.execution_set_asset_keys - {key})
        if together:
            yield f"asset {name}: made together with {' '.join(together)}"
    for check in sorted(graph.asset_check_keys, key=str):
        blocking = ", blocks" if graph.get(check).blocking else ""
        yield f"check {check.name} on {check.asset_key.to_user_string()}{blocking}"
    for job in jobs_of(defs):
        keys = sorted(key.to_user_string() for key in job.asset_layer.selected_asset_keys)
        checks = sorted(check.name for check in job.asset_layer.asset_graph.asset_check_keys) if keys else []
        tags = " ".join(f"{name}={value}" for name, value in sorted(job.tags.items()))
        yield f"job {job.name}: executor {job.executor_def.name}, tags {tags}"
        yield f"job {job.name}: ops {' '.join(sorted(node.name for node in job.nodes))}"
        if job.run_config:
            yield f"job {job.name}: begins with {json.dumps(job.run_config)}"
        if keys:
            yield f"job {job.name}: assets {' '.join(keys)}"
            yield f"job {job.name}: checks {' '.join(checks)}"
    for schedule in sorted(defs.schedules or [], key=lambda one: one.name):  # type: ignore[union-attr]
        assert isinstance(schedule, dg.ScheduleDefinition)
        begins = schedule.default_status.value
        when = f"{schedule.cron_schedule} {schedule.execution_timezone}"
        yield f"schedule {schedule.name}: {when}, job {schedule.job_name}, begins {begins}"
    for sensor in sorted(defs.sensors or [], key=lambda one: one.name):
        every = f"every {sensor.minimum_interval_seconds} s"
        yield f"sensor {sensor.name}: {every}, job {sensor.job_name}, begins {sensor.default_status.value}"
    for resource in sorted(defs.resources or {}):
        yield f"resource {resource}"


def jobs_of(defs: dg.Definitions) -> list[dg.JobDefinition]:
    found = defs.get_repository_def().get_all_jobs()
    return sorted((job for job in found if not job.name.startswith("__")), key=lambda job: job.name)


def mapping(given: dg.PartitionMapping | None) -> str:
    if isinstance(given, dg.TimeWindowPartitionMapping):
        return f"days {given.start_offset:+d} to {given.end_offset:+d}"
    return "the same day" if given is None else type(given).__name__


def snapshot(folder: Path) -> str:
    """Of a job with a bounded reach, one without, and a file that is no job."""
    (folder / "tolls.yaml").write_text(TOLLS, encoding="utf-8")
    (folder / "docks.yaml").write_text(DOCKS, encoding="utf-8")
    (folder / "broken.yaml").write_text(TOLLS.replace("size: 1h", "size: soon"), encoding="utf-8")
    return "\n".join(lines(build(folder, "/nowhere"))) + "\n"


def test_the_definitions_are_those_of_the_snapshot(jobs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_START", "2026-03-01")
    monkeypatch.setenv("TAILRACE_END", "2026-03-10")
    assert snapshot(jobs) == SNAPSHOT.read_text(encoding="utf-8")


if __name__ == "__main__":
    os.environ |= {"TAILRACE_START": "2026-03-01", "TAILRACE_END": "2026-03-10"}
    with tempfile.TemporaryDirectory() as made:
        SNAPSHOT.write_text(snapshot(Path(made)), encoding="utf-8")
