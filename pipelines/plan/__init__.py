"""Decide before anything runs: what is read and written, from which state, by which strategy. Pure data, no Spark."""
