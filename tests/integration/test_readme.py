"""The functions of the README, and of its translation, run as they are shown."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from rollq.cli.fleet import Fleet
from rollq.net.ports import free_ports

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "README.ja.md")
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WORKER = re.compile(r"`rollq worker 127\.0\.0\.1 5000 ([^`]*)`")


def functions_of(page: str) -> tuple[str, str, str]:
    """The module of functions, the options of its worker, and the program that calls them."""
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = PYTHON.findall(text)
    (module,) = [block for block in blocks if block.startswith("from rollq import task\n")]
    (caller,) = [block for block in blocks if "\nfrom tasks import " in block]
    (options,) = WORKER.findall(text)
    return module, options, caller


def test_functions_print_what_the_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, options, caller = functions_of(PAGES[0])
    (tmp_path / "tasks.py").write_text(module, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with Fleet(tmp_path) as fleet:
        fleet.start_members(free_ports(1))
        fleet.start_worker("functions", *options.split())
        program = caller.replace("127.0.0.1:5000", fleet.servers)
        done = subprocess.run(
            [sys.executable, "-c", program], check=True, capture_output=True, text=True
        )
    (says,) = re.findall(r"  # prints (.*)$", caller, re.MULTILINE)
    assert done.stdout == f"{says}\n"


def test_the_pages_show_the_same_functions() -> None:
    first, other = map(functions_of, PAGES)
    assert re.sub("  # .*", "", other[2]) == re.sub("  # .*", "", first[2])
    assert other[:2] == first[:2]
