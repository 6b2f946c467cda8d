"""Spark for commands: started without its chatter, its failures told in words, stopped at the
end."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError, RollqError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rollq.spark.pipeline.manifest import Manifest

SAID_LINES: Final = 5
QUICK_ROWS: Final = 500_000  # up to here a quick start is worth more than good code
ROWS_PER_INDEX: Final = 100  # before anything is known


@contextlib.contextmanager
def quiet_spark(master: str, **conf: object) -> Iterator[SparkSession]:
    """A session for one command, stopped afterwards unless it was there before. Times are UTC from
    here on.

    Raises:
        LocalError: BAD_SETUP if Spark is missing, does not start or fails.
    """
    os.environ["TZ"] = "UTC"  # Spark's rows bring moments in the zone of this process
    time.tzset()
    was_there = _is_running()
    spark = _start(master, conf)
    from pyspark.errors import PySparkException

    try:
        yield spark
    except PySparkException as error:
        raise _failed("Spark failed", error) from error
    finally:
        if not was_there:
            with contextlib.suppress(Exception):
                spark.stop()


def suited_to(
    manifest: Manifest | None, ends: Mapping[str, int] | None = None
) -> Mapping[str, str]:
    """Settings of Spark for a command that reads all tables, or more of the history: if it is few
    rows, a quick start.

    Args:
        manifest: the tables; None if there are none yet.
        ends: by group the index after the last; None: nothing of the history is read.
    """
    from rollq.spark.session import QUICK

    if ends is None:
        files = manifest.tables.values() if manifest else ()
        rows = float(sum(file.rows for each in files for file in each))
    else:
        marks = {group: mark.index for group, mark in manifest.marks.items()} if manifest else {}
        known = sum(marks.values())
        each_index = manifest.events / known if manifest and known else ROWS_PER_INDEX
        rows = sum(end - marks.get(group, 0) for group, end in ends.items()) * each_index
    return QUICK if rows <= QUICK_ROWS else {}


def _is_running() -> bool:
    """Whether this process has a session; asking does not import Spark.

    A session that is there need not be active in the Java thread that is asked, so the context
    counts as well.
    """
    loaded = sys.modules.get("pyspark.sql")
    if loaded is None:
        return False
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    has_context = getattr(context, "_active_spark_context", None) is not None
    return has_context or loaded.SparkSession.getActiveSession() is not None


def _start(master: str, conf: dict[str, object]) -> SparkSession:
    """A session whose processes do not write to the terminal, now and later."""
    from rollq.cli.progress import spinner
    from rollq.spark.session import session

    with spinner("starting Spark"), tempfile.TemporaryFile() as said:
        try:
            with _stderr_in(said):
                return session(master, **conf)
        except RollqError:
            raise
        except Exception as error:
            told = _failed("Spark does not start", error)
            said.seek(0)
            for line in said.read().decode(errors="replace").splitlines()[-SAID_LINES:]:
                told.add_note(line)
            raise told from error


def _failed(what: str, error: Exception) -> LocalError:
    words = str(error).strip().splitlines() or [type(error).__name__]
    return LocalError(ErrorCode.BAD_SETUP, f"{what}: {words[0]}")


@contextlib.contextmanager
def _stderr_in(file: IO[bytes]) -> Iterator[None]:
    """Processes that are started meanwhile write their errors there, for as long as they live."""
    sys.stderr.flush()
    ours = os.dup(2)
    os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(ours, 2)
        os.close(ours)
