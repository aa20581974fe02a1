"""How Spark finds the watermark of every event of profile stream_analytics."""
