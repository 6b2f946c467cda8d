"""The report as a page: records in, HTML out. Nothing here asks Spark, reads a file or a clock."""
