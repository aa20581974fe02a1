"""Atlas Stream Processing pipelines as they are written, to :class:`~pipelines.core.steps.Steps` (Q101 to Q112)."""
