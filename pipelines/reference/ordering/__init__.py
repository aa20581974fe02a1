"""Ordering policies: one file a profile, a small state machine over one event at a time."""
