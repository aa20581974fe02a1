"""The vocabulary of a job: model, times, intervals, values, errors.

Standard library only. Instants are microseconds since 1970-01-01T00:00:00Z as ``int``, durations are microseconds
as ``int``; names end with the unit (``arrival_time_us``).
"""
