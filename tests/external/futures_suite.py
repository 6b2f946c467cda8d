"""Python's own tests of `concurrent.futures`, as far as they are about any executor, run with
`rollq.Executor` on a grid of one member and one worker:

    python -m tests.external.futures_suite

The tests are `test.test_concurrent_futures` of this Python or, as many builds leave that out, of
the nearest that is installed beside it; `--tests` names the folder `test` of another. Those of
`DIFFERS` must fail: whatever is mended leaves that list.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import unittest
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import cloudpickle
import test
from test.support import script_helper

from rollq import Executor
from rollq.local_grid import LocalGrid

NAME = "test.test_concurrent_futures"
# What is about any executor, and the module of it where the suite is a package (3.12 and newer).
PARTS = {
    "ExecutorTest": "executor",
    "WaitTests": "test_wait",
    "AsCompletedTests": "test_as_completed",
    "ExecutorShutdownTest": "test_shutdown",
}
# What differs, and why; docs/functions.md says the same to users.
DIFFERS = {
    "test_max_workers_negative": "the workers are the grid's: there is no max_workers",
    "test_free_reference": "returns an object of a plain class, which cannot travel",
    "test_interpreter_shutdown": "reads what a function prints, which is its job's output",
    "test_hang_gh83386": "reads what a function prints, which is its job's output",
    "test_cancel_futures": "running jobs are cancelled too, and it wants some that were not",
}
SLOTS = 5  # the suite's worker_count


def main() -> None:
    """Run them; ends with 1 if one ended otherwise than is known."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, help="the folder `test` of a Python's library")
    folder = parser.parse_args().tests or find_tests()
    if folder is None:
        sys.exit(f"no Python here has {NAME}: name the folder `test` of one with --tests")
    ended = run(folder)
    for name, ending in sorted(ended.items()):
        print(f"{name:45} {ending:8} {DIFFERS.get(name, '')}".rstrip())
    if wrong := surprises(ended):
        sys.exit(f"not as is known: {', '.join(wrong)}")


def find_tests() -> Path | None:
    """A folder `test` that has the suite: that of this Python, or of the nearest beside it."""
    beside = Path(sys.base_prefix).parent.glob("*/lib/python3.*/test")
    for folder in [Path(test.__path__[0]), *sorted(beside, key=_distance)]:
        if any((folder / f"test_concurrent_futures{end}").exists() for end in (".py", "")):
            return folder
    return None


def _distance(folder: Path) -> int:
    """By version: a suite uses helpers of the library that it came with."""
    return abs(int(folder.parent.name.removeprefix("python3.")) - sys.version_info.minor)


def run(folder: Path) -> dict[str, str]:
    """How each test ended: ok, failed or skipped."""
    test.__path__.append(str(folder))
    with (
        TemporaryDirectory() as place,
        LocalGrid(Path(place), "rollq.pickled", slots=SLOTS) as grid,
    ):
        loader = unittest.TestLoader()
        cases = [_case(name, inner, grid.address) for name, inner in PARTS.items()]
        return _ended(unittest.TestSuite(map(loader.loadTestsFromTestCase, cases)))


def surprises(ended: dict[str, str]) -> list[str]:
    """Tests that ended otherwise than `DIFFERS` says."""
    return sorted(
        name for name, ending in ended.items() if (ending == "failed") != (name in DIFFERS)
    )


def _case(name: str, inner: str, address: str) -> type[unittest.TestCase]:
    """A part of the suite, with executors of the grid at an address."""
    module = importlib.import_module(NAME)
    if not hasattr(module, name):
        module = importlib.import_module(f"{NAME}.{inner}")
    cloudpickle.register_pickle_by_value(module)  # workers have no such module

    class GridExecutor(Executor):
        """Made as the suite makes one."""

        def __init__(self, max_workers: int = SLOTS) -> None:
            super().__init__(address, allow_pickle=True)

    class Case(getattr(module, name), unittest.TestCase):  # type: ignore[misc]
        executor_type = GridExecutor
        worker_count = SLOTS

        def setUp(self) -> None:
            self.executor = GridExecutor()
            self.addCleanup(self.executor.shutdown)
            if hasattr(module, "assert_python_ok"):
                changed = patch.object(module, "assert_python_ok", partial(_run_script, address))
                changed.start()
                self.addCleanup(changed.stop)

    return Case


def _run_script(address: str, flag: str, script: str) -> Any:
    """A script of the suite, with the import of the executor changed."""
    ours = (
        f"import rollq, test; test.__path__[:] = {list(test.__path__)}; "
        f"GridExecutor = lambda max_workers: rollq.Executor({address!r}, allow_pickle=True)"
    )
    return script_helper.assert_python_ok(
        flag, script.replace("from concurrent.futures import GridExecutor", ours)
    )


def _ended(suite: unittest.TestSuite) -> dict[str, str]:
    ended = {_name(case): "ok" for part in suite for case in part}  # type: ignore[union-attr, arg-type]
    told = unittest.TextTestRunner(verbosity=2).run(suite)
    ended |= {_name(case): "skipped" for case, _ in told.skipped}
    return ended | {_name(case): "failed" for case, _ in told.failures + told.errors}


def _name(case: unittest.TestCase) -> str:
    """Of the test; what fails in a `subTest` fails its test."""
    whole: unittest.TestCase = getattr(case, "test_case", case)
    return whole.id().rpartition(".")[2]


if __name__ == "__main__":
    main()
