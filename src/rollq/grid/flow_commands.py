"""Commands about dependencies between jobs; part of the union in `commands` (version 11), whose law
of change holds here too."""

from __future__ import annotations

from typing import TypeAlias

from rollq.grid.stored import Stored


class SettleChildren(Stored, frozen=True, gc=False, tag=72):
    """Go on with the children of jobs that ended: `position` is how many children have been looked
    at before."""

    position: int


FlowCommand: TypeAlias = SettleChildren
