"""The files of the pages: words in both languages, nothing from elsewhere, data only as text."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import rollq.web

STATIC = Path(rollq.web.__file__).parent / "static"
SCRIPTS = sorted((STATIC / "js").rglob("*.js"))
PAGES = (STATIC / "js" / "pages.js").read_text()
TEXTS = "\n".join(path.read_text() for path in SCRIPTS)
LINES_MAX = 500
NAMED = re.compile(r"\bt\(\s*\"([\w.]+)\"")
NUMBERED = re.compile(r"\{(\w+)")


def names_of(path: Path) -> str:
    return path.relative_to(STATIC).as_posix()


def words_of(language: str) -> dict[str, str]:
    def only_once(pairs: list[tuple[str, str]]) -> dict[str, str]:
        assert len(dict(pairs)) == len(pairs), "a name twice"
        return dict(pairs)

    text = (STATIC / "words" / f"{language}.json").read_text()
    found: dict[str, str] = json.loads(text, object_pairs_hook=only_once)
    return found


def test_both_languages_have_the_same_words_and_values() -> None:
    english, japanese = words_of("en"), words_of("ja")
    assert list(english) == list(japanese)
    for name, text in english.items():
        assert set(NUMBERED.findall(text)) >= set(NUMBERED.findall(japanese[name])), name


def test_every_word_that_a_script_names_exists() -> None:
    assert sorted(set(NAMED.findall(TEXTS)) - set(words_of("en"))) == []


def test_every_page_has_a_module_and_words() -> None:
    names = re.findall(r"\{ name: \"(\w+)\"", PAGES)
    assert names
    for name in names:
        assert (STATIC / "js" / "pages" / f"{name}.js").is_file(), name
        assert f"{name}.title" in words_of("en"), name


@pytest.mark.parametrize("path", SCRIPTS, ids=names_of)
def test_data_is_never_markup(path: Path) -> None:
    text = path.read_text()
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
    assert not re.search(forbidden, text)
    assert text.count("\n") <= LINES_MAX


def test_nothing_is_loaded_from_elsewhere() -> None:
    for path in STATIC.rglob("*"):
        if path.is_file():
            text = path.read_text().replace("http://www.w3.org/", "")
            assert not re.search(r"https?://", text), path
    index = (STATIC / "index.html").read_text()
    assert not re.search(r"<style|style=|<script>|\son\w+=", index)
    for name in re.findall(r"\"/static/([^\"#]+)\"", index):
        assert (STATIC / name).is_file(), name


def test_every_sign_is_on_the_sheet() -> None:
    sheet = set(re.findall(r"symbol id=\"(\w+)\"", (STATIC / "icons.svg").read_text()))
    used = re.findall(r"\bicon\(\"(\w+)\"|\bsign: \"(\w+)\"|\bicon: \"(\w+)\"", TEXTS)
    assert {name for found in used for name in found if name} <= sheet


@pytest.mark.skipif(shutil.which("node") is None, reason="no node to read the scripts with")
def test_scripts_parse() -> None:
    for path in SCRIPTS:
        kind = "commonjs" if path.name == "boot.js" else "module"
        command = ["node", "--check", f"--input-type={kind}"]
        done = subprocess.run(command, input=path.read_bytes(), capture_output=True, check=False)
        assert not done.returncode, (path, done.stderr)
