"""The data-quality report on a job over a range: one self-contained HTML page."""
