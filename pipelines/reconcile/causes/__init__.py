"""The cause of each difference from the live run, found by recomputing."""
