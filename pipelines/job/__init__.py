"""Job files: from text to a validated, frozen job."""
