"""Spark mechanisms that know no profile."""
