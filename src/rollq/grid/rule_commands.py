"""Commands of what operators set about who runs where, how much at once, and in which proportion;
part of the union in `commands` (version 10), whose law of change holds here too."""

from __future__ import annotations

from typing import TypeAlias

from rollq.base.ids import ClientId
from rollq.grid.stored import Stored


class PutPolicy(Stored, frozen=True, gc=False, tag=44):
    """Choose workers for the jobs of these queues in this way. `weights` are those of a score."""

    pattern: str  # canonical, of names of queues
    placement: str  # base.needs.PLACEMENTS
    weights: tuple[tuple[str, int], ...] = ()
    by: str = ""


class RemovePolicy(Stored, frozen=True, gc=False, tag=45):
    """The queues of this pattern have no policy of their own any more."""

    pattern: str
    by: str = ""


class PutLimit(Stored, frozen=True, gc=False, tag=46):
    """No more than this at once, or in a time. 0: no such bound. A limit that is there is changed,
    and what runs goes on."""

    scope: str  # base.needs.SCOPES
    name: str
    running_max: int = 0  # tokens of attempts that run
    rate: int = 0  # starts a day; of a key: tokens
    burst: int = 0  # starts at once after a rest; with a rate, 1 or more
    by: str = ""


class RemoveLimit(Stored, frozen=True, gc=False, tag=47):
    """This limit does not count any more."""

    scope: str
    name: str
    by: str = ""


class PutWeight(Stored, frozen=True, gc=False, tag=48):
    """A client's share of turns, against 1 of others. 1 is what all have that are not named."""

    client_id: ClientId
    weight: int
    by: str = ""


RuleCommand: TypeAlias = PutPolicy | RemovePolicy | PutLimit | RemoveLimit | PutWeight
