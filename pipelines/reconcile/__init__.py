"""Compare what a replay gave with what the live run wrote, and find each difference's cause by recomputing."""
