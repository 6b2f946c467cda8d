"""What the figures were measured on: the machine, and how its interpreter was built."""

from __future__ import annotations

import platform
import re
import shlex
import sys
import sysconfig
from typing import Any

import psutil


def describe() -> dict[str, Any]:
    """For the report."""
    return {
        "cores": psutil.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_build": build_of(*settings()),
    }


def line() -> str:
    """The same for people."""
    found = describe()
    return (
        f"{found['cores']} cores, {found['memory_gb']} GB, Linux {found['kernel']}, "
        f"Python {found['python']} ({found['python_build']})"
    )


def settings() -> tuple[str, str]:
    """How this interpreter was configured, and the compiler's flags."""
    config = sysconfig.get_config_var("CONFIG_ARGS") or ""
    flags = f"{sysconfig.get_config_var('PY_CFLAGS') or ''}"
    return str(config), flags


def build_of(config: str, flags: str) -> str:
    """Optimisation of a build, by its configure arguments and the flags of its compiler.

    An interpreter without PGO and LTO is slower by a tenth or more: figures of different builds
    do not compare.
    """
    arguments = shlex.split(config)
    levels = re.findall(r"-O\w+", flags)
    has_lto = any(one.startswith("--with-lto") and one != "--with-lto=no" for one in arguments)
    parts = [
        levels[-1] if levels else "-O?",  # the last one counts
        "PGO" if "--enable-optimizations" in arguments else "no PGO",
        "LTO" if has_lto or "-flto" in flags else "no LTO",
        "shared" if "--enable-shared" in arguments else "static",
    ]
    if hasattr(sys, "gettotalrefcount"):
        parts.append("debug")
    return ", ".join(parts)
