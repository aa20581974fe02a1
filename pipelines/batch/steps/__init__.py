"""Queries of several steps: every relation of :mod:`pipelines.core.steps` over DataFrames."""
