"""Delta tables: layouts, appends, replacing one output range, the run ledger, statistics."""
