"""The reference engine: normative, one event at a time, plain Python."""
