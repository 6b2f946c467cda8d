"""Copies of tables in other formats that the session supports, such as ORC or CSV.

A copy is of one batch, and overwritten as a whole, with the atomicity of its format.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.catalog import TABLES, table_of
from rollq.spark.pipeline.formats import place_of, storage_of
from rollq.spark.pipeline.manifest import TableManifest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CSV: Final = "csv"


def export(
    spark: SparkSession,
    tables: str | Path,
    to: str,
    form: str,
    names: Iterable[str] = (),
    *,
    tables_form: str = "",
) -> TableManifest:
    """Copy tables, all of the same batch, over an earlier copy.

    Args:
        spark: a session that supports both formats.
        tables: see `storage_of`.
        to: a folder or its URL, if it contains a slash: each table gets a folder in it. Otherwise a
            database of the session's catalog, such as `lake.rollq`.
        form: the name of the format in Spark: `delta`, `iceberg`, `orc`, `csv`.
        names: of the tables; empty: all public tables.
        tables_form: the format of `tables`; see `storage_of`.

    Returns:
        The manifest of the batch.

    Raises:
        LocalError: BAD_OPTIONS if there is no such table or format, or no batch; or the copy would
            be written over the tables.
    """
    chosen = [table_of(name) for name in names]
    chosen = chosen or [table for table in TABLES.values() if not table.is_internal]
    if _overwrites(to, str(tables), [table.name for table in chosen]):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{to} is where the tables are: the copy would overwrite them",
            "export to another folder or database",
        )
    storage = storage_of(spark, tables, tables_form)
    manifest = storage.expect()
    for table in chosen:
        writer = storage.read(manifest, table).write.format(form).mode("overwrite")
        if form == CSV:  # otherwise the columns have no names
            writer = writer.option("header", "true")
        try:
            if "/" in to:
                writer.save(f"{to.rstrip('/')}/{table.name}")
            else:
                writer.saveAsTable(f"{to}.{table.name}")
        except Exception as error:  # Connect raises another class with the same condition
            if "DATA_SOURCE_NOT_FOUND" not in str(error):
                raise
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"this Spark has no format {form!r}",
                "name its package in spark-defaults.conf, or by PYSPARK_SUBMIT_ARGS="
                "'--packages … pyspark-shell'",
            ) from error
    return manifest


def _overwrites(to: str, tables: str, names: Iterable[str]) -> bool:
    """Whether a copy of these tables would replace files of the tables, or lie among them."""
    if "/" not in to:  # a database
        return to.lower() == tables.lower()
    source = place_of(tables)
    targets = [place_of(f"{to}/{name}") for name in names]
    return place_of(to).is_relative_to(source) or any(
        target.is_relative_to(source) or source.is_relative_to(target) for target in targets
    )
