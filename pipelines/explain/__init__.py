"""Why an event counted where it did, and what makes a window's number."""
