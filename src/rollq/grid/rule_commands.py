"""Commands of operators about placement, limits and weights; part of the union in `commands`
(version 10), whose compatibility rules apply."""

from __future__ import annotations

from typing import TypeAlias

from rollq.base.ids import ClientId
from rollq.grid.stored import Stored


class PutPolicy(Stored, frozen=True, gc=False, tag=44):
    """Set the placement of the jobs of these queues. `weights` are those of the placement
    "score"."""

    pattern: str  # canonical, matches queue names
    placement: str  # base.needs.PLACEMENTS
    weights: tuple[tuple[str, int], ...] = ()
    by: str = ""


class RemovePolicy(Stored, frozen=True, gc=False, tag=45):
    """Delete the policy of this pattern."""

    pattern: str
    by: str = ""


class PutLimit(Stored, frozen=True, gc=False, tag=46):
    """Bound the running attempts or the rate of starts. 0: no such bound. An existing limit is
    changed, and running attempts continue."""

    scope: str  # base.needs.SCOPES
    name: str
    running_max: int = 0  # tokens of attempts that run
    rate: int = 0  # starts a day; of a key: tokens
    burst: int = 0  # starts at once after a rest; with a rate, 1 or more
    by: str = ""


class RemoveLimit(Stored, frozen=True, gc=False, tag=47):
    """Delete a limit."""

    scope: str
    name: str
    by: str = ""


class PutWeight(Stored, frozen=True, gc=False, tag=48):
    """Set a client's weight: its turns for one turn of a client of weight 1, the default."""

    client_id: ClientId
    weight: int
    by: str = ""


RuleCommand: TypeAlias = PutPolicy | RemovePolicy | PutLimit | RemoveLimit | PutWeight
