"""Dagster definitions made from job files; they compute nothing themselves."""
