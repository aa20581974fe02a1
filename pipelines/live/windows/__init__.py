"""Windows of the live run: rows kept until every window that they are in is final."""
