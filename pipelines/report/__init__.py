"""The data-quality report: facts gathered from the tables, told on one HTML page that needs nothing else."""
