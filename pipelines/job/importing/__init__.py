"""Job files from what a live job is defined by: Stream Analytics projects and Atlas processors."""
