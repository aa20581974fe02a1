"""Profile stream_insight in the batch engine."""
