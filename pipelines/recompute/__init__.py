"""Recompute a few windows from the arrivals that make them; shared by reconcile and explain."""
