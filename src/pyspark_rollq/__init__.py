"""What Spark looks for after `pip install`: a module named `pyspark_…` with a `DefaultSource`.

Nothing else lives here. The source itself is `rollq.spark.source`.
"""

from rollq.spark.source import DefaultSource

__all__ = ["DefaultSource"]
