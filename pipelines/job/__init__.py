"""Job files: text to a validated, frozen job."""
