"""Files and sources to rows of the arrival log: every record is taken exactly, or quarantined with its reason."""
