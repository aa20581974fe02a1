"""Profile atlas in the batch engine."""
