"""Move the bound of a rule in one engine by its smallest step; the transcripts of that rule must fail (`make
test-mutations`). Each mutation is made in a copy of the sources, and each names the transcripts that must see it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TESTS = {
    "reference": ("tests/engines/test_transcripts.py", "test_the_reference_engine_gives"),
    "batch": ("tests/engines/test_transcripts.py", "test_the_batch_engine_gives"),
    "live": ("tests/engines/test_stream_transcripts.py", "test_the_live_engine_gives"),
    "plan": ("tests/engines/test_transcripts.py", "test_the_reference_engine_gives"),
}
"""The package under `pipelines` -> the file of its tests, and what the names of the tests contain."""


class Mutation(NamedTuple):
    """``old`` is in ``file`` once; ``transcripts`` is part of the names of the cases to run."""

    rule: str
    file: str
    old: str
    new: str
    transcripts: str


MUTATIONS = """
S2 | reference/ordering/stream_analytics.py | time_us > arrival_us + | time_us >= arrival_us + | late
S3 | reference/ordering/stream_analytics.py | time_us < arrival_us - | time_us <= arrival_us - | late
S4 | reference/ordering/stream_analytics.py | time_us < latest_us - | time_us <= latest_us - | order
S9 | reference/windows.py | while end_us - window.size_us < at | while end_us - window.size_us <= at | windows
S11 | reference/sessions.py | ].start_us <= window.timeout_us | ].start_us < window.timeout_us | sessions
S14 | reference/joins.py | right.start_us) <= terms.to | right.start_us) < terms.to | joins
S11 | reference/sessions.py | row.start_us <= check_us | row.start_us < check_us | check_points
S2 | batch/stream_analytics/policy.py | F.col(EVENT_US) > F.col(ARR | F.col(EVENT_US) >= F.col(ARR | late
S3 | batch/stream_analytics/policy.py | - policy.late_arrival_us | - policy.late_arrival_us + 1 | late
S4 | batch/stream_analytics/policy.py | US) < F.col(WATERMARK_US) | US) <= F.col(WATERMARK_US) | order
S11 | batch/stream_analytics/sessions.py | > window.timeout_us | >= window.timeout_us | sessions
S10 | batch/stream_analytics/sliding.py | (at > F.col(WINDOW_START_US)) | (at >= F.col(WINDOW_START_US)) | windows
S15 | batch/stream_analytics/ordering.py | WINDOW_END_US) < F.col(HOLD_US) | WINDOW_END_US) <= F.col(HOLD_US) | hold
range | batch/columns.py | F.col(column) < output.to_us | F.col(column) <= output.to_us | ranges
S3 | live/stream_analytics/verdicts.py | late = time < floor | late = time <= floor | late
S4 | live/stream_analytics/verdicts.py | (system < before - back_us) | (system <= before - back_us) | order
S9 | live/windows/by_column.py | - time) // window.hop_us) | - time - 1) // window.hop_us) | windows
S11 | live/windows/end_aligned.py | row.start <= runs | row.start < runs | sessions
S15 | live/stream_analytics/ordering.py | not end_us < time_us - back_us | not end_us <= time_us - back_us | hold
range | plan/read_range.py | output.from_us - reach.before_us | output.from_us - reach.before_us + 1 | ranges
A4 | reference/ordering/atlas.py | None and end <= closed_us) | None and end < closed_us) | atlas/late
A6 | reference/windows.py | while start_us < to_us | while start_us <= to_us | windows
A4 | batch/atlas/ordering.py | start + grid.size_us <= F.col | start + grid.size_us < F.col | atlas/late
A4 | live/atlas.py | window.size_us <= closed | window.size_us < closed | atlas/late
A7 | reference/sessions.py | gap_us > until_us | gap_us >= until_us | atlas/sessions
A7 | batch/atlas/sessions.py | + gap_us <= event | + gap_us < event | atlas/sessions
A7 | live/windows/gap_sessions.py | if closed < self.earliest_end | if closed <= self.earliest_end | atlas/sessions
A7 | live/windows/gap_sessions.py | one.first - gap < time | one.first - gap <= time | atlas/sessions
I3 | reference/ordering/stream_insight.py | None and start_us < self | None and start_us <= self | points
I14 | reference/lifetimes.py | row.end_us > span[0] | row.end_us >= span[0] | insight/windows
I3 | batch/stream_insight/ordering.py | F.col(SYNC_US) < F.col | F.col(SYNC_US) <= F.col | points
I17 | batch/stream_insight/lifetimes.py | WINDOW_END_US) <= F.col | WINDOW_END_US) < F.col | insight/windows
I3 | live/stream_insight.py | None and start < current | None and start <= current | points
I14 | live/windows/lifetimes.py | row.end > start)] | row.end >= start)] | stream_insight
"""


def survives(copy: Path, mutation: Mutation) -> bool:
    """Whether the tests pass with the mutation."""
    file = copy / "pipelines" / mutation.file
    text = file.read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, f"{mutation.file} has {text.count(mutation.old)} times: {mutation.old}"
    engine = mutation.file.split("/")[0]
    path, name = TESTS[engine]
    file.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", path, "-x", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "spark" if engine in ("batch", "live") else "not spark"]
    command += ["-k", f"{name} and {mutation.transcripts.replace('/', ' and ')}"]
    ended = subprocess.run(
        command, cwd=copy, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True
    )
    file.write_text(text, encoding="utf-8")
    assert ended.returncode in (0, 1), (
        f"{mutation}: pytest ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}"
    )
    return ended.returncode == 0


def main(wanted: list[str]) -> int:
    """Run the mutations whose rule or file contains one of ``wanted``, or all; 1 if one survives."""
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="tailrace-mutations-") as folder:
        copy = Path(folder)
        shutil.copy(ROOT / "pyproject.toml", copy)
        for part in ("pipelines", "tests"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for line in MUTATIONS.strip().splitlines():
            mutation = Mutation(*line.split(" | "))
            if wanted and not any(word == mutation.rule or word in mutation.file for word in wanted):
                continue
            survived = survives(copy, mutation)
            survivors += survived
            outcome = "SURVIVED" if survived else "caught"
            print(f"{outcome:9} {mutation.rule:4} {mutation.file}: {mutation.old!r} -> {mutation.new!r}", flush=True)
    print(f"{survivors} survived")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
