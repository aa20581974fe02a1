"""What the user has set by Spark's own means, read before a JVM starts: Tailrace joins it, or leaves it as it is."""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shlex
from pathlib import Path

SUBMIT_VARIABLE = "PYSPARK_SUBMIT_ARGS"
_LINE = re.compile(r"\s*([^#!\s=:][^\s=:]*)[\s=:]+(.*\S)\s*")
_OPTIONS = {
    "--jars": "spark.jars",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-memory": "spark.driver.memory",
    "--executor-memory": "spark.executor.memory",
}
"""Options of ``spark-submit`` that stand for settings which Tailrace has a value of its own for."""


def given_settings() -> dict[str, str]:
    """The settings of ``spark-defaults.conf``, then those of ``PYSPARK_SUBMIT_ARGS``, which win."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--properties-file", default=conf_folder() / "spark-defaults.conf", type=Path)
    parser.add_argument("--conf", action="append", default=[])
    for option in _OPTIONS:
        parser.add_argument(option, dest=_OPTIONS[option])
    submitted, _ = parser.parse_known_args(_submitted())
    file = submitted.properties_file
    lines = file.read_text().splitlines() if file.is_file() else []
    found = {match[1]: match[2] for match in map(_LINE.fullmatch, lines) if match}
    found |= dict(setting.split("=", 1) for setting in submitted.conf if "=" in setting)
    return found | {key: value for key in _OPTIONS.values() if (value := getattr(submitted, key)) is not None}


def submit_with_jars(jars: str) -> str:
    """``PYSPARK_SUBMIT_ARGS`` with ``jars`` in place of the jars that it names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--jars")
    return shlex.join(["--jars", jars, *parser.parse_known_args(_submitted())[1]])


def joined(separator: str, *values: str | None) -> str:
    """The parts of ``values``, each once."""
    parts = (part.strip() for value in values if value for part in value.split(separator))
    return separator.join(dict.fromkeys(filter(None, parts)))


def conf_folder() -> Path:
    """The folder of Spark's own settings; it need not exist."""
    chosen = os.environ.get("SPARK_CONF_DIR")
    return Path(chosen) if chosen else spark_home() / "conf"


def spark_home() -> Path:
    """The folder of Spark: ``SPARK_HOME``, else that of the package."""
    chosen = os.environ.get("SPARK_HOME")
    if chosen:
        return Path(chosen)
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None, "pyspark is a dependency"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def _submitted() -> list[str]:
    return shlex.split(os.environ.get(SUBMIT_VARIABLE) or "pyspark-shell")
