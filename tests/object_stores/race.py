"""One of several writers of a table: ``python race.py URI WRITER ROUNDS FOLDER``, each round at the same instant."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from pipelines.runtime.session import session

uri, writer, rounds, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
others = int(sys.argv[5])
spark = session(f"race-{writer}", short=True)
for number in range(rounds):
    (folder / f"{number}-{writer}").touch()
    while len(list(folder.glob(f"{number}-*"))) < others:
        time.sleep(0.002)
    row = spark.sql(f"SELECT '{writer}' AS writer, {number} AS round").coalesce(1)
    row.write.format("delta").mode("append").save(uri)
