"""The demo: real departures as an arrival log, replayed and shown."""
