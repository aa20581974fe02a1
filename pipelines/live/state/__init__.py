"""The live run without Spark: all that is kept of a job between two batches, and what a batch does to it."""
