"""The live run: a job on Structured Streaming, from the arrival logs into ``stream_windows`` and ``stream_verdicts``."""
