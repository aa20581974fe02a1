"""Dagster resources: Spark and the lakehouse."""
