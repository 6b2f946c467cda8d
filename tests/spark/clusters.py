"""The three kinds of Spark that the same tests run against, each from the pip package alone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

from rollq.base.errors import LocalError
from rollq.net.ports import free_ports
from rollq.spark import session
from rollq.spark.java import find_java, make_home
from rollq.spark.pipeline.formats import LAKES, PACKAGES, format_settings

KINDS = ("local", "standalone", "connect")
LOCAL = "local[2,4]"  # a task that fails is tried again, as on a cluster
ROOT = Path(__file__).parents[2]
START_S_MAX = 90.0
SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # On a busy machine Python may take longer than 15 s to reach Java.
    "spark.python.authenticate.socketTimeout": "180s",
}
# Tests are over before a better compiler, or collecting garbage beside them, has paid for itself.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"


def missing_formats() -> dict[str, str]:
    """Why a format of tables cannot be used here, by its name; "" if it can. Packages are looked
    for as Spark does it, by a process that does nothing else."""
    missing = {}
    for form in LAKES:
        try:
            packages = format_settings(form)[PACKAGES]
        except LocalError as error:
            missing[form] = f"{error}"
            continue
        done = subprocess.run(
            (
                *(Path(pyspark.__file__).parent / "bin" / "spark-submit", "--packages", packages),
                *("--class", "org.apache.spark.SparkFiles", "spark-internal"),
            ),
            env=_environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        is_there = "unresolved dependenc" not in done.stderr.lower()
        missing[form] = "" if is_there else f"{packages} cannot be fetched"
    return missing


def format_conf(formats: Sequence[str]) -> dict[str, str]:
    """Settings of a session that has all of these formats."""
    each = [format_settings(form) for form in formats]
    names = {name for settings in each for name in settings}
    return {name: ",".join(one[name] for one in each if name in one) for name in names}


@contextmanager
def running(kind: str, folder: Path, formats: Sequence[str] = ()) -> Iterator[SparkSession]:
    """A session on a Spark of this kind; all of it is gone afterwards."""
    os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    os.environ["SPARK_SUBMIT_OPTS"] = JAVA_OPTIONS  # for drivers that tests start, too
    os.environ["SPARK_DAEMON_JAVA_OPTS"] = JAVA_OPTIONS
    conf = SMALL | {"spark.sql.warehouse.dir": str(folder / "warehouse")} | format_conf(formats)
    with ExitStack() as stack:
        master = LOCAL
        if kind == "standalone":
            master = stack.enter_context(_standalone(folder))
            conf |= {"spark.executor.memory": "1g", "spark.executor.extraJavaOptions": JAVA_OPTIONS}
        elif kind == "connect":
            master = stack.enter_context(_connect(folder, conf))
            conf = {}
        spark = session(master, **conf)
        stack.callback(spark.stop)
        yield spark


@contextmanager
def _standalone(folder: Path) -> Iterator[str]:
    """A master and a worker with two cores; its address."""
    port, web, worker_web = free_ports(3)
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    options = ["--host", "127.0.0.1", "--webui-port"]
    with (
        _program(
            folder / "master.log",
            *("spark-class", f"{deploy}.master.Master", *options, str(web), "--port", str(port)),
            ready="I have been elected leader",
        ),
        _program(
            folder / "worker.log",
            *("spark-class", f"{deploy}.worker.Worker", *options, str(worker_web)),
            *("--cores", "2", "--memory", "1g", "--work-dir", str(folder / "work"), master),
            ready="Successfully registered with master",
        ),
    ):
        yield master


@contextmanager
def _connect(folder: Path, conf: dict[str, str]) -> Iterator[str]:
    """A Connect server with a local Spark behind it; its address."""
    port = free_ports(1)[0]
    conf = conf | {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    given = [part for name, value in conf.items() for part in ("--conf", f"{name}={value}")]
    with _program(
        folder / "connect.log",
        *("spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", LOCAL, *given, "spark-internal"),
        port=port,
    ):
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _program(log: Path, name: str, *args: str, ready: str = "", port: int = 0) -> Iterator[None]:
    """A program of Spark that has said that it is ready, or accepts connections."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [Path(pyspark.__file__).parent / "bin" / name, *args],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=_environ(),
            cwd=log.parent,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + START_S_MAX
        while not (_accepts(port) if port else ready in log.read_text()):
            assert process.poll() is None, f"it ended: {log.read_text()[-2000:]}"
            assert time.monotonic() < deadline, f"it is not ready: {log.read_text()[-2000:]}"
            time.sleep(0.05)
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _environ() -> dict[str, str]:
    return os.environ | {
        "JAVA_HOME": str(make_home(find_java())),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _accepts(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0
