"""Checks of the tables, the state of their days, and the ranges that failed runs left behind."""
