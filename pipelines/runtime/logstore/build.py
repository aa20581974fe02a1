"""Build ``conditional-write-log-store.jar`` from its source: ``python -m pipelines.runtime.logstore.build``.

Needs ``javac``. The same compiler gives the same bytes: entries have one fixed time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from pipelines.runtime import jars, java
from pipelines.runtime.given import spark_home

HERE = Path(__file__).parent
JAR = HERE / "conditional-write-log-store.jar"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def build(target: Path) -> None:
    """Compile the source for Java 17 against the pinned jars, and write the jar."""
    class_path = f"{jars.directory()}/*:{spark_home()}/jars/*"
    with tempfile.TemporaryDirectory() as scratch:
        compiler = [java.require_home() / "bin" / "javac", "--release", "17", "-g:none", "-proc:none", "-d", scratch]
        sources = sorted(HERE.glob("*.java"))
        subprocess.run([*map(str, compiler), "-cp", class_path, *map(str, sources)], check=True)
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as made:
            for one in sorted(Path(scratch).rglob("*.class")):
                made.writestr(zipfile.ZipInfo(str(one.relative_to(scratch)), _EPOCH), one.read_bytes())


if __name__ == "__main__":
    build(Path(sys.argv[1]) if len(sys.argv) > 1 else JAR)
