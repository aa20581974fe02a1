"""Whether a live run has written results: a Delta table, or a folder of files."""

from __future__ import annotations

from pathlib import Path

from lakehouse_samples import job

from pipelines.lakehouse.layout import output_tables
from pipelines.lakehouse.root import Lakehouse
from pipelines.quality.days import is_streamed


def test_a_folder_of_files_is_a_live_run_s_result(tmp_path: Path) -> None:
    lakehouse, (one,) = Lakehouse.at(tmp_path), output_tables(job())
    assert not is_streamed(lakehouse, one)
    folder = tmp_path / one.live / "2026" / "01"
    folder.mkdir(parents=True)
    (folder / "_SUCCESS").touch()
    assert not is_streamed(lakehouse, one)
    (folder / "part-0.json").write_text("{}\n")
    assert is_streamed(lakehouse, one)
