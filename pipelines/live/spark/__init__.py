"""What of the live run is Spark's: source, operator, sink, announcements."""
