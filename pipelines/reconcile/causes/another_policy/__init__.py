"""``another_policy``: the live run had other settings. Searched at a few window ends, proved over the whole range."""
