"""The meaning of a job, without Spark: times, windows, ordering policies, read ranges, the reference engine.

Standard library only. Instants are microseconds since 1970-01-01T00:00:00Z as ``int``, durations are microseconds
as ``int``; names initial_state the unit (``arrival_time_us``).
"""
