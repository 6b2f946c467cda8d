"""A Spark session with defaults for a machine that also runs a grid.

Local by default; the same function connects to a standalone cluster by its `spark://` address and
to a Connect server by `sc://`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rollq.base.errors import ErrorCode, LocalError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"
LOCAL: Final = "127.0.0.1"
GIB: Final = 1 << 30
MEMORY_GIB_MAX: Final = 4  # more did not improve performance


# For little data: only the C1 compiler and a serial GC. This halves the time of a start with a few
# queries, and more than doubles that of large ones. The code cache is as large as with both
# compilers: the 48 MiB of C1 alone fill up in a few batches of Delta, and then Java fails.
QUICK: Final = {
    JAVA_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
}


def session(master: str = "local[*]", **conf: object) -> SparkSession:
    """A Spark session, new or the existing one of this process.

    Args:
        master: `local[*]` and the like run Spark in a child process; `spark://host:port` is a
            cluster; `sc://host:port` is a Connect server, which needs no Java here.
        conf: Spark settings, which override the defaults: `**{"spark.sql.shuffle.partitions": 8}`.

    Raises:
        LocalError: BAD_SETUP if pyspark or Java is missing; with what to install.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"Spark cannot be imported: {error}",
            "pip install 'rollq[spark]'",
        ) from error
    wanted = {name: str(value) for name, value in conf.items()}
    if master.startswith("sc://"):
        return _built(SparkSession.builder.remote(master), wanted)
    is_local = master.startswith("local")
    settings = _defaults(is_local) | wanted
    environ = {"PYSPARK_PYTHON": sys.executable} | ({"SPARK_LOCAL_IP": LOCAL} if is_local else {})
    if SparkSession.getActiveSession() is None:
        from rollq.spark.java import find_java, make_home, quiet_log

        home = make_home(find_java())
        environ["JAVA_HOME"] = str(home)
        log = f"-Dlog4j2.configurationFile={quiet_log(home).as_uri()}"
        settings[JAVA_OPTIONS] = f"{log} {settings.get(JAVA_OPTIONS, '')}".strip()
    with _environment(environ):
        return _built(SparkSession.builder.master(master).appName("rollq"), settings)


def _built(builder: SparkSession.Builder, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        builder.config(name, value)
    return builder.getOrCreate()


def _defaults(is_local: bool) -> dict[str, str]:
    """Defaults for interactive queries: low latency, few messages."""
    chosen = {
        "spark.driver.memory": f"{_memory_gib()}g",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local:
        chosen |= {"spark.driver.host": LOCAL, "spark.driver.bindAddress": LOCAL}
    return chosen


def _memory_gib() -> int:
    """A quarter of the machine's memory, within limits."""
    import psutil

    return max(1, min(MEMORY_GIB_MAX, int(psutil.virtual_memory().total) // (4 * GIB)))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the Java process inside the block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
