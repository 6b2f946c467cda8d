"""Table formats: the Spark packages they need, detection of the format of a folder, and the
storage that implements it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path, PurePath, PurePosixPath
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline.lake import LakeStorage
from rollq.spark.pipeline.lake_batches import BATCHES
from rollq.spark.pipeline.lake_formats import Delta, Iceberg, LakeFormat, is_in_catalog
from rollq.spark.pipeline.manifest import Book
from rollq.spark.pipeline.parquet import ParquetStorage
from rollq.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARQUET: Final = "parquet"
ICEBERG: Final = Iceberg.form
DELTA: Final = Delta.form
LAKES: Final[Mapping[str, Callable[[SparkSession, str], LakeFormat]]] = {
    ICEBERG: Iceberg,
    DELTA: Delta,
}
FORMATS: Final = (PARQUET, *LAKES)
PACKAGES: Final = "spark.jars.packages"
# By format and Spark version.
_PACKAGES: Final = {
    ICEBERG: {
        "4.0": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0",
        "4.1": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    },
    DELTA: {
        "4.0": "io.delta:delta-spark_4.0_2.13:4.4.0",
        "4.1": "io.delta:delta-spark_4.1_2.13:4.4.0",
        "4.2": "io.delta:delta-spark_4.2_2.13:4.4.0",
    },
}
_SETTINGS: Final = {
    ICEBERG: {
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
    },
    DELTA: {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "4",  # the logs are short
    },
}
_S3A: Final = "s3a://"
_FILE_URL: Final = re.compile(r"^file:/*(?=/)")
_SIGNS: Final = {ICEBERG: "metadata", DELTA: "_delta_log"}  # a subfolder of each table


def storage_of(spark: SparkSession, tables: str | Path, form: str = "") -> Storage:
    """The storage of the tables of a pipeline.

    Args:
        spark: a session that supports the format.
        tables: a folder; for Iceberg and Delta also a URL such as `s3a://bucket/folder`, or a
            database of a catalog of the session, such as `lake.rollq`.
        form: one of `FORMATS`; empty: detected from the folder.

    Raises:
        LocalError: BAD_OPTIONS if there is no such format.
    """
    form = form_of(tables, form)
    if form == PARQUET:
        return ParquetStorage(spark, tables)
    place = str(tables)
    if not ("://" in place or is_in_catalog(spark, place)):
        place = str(Path(place).absolute())  # executors and a Connect server have another cwd
    return LakeStorage(spark, LAKES[form](spark, place), place)


def form_of(tables: str | Path, form: str = "") -> str:
    """The given format, else that of the tables in a folder; `parquet` if there are none.

    Raises:
        LocalError: BAD_OPTIONS if there is no such format, or tables of it cannot be there; or the
            folder holds tables of another format, or of two and none is given.
    """
    held = _held(tables)
    if form:
        _check_held(tables, checked(form), held)
    elif len(held) > 1:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{tables} holds {' and '.join(held)} tables",
            "say which with --format (of export: --tables-format): a run updates one of them only",
        )
    form = form or next(iter(held), PARQUET)
    _check_place(str(tables), form)
    return form


def _held(tables: str | Path) -> list[str]:
    """The formats of the tables in a local folder; of other places it is not known."""
    folder = place_of(str(tables))
    if not isinstance(folder, Path):
        return []
    held = [form for form, sign in _SIGNS.items() if (folder / BATCHES / sign).is_dir()]
    return [PARQUET, *held] if Book(folder).is_begun() else held


def _check_held(tables: str | Path, form: str, held: Sequence[str]) -> None:
    """A second set of tables would hide the first, and what was forgotten would be back."""
    if held and form not in held:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{tables} holds {' and '.join(held)} tables",
            "leave out --format (of export: --tables-format) and ROLLQ_TABLES_FORMAT, "
            "or name another folder with --tables",
        )


def _check_place(tables: str, form: str) -> None:
    if form == PARQUET and "://" in tables:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{tables} is a URL, and tables of parquet are in a folder",
            "say --format delta or --format iceberg, also to read what is there",
        )
    if form == ICEBERG and tables.startswith(_S3A):
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "tables of iceberg need a catalog on S3: without one they are committed by a rename, "
            "which S3 does not have",
            "name a database of a catalog whose warehouse is there, as --tables lake.rollq; "
            "or use --format delta",
        )


def place_of(text: str) -> PurePath:
    """A folder in full, without symbolic links, however it was given; a URL elsewhere as it is."""
    local = _FILE_URL.sub("", text)
    return PurePosixPath(text) if "://" in local else Path(local).resolve()


def expect_files(tables: str | Path, form: str) -> None:
    """Check without Spark that there are tables, if they are files.

    Raises:
        LocalError: BAD_OPTIONS if there are none.
    """
    if form == PARQUET:
        Book(Path(tables)).expect()


def checked(form: str) -> str:
    """Validate the name of a format."""
    if form not in FORMATS:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"there is no format {form!r}", f"use {', '.join(FORMATS)}"
        )
    return form


def format_settings(form: str, tables: str = "", **conf: str) -> dict[str, str]:
    """Session settings for a format: its packages, unless the given settings name them, and what
    the format requires. Given settings take precedence.

    Args:
        form: one of `FORMATS`.
        tables: the location; for S3, here or as a warehouse in `conf`, `hadoop-aws` is added.
        conf: the given settings.

    Raises:
        LocalError: BAD_SETUP if there is no package for this version of Spark.
    """
    if checked(form) == PARQUET:
        return dict(conf)
    settings = _SETTINGS[form] | conf
    named = [_package(form, tables)] if _is_missing(form, conf) else []
    is_on_s3 = any(place.startswith(_S3A) for place in (tables, *conf.values()))
    if is_on_s3 and _is_missing("hadoop-aws", conf):
        named.append(_s3_package())
    if named:
        settings[PACKAGES] = ",".join([*named, *filter(None, [conf.get(PACKAGES, "")])])
    return settings


def _is_missing(package: str, conf: Mapping[str, str]) -> bool:
    return not any(package in conf.get(name, "") for name in (PACKAGES, "spark.jars"))


def _s3_package() -> str:
    """That of the Hadoop which is part of this Spark: others do not fit."""
    import pyspark

    [jar] = (Path(pyspark.__file__).parent / "jars").glob("hadoop-client-api-*.jar")
    return f"org.apache.hadoop:hadoop-aws:{jar.stem.rpartition('-')[2]}"


def _package(form: str, tables: str) -> str:
    installed = version("pyspark")
    short = ".".join(re.findall(r"\d+", installed)[:2])
    known = _PACKAGES[form]
    if short not in known:
        newest = max(known, key=lambda one: tuple(map(int, one.split("."))))
        # Who has tables already would get a second set of them.
        is_new = "://" not in tables and not (tables and _held(tables))
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{form.capitalize()} has no package for Spark {installed}; it has for "
            f"{', '.join(known)}",
            f"pip install 'pyspark=={newest}.*', or name a package with "
            f"--conf {PACKAGES}=…" + (", or use --format parquet" if is_new else ""),
        )
    return known[short]
