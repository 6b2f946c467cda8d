"""rollq under Spark: how fast history is read, and jobs are written, whatever fails meanwhile."""
