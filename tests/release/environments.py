"""Environments that hold a wheel and what it needs, and nothing else; and wheels of any commit."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Environment:
    """A folder with a Python of its own."""

    folder: Path

    @property
    def bin(self) -> Path:
        """Where its programs are."""
        return self.folder / "bin"

    def run(self, program: str, *words: str) -> str:
        """What one of its programs prints, which must end well."""
        return run([str(self.bin / program), *words], self.folder)


def install(wheel: Path, folder: Path) -> Environment:
    """A new environment with this wheel."""
    venv.create(folder)  # without pip: what is in there comes with the wheel
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    run([*pip, "--python", str(folder / "bin/python"), "install", str(wheel)], folder)
    return Environment(folder)


def build(sources: Path, out: Path) -> tuple[Path, Path]:
    """The sdist of these sources, and the wheel that is made of the sdist."""
    run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(sources)],
        sources,
    )
    (sdist,) = out.glob("*.tar.gz")
    (wheel,) = out.glob("*.whl")
    return sdist, wheel


def sources_of(commit: str, folder: Path) -> Path:
    """The files of a commit of this repository."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=ROOT, check=True, capture_output=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as tar:
        tar.extractall(folder, filter="data")
    return folder


def run(command: list[str], folder: Path) -> str:
    """What a command prints, which must end well."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout
