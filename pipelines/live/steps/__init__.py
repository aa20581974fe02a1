"""Queries of steps, live: rows that count wait until no earlier one can come, then the steps are computed over them."""
