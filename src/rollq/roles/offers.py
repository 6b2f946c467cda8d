"""Detects legacy leaders: shared by the machines of workers and clients. Pure.

A legacy leader does not answer an offer of features. So an address that accepts connections and
leaves two offers in a row unanswered is sent a legacy hello without features. After one welcome
that is never done again: the group is not a legacy one, and its members are only silent.

Such a hello is marked `plain`, so that a current member that was silent for another reason closes
the connection; then features are offered again."""

from __future__ import annotations

from typing import Final

UNANSWERED_MAX: Final = 2


class Offers:
    """Addresses that leave offers unanswered."""

    __slots__ = ("_is_ours", "_unanswered")

    def __init__(self) -> None:
        self._is_ours = False
        self._unanswered: dict[str, int] = {}  # in a row, by address; few addresses are known

    def is_plain(self, address: str) -> bool:
        """Whether to send this address a legacy hello."""
        return not self._is_ours and self._unanswered.get(address, 0) >= UNANSWERED_MAX

    def unanswered(self, address: str) -> None:
        """A hello with features was not answered."""
        self._unanswered[address] = self._unanswered.get(address, 0) + 1

    def hung_up(self, address: str) -> None:
        """The member closed a connection on which it had sent nothing."""
        self._unanswered.pop(address, None)

    def welcomed(self) -> None:
        """A current member sent Welcome."""
        self._is_ours = True
