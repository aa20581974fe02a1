"""Profile stream_analytics in the batch engine."""
