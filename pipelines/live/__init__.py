"""The live run: a job on Structured Streaming, from its arrival logs into ``stream_windows``."""
