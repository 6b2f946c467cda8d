"""The grid as Spark uses it: rows through programs and functions, and workers in its tasks."""
