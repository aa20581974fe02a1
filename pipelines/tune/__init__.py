"""What other settings of the ordering policy would have given: exact figures for each, from one scan of the logs."""
