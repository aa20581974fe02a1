"""Stream Analytics scripts: T-SQL as it stands, to :class:`~pipelines.core.steps.Steps`."""
