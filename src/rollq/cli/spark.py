"""Spark sessions for commands: started without output, stopped at the end, with errors as
messages."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError, RollqError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rollq.spark.asking.queries import Load
    from rollq.spark.pipeline.manifest import TableManifest

SAID_LINES: Final = 5
_NOT_FETCHED: Final = "unresolved dependency: "
QUICK_ROWS: Final = 500_000  # up to this, a fast start matters more than optimized code
REMOTE: Final = "sc://"
ROWS_PER_INDEX: Final = 100  # estimate without data


@contextlib.contextmanager
def quiet_spark(master: str, **conf: object) -> Iterator[SparkSession]:
    """A session for one command; it is stopped afterwards unless it existed before. Times are UTC.

    Raises:
        LocalError: BAD_SETUP if Spark is missing, does not start or fails; DISK_FULL.
    """
    os.environ["TZ"] = "UTC"  # Spark returns timestamps in the zone of this process
    time.tzset()
    was_there = _is_running()
    spark = _start(master, conf)
    logging.getLogger().addFilter(_is_not_of_py4j)
    try:
        yield spark
    except (RollqError, OSError):
        raise
    except Exception as error:
        if told := _told(error):
            raise told from error
        raise
    finally:
        if not was_there:
            with contextlib.suppress(Exception):
                spark.stop()
        logging.getLogger().removeFilter(_is_not_of_py4j)


@contextlib.contextmanager
def spark_to_ask(
    master: str, tables: str, form: str = "", conf: Sequence[str] | None = None
) -> Iterator[tuple[SparkSession, Callable[[], Load]]]:
    """A session for queries, and the function that opens the tables, all of one batch: of a running
    server for these tables, else of a new Spark.

    Args:
        master: The Spark master; empty: the fastest available.
        tables: The directory. If it has no tables, a Connect server may have its own.
        form: The format of the tables, if it cannot be detected.
        conf: Settings of the user, as `NAME=VALUE`.

    Raises:
        LocalError: BAD_OPTIONS if there are no tables, BAD_SETUP if Spark does not start.
    """
    from rollq.cli.tables import spark_conf, spark_with
    from rollq.spark.asking.queries import loader, served
    from rollq.spark.pipeline.formats import PARQUET, form_of
    from rollq.spark.pipeline.manifest import Book
    from rollq.spark.pipeline.settings import COLD_SETTINGS, SMALL_ROWS, SMALL_SETTINGS

    found = form_of(tables, form)
    given = spark_conf(conf)
    if found != PARQUET:
        with spark_with(found, tables, master or _warm_place(tables, given), conf, {}) as spark:
            yield spark, lambda: loader(spark, tables, found)
        return
    book = Book(Path(tables))
    if master.startswith(REMOTE) and book.newest() is None:
        with quiet_spark(master, **given) as spark:
            yield spark, lambda: served(spark)
        return
    manifest = book.expect()
    place = master or _warm_place(tables, given)
    settings = {} if place.startswith(REMOTE) else suited_to(manifest)
    if _rows(manifest) <= SMALL_ROWS:
        settings = {**settings, **SMALL_SETTINGS, **COLD_SETTINGS}
    with quiet_spark(place, **{**settings, **given}) as spark:
        yield spark, lambda: loader(spark, tables, found)


def _warm_place(tables: str, conf: Mapping[str, str]) -> str:
    """The address of a running server for the tables; empty, with a remark, if there is none."""
    from rollq.cli.options import DEFAULT_MASTER, DEFAULT_TABLES
    from rollq.cli.output import remark
    from rollq.spark.serving import find_server

    if _is_running():
        return DEFAULT_MASTER
    found = find_server(tables, conf)
    if not found:
        which = "" if tables == DEFAULT_TABLES else f" --tables {shlex.quote(tables)}"
        remark(f"for faster answers keep Spark running: rollq pipeline serve{which}")
    return found or DEFAULT_MASTER


def suited_to(
    manifest: TableManifest | None, ends: Mapping[str, int] | None = None
) -> Mapping[str, str]:
    """Spark settings for a command that reads whole tables or history: a fast start for few rows.

    Args:
        manifest: The tables; None if there are none yet.
        ends: The end index of the history to read by group; None: no history is read.
    """
    from rollq.spark.session import QUICK

    if ends is None:
        rows = _rows(manifest) if manifest else 0.0
    else:
        marks = {group: mark.index for group, mark in manifest.marks.items()} if manifest else {}
        known = sum(marks.values())
        each_index = manifest.events / known if manifest and known else ROWS_PER_INDEX
        rows = sum(end - marks.get(group, 0) for group, end in ends.items()) * each_index
    return QUICK if rows <= QUICK_ROWS else {}


def _rows(manifest: TableManifest) -> float:
    return float(sum(file.rows for files in manifest.tables.values() for file in files))


def _is_running() -> bool:
    """Whether this process has a session, without importing Spark.

    A session need not be active in the Java thread of the caller, so the context is checked too.
    """
    loaded = sys.modules.get("pyspark.sql")
    if loaded is None:
        return False
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    has_context = getattr(context, "_active_spark_context", None) is not None
    return has_context or loaded.SparkSession.getActiveSession() is not None


def _start(master: str, conf: dict[str, object]) -> SparkSession:
    """Start a session whose processes never write to the terminal."""
    from rollq.cli.progress import spinner
    from rollq.spark.session import session

    doing = "asking Spark" if master.startswith(REMOTE) else "starting Spark"
    with spinner(doing), tempfile.TemporaryFile() as said:
        try:
            with _stderr_in(said):
                return session(master, **conf)
        except RollqError:
            raise
        except Exception as error:
            said.seek(0)
            lines = said.read().decode(errors="replace").splitlines()
            if missing := _not_fetched(lines):
                raise missing from error
            failure = _failed("Spark does not start", error)
            for line in lines[-SAID_LINES:]:
                failure.add_note(line)
            raise failure from error


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """py4j logs what it raises, with a traceback and by the root logger; Ctrl-C, too."""
    return record.module != "java_gateway"


def _not_fetched(lines: Sequence[str]) -> LocalError | None:
    """The error for a package that could not be downloaded."""
    for line in lines:
        _, found, package = line.partition(_NOT_FETCHED)
        if found:
            return LocalError(
                ErrorCode.BAD_SETUP,
                f"Spark cannot fetch the package {package.split(':')[0].strip().replace('#', ':')}",
                "give it access to a Maven repository (spark.jars.repositories, "
                "spark.jars.ivySettings), or name jars that are here: --conf spark.jars=FILE",
            )
    return None


def _told(error: Exception) -> LocalError | None:
    """The error for one of Spark; None for a bug. Java's own come as they are, by py4j."""
    from pyspark.errors import PySparkException

    from rollq.spark.pipeline.failures import disk_full

    failed = _failed("Spark failed", error) if isinstance(error, PySparkException) else None
    return disk_full(error) or failed


def _failed(what: str, error: Exception) -> LocalError:
    words = str(error).strip().splitlines() or [type(error).__name__]
    return LocalError(ErrorCode.BAD_SETUP, f"{what}: {words[0]}")


@contextlib.contextmanager
def _stderr_in(file: IO[bytes]) -> Iterator[None]:
    """Redirect the stderr of processes that are started within this to a file."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)
