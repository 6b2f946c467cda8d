"""Whether a leader is a legacy one: shared by the machines of workers and clients. Pure.

A leader of the first system does not answer an offer of features. So one that takes connections
and leaves two offers in a row without a word is spoken to in the legacy protocol, offering nothing.
Whoever was welcomed once has a group of ours, and never does that: its members are only silent.

The hello says that it is such a one (`plain`), so that a member of ours, which was silent for
another reason, hangs up; then features are offered again.
"""

from __future__ import annotations

from typing import Final

UNANSWERED_MAX: Final = 2


class Offers:
    """Which addresses leave offers unanswered."""

    __slots__ = ("_is_ours", "_unanswered")

    def __init__(self) -> None:
        self._is_ours = False
        self._unanswered: dict[str, int] = {}  # how often in a row; few addresses are known

    def is_plain(self, address: str) -> bool:
        """Whether to offer nothing there."""
        return not self._is_ours and self._unanswered.get(address, 0) >= UNANSWERED_MAX

    def unanswered(self, address: str) -> None:
        """A hello with features was not answered there."""
        self._unanswered[address] = self._unanswered.get(address, 0) + 1

    def hung_up(self, address: str) -> None:
        """It ended a conversation in which it had said nothing."""
        self._unanswered.pop(address, None)

    def welcomed(self) -> None:
        """A member of ours took us in."""
        self._is_ours = True
