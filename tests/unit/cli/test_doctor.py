"""What ``doctor`` finds of a cluster, from what its executors answered."""

from __future__ import annotations

import pytest

from pipelines.cli.cluster_findings import _of_their_java, cluster_findings
from pipelines.runtime.executors import Executor

FIT = Executor("a/1", "17.0.15", "UTC", 0)


def test_this_machine_alone_has_no_findings_of_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAILRACE_SPARK_MASTER", raising=False)
    assert list(cluster_findings("lakehouse")) == []


def test_a_spark_connect_server_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAILRACE_SPARK_MASTER", "sc://server:15002")
    (finding,) = cluster_findings("lakehouse")
    assert (finding.name, finding.fit, finding.required) == ("Spark master", False, True)


def test_executors_that_are_alike_are_fit() -> None:
    assert all(finding.fit for finding in _of_their_java([FIT, Executor("b/2", "21.0.1", "GMT", 1000)]))


@pytest.mark.parametrize(
    ("other", "name", "seen", "required"),
    [
        (Executor("b/2", "17.0.15", "Asia/Kolkata", 0), "executors' time zone", "b/2: Asia/Kolkata", True),
        (Executor("b/2", "11.0.2", "UTC", 0), "executors' Java", "11.0.2, 17.0.15", True),
        (Executor("b/2", "17.0.15", "UTC", 1001), "executors' clocks", "b/2: 1001 ms", False),
    ],
)
def test_an_executor_that_is_otherwise_is_named(other: Executor, name: str, seen: str, required: bool) -> None:
    (finding,) = [finding for finding in _of_their_java([FIT, other]) if not finding.fit]
    assert (finding.name, finding.seen, finding.required) == (name, seen, required)
