"""A server over the tables, as people start it: who finds it, what it shows, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.serving import find_server
from tests.spark.clusters import JAVA_OPTIONS
from tests.spark.test_commands import DEADLINE_S, ROOT, rollq

pytestmark = pytest.mark.any_spark
COUNT = "SELECT count(*) AS n FROM {}events"
REMOTE = """
import sys
from pyspark.sql.connect.session import SparkSession
spark = SparkSession.builder.remote(sys.argv[1]).create()
print(spark.sql(sys.argv[2]).first()[0])
"""


class Served:
    """A server that runs, and the history behind its tables."""

    def __init__(self, folder: Path, spark: SparkSession, form: str = "") -> None:
        self.folder = folder
        self.tables = folder / "tables"
        self.lives = Lives(5)
        self._form = form
        self._feed = Feed(path=str(folder / "state"))
        self._spark = spark
        self.run_pipeline()
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "rollq", "pipeline", "serve", "--port", "0", "--json"),
                *("--master", "local[1]", "--tables", str(self.tables)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src"), "SPARK_SUBMIT_OPTS": JAVA_OPTIONS},
        )
        self.told = self.tell()

    def run_pipeline(self) -> None:
        """Something happens, and becomes a batch."""
        seal_lives(self.folder / "state", self.lives, 40)
        Pipeline(self._spark, self._feed, self.tables, form=self._form).run()

    def tell(self) -> dict[str, Any]:
        """What it says next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return dict(json.loads(line))


@pytest.fixture(scope="module")
def served(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    made = Served(tmp_path_factory.mktemp("served"), spark)
    with made.process:
        yield made
        made.process.kill()


def ask(served: Served, query: str) -> subprocess.CompletedProcess[str]:
    # Java cannot be started: whoever answers was there before.
    environ = os.environ | {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
    return rollq(served.folder, "sql", query, "--csv", "--tables", "tables", environ=environ)


def test_commands_find_it_and_start_no_java(served: Served) -> None:
    assert served.told["batch"] == 1
    assert find_server(served.tables, {}) == served.told["address"]
    ended = ask(served, COUNT.format(""))
    assert (ended.returncode, ended.stdout.split()[0]) == (0, "n")
    assert int(ended.stdout.split()[1]) > 40
    assert ended.stderr == "asking Spark\nquerying the tables\n"
    page = rollq(served.folder, "report", "--tables", "tables", "--out", "page.html")
    assert page.returncode == 0, page.stderr
    assert "Throughput" in (served.folder / "page.html").read_text(encoding="utf-8")


def test_other_clients_see_the_tables_of_the_newest_batch(served: Served) -> None:
    def seen(address: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", REMOTE, address, COUNT.format("rollq.")],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    before = int(seen(served.told["address"]).stdout)
    served.run_pipeline()
    assert served.tell() == {"batch": 2}
    after = int(seen(served.told["address"]).stdout)
    assert after > before
    assert ask(served, COUNT.format("")).stdout == f"n\n{after}\n"
    # From a folder without tables, the server's are asked.
    away = rollq(
        served.folder, "sql", COUNT.format(""), "--csv", "--master", served.told["address"]
    )
    assert away.stdout == f"n\n{after}\n", away.stderr
    stranger = seen(served.told["address"].partition("/;")[0])
    assert stranger.returncode != 0
    assert "token" in stranger.stderr


def test_there_is_one_server_over_a_folder(served: Served) -> None:
    second = rollq(served.folder, "pipeline", "serve", "--port", "0", "--tables", "tables")
    assert second.returncode == 1
    assert "another rollq pipeline serve runs over tables" in second.stderr


def test_it_ends_as_it_is_told_and_is_found_no_more(served: Served) -> None:
    """The last of the module."""
    children = psutil.Process(served.process.pid).children(recursive=True)
    assert children
    served.process.send_signal(signal.SIGTERM)
    _, errors = served.process.communicate(timeout=DEADLINE_S)
    assert (served.process.returncode, errors) == (0, "starting Spark\nopening the tables\n")
    assert psutil.wait_procs(children, timeout=DEADLINE_S)[1] == []
    assert find_server(served.tables, {}) == ""
    query = "SELECT exek FROM jobs"
    ended = rollq(served.folder, "sql", query, "--tables", "tables")
    assert ended.stderr.splitlines()[0] == (
        "for faster answers keep Spark running: rollq pipeline serve --tables tables"
    )
    assert ended.stderr.count("starting Spark") == 1
