"""A sample of the random layouts; ``make faults`` runs more of them."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from layouts import fingerprint_in_some_layout, log_of
from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_log_gives_one_fingerprint_in_whatever_files_it_is(tmp_path: Path, spark: SparkSession) -> None:
    log, found = log_of(1), set()
    for number in range(4):
        (tmp_path / str(number)).mkdir()
        found.add(fingerprint_in_some_layout(spark, tmp_path / str(number), log, Random(number)))
    assert len(found) == 1
