"""What a replay reads and writes, from which initial state, and by which strategy: pure data, without Spark."""
