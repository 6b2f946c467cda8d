"""The end of a demonstration: the pipeline over what just happened, and the page that tells it."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final

from rollq.base.errors import RollqError
from rollq.cli.output import remark

INSTALL: Final = "pip install 'rollq[spark]'"
# Some thousand events: what takes time is compiling, so there is as little of it as can be.
SMALL: Final = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.driver.memory": "1g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "2",
}


def write_page(state: Path, group: str, tables: Path, page: Path) -> bool:
    """Run the pipeline over the history of a member that has stopped, and write the report.

    Whether it was written: without Spark there is none, and a remark says what to install.
    """
    if importlib.util.find_spec("pyspark") is None:
        remark(f"no report: Spark is not installed here; {INSTALL} brings it")
        return False
    from rollq.cli.report import write_report
    from rollq.cli.spark import quiet_spark
    from rollq.spark.pipeline.feed import Feed
    from rollq.spark.pipeline.run import Pipeline

    try:
        with quiet_spark("local[2]", **SMALL) as spark:
            Pipeline(spark, Feed(path=str(state), group=group), tables).run()
            write_report(spark, tables, page)
    except RollqError as error:
        remark(f"no report: {error.message}; {error.hint}")
        return False
    return True
