"""What Tailrace runs on: a Java runtime, the Delta jars, one Spark session a process."""
