"""Tailrace: batch reprocessing of event streams that gives exactly the numbers the stream gave."""

__version__ = "0.1.0"
