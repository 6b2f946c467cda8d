"""What every peer looks like to the harness. What a work needs beyond it is a protocol there."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class Peer(Protocol):
    """One system in one mode. Made, started, measured by one case, stopped; never used again."""

    def available(self) -> str:
        """Why it cannot be measured here, and how to install it; empty if it can."""

    def version(self) -> str:
        """Name and version of what is measured."""

    def start(self, folder: Path) -> None:
        """Start servers and workers in an empty folder; returns when they serve."""

    def stop(self) -> None:
        """End all that was started. Safe to call twice, and after a failed start."""
