"""Pages that show Spark, and the notebook, are true: what they show is run, on a live grid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.playground import Playground, playground
from tests.spark.test_commands import rollq

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "spark.md").read_text(encoding="utf-8")
NOTEBOOK = DOCS / "notebooks/questions.ipynb"
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)
QUESTION = re.compile(r"^rollq sql [^|>\n]*", re.MULTILINE)
PRINTS = re.compile(r"(?:  |^)# prints (.*)$", re.MULTILINE)
OF_MODULE = re.compile("^from (rollq import task|tasks import .*)$", re.MULTILINE)
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


def run(ground: Playground, blocks: list[tuple[str, str]], title: str) -> None:
    """What blocks print must be what they say that they print."""
    for language, text in blocks:
        if any(address in text for address in ELSEWHERE.values()):
            continue  # tested below
        if language == "bash":
            ground.run_commands(text)
            continue
        printed = ground.run_python(text, title)
        if expected := PRINTS.findall(text):
            assert printed.splitlines() == expected


@pytest.mark.any_spark
def test_every_block_of_the_page_is_run() -> None:
    """But for those without a language: how to install it, other formats and S3, which need another
    Spark (`test_formats`), a lineage backend (`test_lineage`), and what removes the rows that
    others read (`test_forget`)."""
    fences = re.findall(r"^```(.*)$", PAGE, re.MULTILINE)[::2]
    languages = [language for blocks in SECTIONS.values() for language, _ in blocks]
    assert [language for language in fences if language] == languages
    assert fences.count("") == 8


@pytest.mark.any_spark
@pytest.mark.parametrize("title", SECTIONS)
def test_a_section_of_the_page_runs(ground: Playground, title: str) -> None:
    """They build on each other, as on the page."""
    run(ground, SECTIONS[title], title)


@pytest.mark.each_spark
def test_the_example_of_another_spark_runs_there(ground: Playground, kind: str) -> None:
    """A program has one session, so it is the one of these tests whatever address it names."""
    if kind not in ELSEWHERE:
        pytest.skip("this Spark is embedded")
    (code,) = [text for _, text in SECTIONS["Where Spark runs"] if ELSEWHERE[kind] in text]
    printed = ground.run_python(code, kind)
    assert printed.splitlines() == PRINTS.findall(code)


@pytest.mark.any_spark
@pytest.mark.parametrize("page", ["README.md", "docs/tables.md"])
def test_another_page_runs(ground: Playground, page: str) -> None:
    """But for functions of a module, which `integration/test_readme.py` runs."""
    blocks = BLOCK.findall((ROOT / page).read_text(encoding="utf-8"))
    assert blocks
    run(ground, [block for block in blocks if not OF_MODULE.search(block[1])], page)


@pytest.mark.any_spark
def test_questions_on_the_page_of_the_command_have_answers(ground: Playground) -> None:
    questions = QUESTION.findall((DOCS / "cli/sql.md").read_text(encoding="utf-8"))
    assert len(questions) > 3
    for question in questions:
        if "OPTIONS" not in question:
            assert ground.run_commands(question)


@pytest.mark.any_spark
def test_spark_itself_is_not_heard(ground: Playground) -> None:
    """In a process of its own, so that all of its chatter would be there."""
    words = ("sql", "SELECT 1 AS n FROM workers LIMIT 1", "--csv", "--master", "local[1]")
    ended = rollq(ground.folder, *words)
    assert (ended.stdout, ended.stderr) == ("n\n1\n", "starting Spark\nquerying the tables\n")


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
