"""How each queue chooses a worker: the policies that operators set by pattern of queues.

Of several patterns that match a queue the most specific one applies: compared from the left, a
token is more specific than `*`, and that than `>`.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.needs import PLACEMENTS
from rollq.grid.state import GridState, QueuePolicy
from rollq.policy.placement import Preference
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.trie import Trie

LEAST_LOAD: Final = "least-load"
NEAR: Final = ("locality", "score")  # placements that use `BlobHolders`
_RANKS: Final = {ANY_ONE: 1, ANY_REST: 2}  # of a literal token: 0


class Preferences:
    """Policies by the queues that they match. Reads the state when notified of a change."""

    __slots__ = ("_default", "_state", "_trie")

    def __init__(self, state: GridState, placement: str) -> None:
        """`placement` is that of queues for which nothing is set.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement.
        """
        if placement not in PLACEMENTS:
            known = ", ".join(PLACEMENTS)
            raise LocalError(
                ErrorCode.BAD_OPTIONS, f"no placement policy {placement!r}", f"one of: {known}"
            )
        self._state = state
        self._default = None if placement == LEAST_LOAD else Preference(placement)
        self.reload()

    def reload(self) -> None:
        """Reload the policies from the state."""
        self._trie: Trie[QueuePolicy] = Trie()
        for policy in self._state.policies.values():
            try:
                self._trie.insert(policy.pattern, policy)
            except RemoteError:  # not a pattern: it matches no queue
                continue

    def of(self, queue: str) -> Preference | None:
        """The preference of a queue; None: the least loaded worker."""
        found = self._trie.match(queue) if self._trie else ()
        if not found:
            return self._default
        policy = min(found, key=specificity)
        if policy.placement == LEAST_LOAD:
            return None
        return Preference(policy.placement, policy.weights)

    def used(self) -> list[Preference]:
        """All preferences that some queue may have."""
        policies = self._state.policies.values()
        used = [Preference(policy.placement, policy.weights) for policy in policies]
        return used if self._default is None else [*used, self._default]


def specificity(policy: QueuePolicy) -> tuple[int, ...]:
    """A sort key: lower is more specific, among patterns that match one queue."""
    return tuple([_RANKS.get(token, 0) for token in parse_pattern(policy.pattern)])
