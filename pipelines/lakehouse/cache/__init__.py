"""What was computed of a day of arrivals, kept until the day's files change. Deleting it changes no number."""
