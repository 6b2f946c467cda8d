"""Hook of the build: puts the commit that is built into the package, as `rollq/COMMIT`.

A build from the sources' own git repository asks git. An sdist carries the file, so that a wheel
that is made of it says the same. Without either there is no file, and the version stands alone.
An editable install has none: its code changes without a build.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PLACES = {"wheel": "rollq/COMMIT", "sdist": "src/rollq/COMMIT"}


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds one file to what is built."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before a build: `version` is the kind, `standard` or `editable`."""
        commit = commit_of(Path(self.root))
        if version == "editable" or not commit:
            return
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "COMMIT"
        path.write_text(commit + "\n", encoding="ascii")
        build_data["force_include"][str(path)] = PLACES[self.target_name]

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After a build."""
        if self._folder is not None:
            self._folder.cleanup()


def commit_of(root: Path) -> str:
    """The commit that is checked out here, with `-dirty` if files differ from it; or nothing."""
    if not (root / ".git").exists():  # a repository around the sources is not theirs
        return ""
    try:
        return subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            cwd=root,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
