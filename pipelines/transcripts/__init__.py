"""Transcripts: behaviour written down as cases that run on every engine."""

from pipelines.transcripts.judge import Outcome, judge
from pipelines.transcripts.read import Case, Expectation, TranscriptError, find, read_file, read_text
from pipelines.transcripts.run import ENGINES, Verdict, run_case, run_reference, run_spark

__all__ = [
    "ENGINES",
    "Case",
    "Expectation",
    "Outcome",
    "TranscriptError",
    "Verdict",
    "find",
    "judge",
    "read_file",
    "read_text",
    "run_case",
    "run_reference",
    "run_spark",
]
