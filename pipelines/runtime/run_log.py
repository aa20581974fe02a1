"""What runs do, as JSON lines that a log collector reads; each line has the id of its run."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from pathlib import Path

VARIABLE = "TAILRACE_LOG"
"""Environment variable that names the file that lines are appended to, or ``-`` for stderr; left out: none."""


def log_event(run_id: str, job: str, event: str, **more: object) -> None:
    """Append one line: ``at``, ``run_id``, ``job``, ``event``, and what of ``more`` is not None."""
    place = os.environ.get(VARIABLE)
    if not place:
        return
    known = {name: value for name, value in more.items() if value is not None}
    row = {"at": datetime.now(UTC).isoformat(), "run_id": run_id, "job": job, "event": event, **known}
    line = json.dumps(row, default=str, ensure_ascii=False) + "\n"
    if place == "-":
        sys.stderr.write(line)
        return
    with Path(place).open("a", encoding="utf-8") as file:
        file.write(line)
