"""rollq and Spark: the data source `format("rollq")`, and a session that needs only pip packages.

Importing this needs no Spark: what does imports it when it is called.
"""

from rollq.spark.session import session

__all__ = ["session"]
