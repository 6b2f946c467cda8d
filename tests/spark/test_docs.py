"""The page about Spark and the notebook are true: what they show is run, on a live grid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.playground import Playground, playground
from tests.spark.test_commands import rollq

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "spark.md").read_text(encoding="utf-8")
NOTEBOOK = DOCS / "notebooks/questions.ipynb"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PRINTS = re.compile(r"(?:  |^)# prints (.*)$", re.MULTILINE)
ELSEWHERE = {"standalone": "spark://127.0.0.1:7077", "connect": "sc://127.0.0.1:15002"}

SECTIONS = {
    title: BLOCK.findall(text)
    for title, text in re.findall(r"^## (.+?)$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    if BLOCK.search(text)
}


@pytest.fixture(scope="module")
def ground(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    with playground(tmp_path_factory.mktemp("docs")) as made:
        yield made


@pytest.mark.any_spark
@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_of_the_page_runs(ground: Playground, title: str) -> None:
    """They build on each other, as on the page."""
    for language, text in SECTIONS[title]:
        if any(address in text for address in ELSEWHERE.values()):
            continue  # the next test
        if language == "bash":
            ground.run_commands(text)
            continue
        printed = ground.run_python(text, title)
        if expected := PRINTS.findall(text):
            assert printed.splitlines() == expected


def test_the_example_of_another_spark_runs_there(ground: Playground, kind: str) -> None:
    """A program has one session, so it is the one of these tests whatever address it names."""
    if kind not in ELSEWHERE:
        pytest.skip("this Spark is embedded")
    (code,) = [text for _, text in SECTIONS["Where Spark runs"] if ELSEWHERE[kind] in text]
    printed = ground.run_python(code, kind)
    assert printed.splitlines() == PRINTS.findall(code)


@pytest.mark.any_spark
def test_spark_itself_is_not_heard(ground: Playground) -> None:
    """In a process of its own, so that all of its chatter would be there."""
    words = ("sql", "SELECT count(*) AS n FROM workers", "--csv", "--master", "local[1]")
    ended = rollq(ground.folder, *words)
    assert (ended.stdout, ended.stderr) == ("n\n1\n", "")


@pytest.mark.any_spark
def test_ten_questions_have_answers(
    ground: Playground, monkeypatch: pytest.MonkeyPatch, rewrite: bool
) -> None:
    """With `--rewrite` the answers are put into the notebook."""
    monkeypatch.setenv("ROLLQ_TABLES", "rollq-tables")
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    asked = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed = ground.run_python("".join(cell["source"]), NOTEBOOK.name)
        if printed:
            asked += 1
            rows = [line for line in printed.splitlines() if line.startswith("|")]
            assert len(rows) > 1, f"no answer to:\n{''.join(cell['source'])}"
            output = {"output_type": "stream", "name": "stdout"}
            cell["outputs"] = [output | {"text": printed.splitlines(keepends=True)}]
    assert asked == 10
    if rewrite:
        text = json.dumps(notebook, indent=1, ensure_ascii=False)
        NOTEBOOK.write_text(text + "\n", encoding="utf-8")
