"""The files that a job may access, as lists of paths for Landlock and for mounts."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError

# Needed by most programs to be loaded and run. Missing paths are skipped.
RUN: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix"),
    *("/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/snap"),
)
READ: Final = ("/proc", "/sys", "/dev/urandom", "/dev/random")
WRITE: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/tty", "/dev/ptmx", "/dev/pts")
SHARED_MEMORY: Final = "/dev/shm"  # separate for each job in a mount namespace
ENTRIES_MAX: Final = 10_000  # in a folder whose entries are listed one by one


class PathRules(NamedTuple):
    """The permitted accesses by path; each path includes everything below."""

    run: list[str]  # read and execute
    read: list[str]
    names: list[str]  # folders that may be listed only


def rules_of_paths(
    run: Sequence[str], read: Iterable[str], hidden: Sequence[str], programs: Sequence[str] = ()
) -> PathRules:
    """The rules without hidden paths. For a folder with hidden paths below, the other entries are
    permitted one by one, and the folder may be listed, as path lookups need that. Folders of
    `programs` may be below hidden ones."""
    names: list[str] = []
    inside = [
        path
        for path in programs
        if any(is_below(path, one) and path != one for one in hidden)
        and not any(is_below(one, path) for one in hidden)
    ]
    return PathRules(
        [*_without([*RUN, *interpreter_paths(), *programs, *run], hidden, names), *inside],
        _without([*READ, *read], hidden, names),
        names,
    )


def interpreter_paths() -> list[str]:
    """The folders of our Python, for scripts that it runs."""
    return list(dict.fromkeys(map(os.path.realpath, (sys.prefix, sys.base_prefix))))


def module_paths() -> list[str]:
    """The folders with our Python's modules, including those of applications."""
    return list(dict.fromkeys(os.path.realpath(path or os.getcwd()) for path in sys.path))


def is_below(path: str, above: str) -> bool:
    """Whether a path is `above` or something in it. Both are absolute."""
    return Path(path).is_relative_to(above)


def check_passable(paths: Iterable[str]) -> None:
    """Raises LocalError if users of jobs cannot reach one of these absolute paths."""
    for path in paths:
        for folder in (Path(path), *Path(path).parents):
            if folder.exists() and not folder.stat().st_mode & stat.S_IXOTH:
                raise LocalError(
                    ErrorCode.NO_SANDBOX,
                    f"users of jobs cannot reach {path}: {folder} is closed to others",
                    f"chmod o+x {folder}, or use another directory",
                )


def _without(paths: Iterable[str], hidden: Sequence[str], names: list[str]) -> list[str]:
    """These paths, or the entries in them; listed folders are added to `names`."""
    found: dict[str, None] = {}
    waiting = list(paths)
    while waiting:
        path = waiting.pop(0)
        if any(is_below(path, one) for one in hidden):
            continue
        if not any(is_below(one, path) for one in hidden):
            found[path] = None
        elif os.path.isdir(path) and not os.path.islink(path):
            names.append(path)
            waiting += [os.path.join(path, name) for name in sorted(os.listdir(path))[:ENTRIES_MAX]]
    return list(found)
