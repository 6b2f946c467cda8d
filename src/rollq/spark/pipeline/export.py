"""Tables as others want them: in any format that the session has, such as Delta or Iceberg.

Our own folder stays Parquet under a manifest, which is what makes a batch appear whole. A copy is
replaced as a whole, by whatever the format offers for that.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.catalog import TABLES, table_of
from rollq.spark.pipeline.manifest import Book, Manifest
from rollq.spark.pipeline.tables import TableStore

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CSV: Final = "csv"


def export(
    spark: SparkSession, tables: str | Path, to: str, form: str, names: Iterable[str] = ()
) -> Manifest:
    """Copy tables, all as of one batch, over what an earlier copy left.

    Args:
        spark: a session that has the format.
        tables: the folder of the pipeline.
        to: a folder or its URL, if it has a slash: each table gets a folder in it. Otherwise a
            database of the session's catalog, as `lake.rollq`.
        form: as Spark names it: `delta`, `iceberg`, `orc`, `csv`.
        names: which tables; all of them if none is named.

    Returns:
        The manifest of that batch.

    Raises:
        LocalError: BAD_OPTIONS if there is no such table or format, or nothing was ever made.
    """
    chosen = [table_of(name) for name in names]
    chosen = chosen or [table for table in TABLES.values() if not table.is_internal]
    book = Book(Path(tables))
    manifest = book.expect()
    store = TableStore(spark, book.out)
    for table in chosen:
        frame = store.read(table, manifest.files(table.name))
        writer = frame.write.format(form).mode("overwrite")
        if form == CSV:  # nothing else of the file names its columns
            writer = writer.option("header", "true")
        try:
            if "/" in to:
                writer.save(f"{to.rstrip('/')}/{table.name}")
            else:
                writer.saveAsTable(f"{to}.{table.name}")
        except Exception as error:  # embedded and by Connect it is another, with the same word
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"this Spark has no format {form!r}",
                "name its package in spark-defaults.conf, or by PYSPARK_SUBMIT_ARGS="
                "'--packages … pyspark-shell'",
            ) from error
    return manifest
