"""The entry point for Spark: it looks for a module named `pyspark_…` with a `DefaultSource`.

The source itself is `rollq.spark.source`.
"""

from rollq.spark.source import DefaultSource

__all__ = ["DefaultSource"]
