"""Errors that are not ours: which become words, and which stay bugs."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from rollq.cli.failures import EXIT_USAGE, Commands


def app_that_needs(module: str) -> typer.Typer:
    """A tree with a command that imports a module which is not there."""
    app = typer.Typer(cls=Commands)

    @app.callback()
    def root() -> None:
        """A root, so that there is a tree."""

    @app.command()
    def look() -> None:
        raise ModuleNotFoundError(f"No module named {module!r}", name=module)

    return app


@pytest.mark.parametrize("module", ["pyspark", "pyarrow.parquet"])
def test_a_command_without_its_packages_says_what_to_install(module: str) -> None:
    ended = CliRunner().invoke(app_that_needs(module), ["look"])
    assert ended.exit_code == EXIT_USAGE
    assert ended.stderr == (
        f"rollq: this command requires Spark: {module} is not installed [bad_setup]\n"
        "  pip install 'rollq[spark]'\n"
    )


def test_another_module_that_is_missing_is_a_bug() -> None:
    ended = CliRunner().invoke(app_that_needs("pyspark_of_others"), ["look"])
    assert isinstance(ended.exception, ModuleNotFoundError)
