"""The log store by which Spark commits to S3: its source, its jar, and how the one becomes the other."""
