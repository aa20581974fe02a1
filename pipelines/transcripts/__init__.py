"""Transcripts: behaviour as cases that run on every engine."""

from pipelines.transcripts.engines import Verdict, run_case, run_reference, run_spark
from pipelines.transcripts.judge import Outcome, judge
from pipelines.transcripts.read import Case, Expectation, TranscriptError, find, read_file, read_text

__all__ = [
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
