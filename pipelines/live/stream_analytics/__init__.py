"""Profile stream_analytics in the live run."""
