"""Spark sessions for the tables of a pipeline, by their format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.spark import quiet_spark, suited_to

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def spark_conf(given: Sequence[str] | None) -> dict[str, str]:
    """Parse Spark settings from `NAME=VALUE`.

    Raises:
        LocalError: BAD_OPTIONS for an invalid one.
    """
    pairs = [one.partition("=") for one in given or ()]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"--conf {name}: no value", "write --conf NAME=VALUE"
            )
    return {name: value for name, _, value in pairs}


@contextlib.contextmanager
def spark_with(
    form: str, tables: str, master: str, conf: Sequence[str] | None, quick: Mapping[str, str]
) -> Iterator[SparkSession]:
    """A session that supports a format. A Connect server has its own settings and packages.

    Args:
        form: The format of the tables.
        tables: Where they are.
        master: The Spark master.
        conf: Settings of the user, as `NAME=VALUE`.
        quick: Settings for a fast start.

    Raises:
        LocalError: BAD_SETUP if Spark is missing, lacks the format or does not start.
    """
    from rollq.spark.pipeline.formats import format_settings

    given = spark_conf(conf)
    is_remote = master.startswith("sc://")
    settings = given if is_remote else format_settings(form, tables, **{**quick, **given})
    with quiet_spark(master, **settings) as spark:
        yield spark


@contextlib.contextmanager
def spark_for(
    tables: str, form: str, master: str, conf: Sequence[str] | None
) -> Iterator[SparkSession]:
    """A session for reading tables.

    Raises:
        LocalError: BAD_OPTIONS if there are none; checked before Spark is started, if they are
            files.
    """
    from rollq.spark.pipeline.formats import PARQUET, form_of
    from rollq.spark.pipeline.manifest import Book

    found = form_of(tables, form)
    quick = suited_to(Book(Path(tables)).expect()) if found == PARQUET else {}
    with spark_with(found, tables, master, conf, quick) as spark:
        yield spark
