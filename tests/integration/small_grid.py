"""One real member and one real worker in a thread, for tests of clients that block."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rollq.local_grid import LocalGrid
from rollq.roles.member.setup import MemberSetup


class SmallGrid(LocalGrid):
    """A local grid whose member is told more."""

    def __init__(
        self,
        directory: Path,
        *apps: str,
        port: int = 0,
        member: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(directory, *apps, port=port, **settings)
        self._member_settings = member or {}

    @property
    def port(self) -> int:
        """Of the member."""
        return int(self.address.rpartition(":")[2])

    def member_setup(self) -> MemberSetup:
        """With what the test wants."""
        return MemberSetup(self.address, **self._member_settings)
