"""The cluster key of one member: what it holds, whom it tells, and from whom it takes one. Pure.

A cluster that is born has its key from the shares of all of its first members; a share is drawn
with a disk and stays on it, so whoever hears all of them makes the same key. A group from before
there were keys gets one in two steps. Its leader makes one when all members have said that they
know keys; they hold it, and nobody asks for it yet. When all of them hold it, it is sure. A leader
that holds a key makes no other, and one that is not sure gives way to one of a later term, so two
can never be sure.

A key is told in a RollAnswer to a member of the configuration, at its address there, and to nobody
else; shares are told to the addresses of the first members. It is taken from an answer to our own
call at such an address, which repeats what only whoever got the call knows. A key that is sure is
taken from nobody: it is the end of it.

The keys of a `cluster.key` count instead, if there is one. Then nothing is told and none is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from rollq.base.ids import MemberId
from rollq.base.stamp import Jitter
from rollq.raft.types import Config, Member
from rollq.security.cluster_key import KEY_BYTES, SHARE_BYTES, call_nonce, key_id_of, key_of_birth
from rollq.store.identity import ClusterKey
from rollq.wire.messages import LeaderHello, RollAnswer

KEYS: Final = "keys"  # a cluster key can be held and proved


class KeyMark(NamedTuple):
    """What a member says of the key that it holds; ordered by which one is to be held."""

    is_sure: bool = False
    term: int = -1
    key_id: bytes = b""  # empty: it holds none


class KeyRing:
    """The keys of one life of one member.

    Args:
        key: What the disk has.
        share: Of this disk.
        secret: Drawn in this life, for what its calls say.
        initial: The addresses of the other first members.
        explicit: The keys of a `cluster.key`.
        is_closed: Whoever is no member is not let in without the key.
    """

    def __init__(
        self,
        key: ClusterKey,
        share: bytes,
        secret: bytes,
        *,
        initial: tuple[str, ...] = (),
        explicit: tuple[bytes, ...] = (),
        is_closed: bool = False,
    ) -> None:
        self.is_explicit = bool(explicit)
        self._hold(key)
        self.found: ClusterKey | None = None  # to be written down, and then held
        self.share = share
        self.is_closed = is_closed
        self._secret = secret
        self._initial = initial
        self._explicit = explicit
        self._marks: dict[MemberId, KeyMark] = {}  # as each told it last, in an answer to our call

    @property
    def is_guarded(self) -> bool:
        """Whether only members that prove a key are listened to."""
        return self.is_explicit or self.key.is_sure

    @property
    def held(self) -> tuple[bytes, ...]:
        """The keys that others may prove; the first is the one that this member proves."""
        if self.is_explicit:
            return self._explicit
        return (self.key.value,) if self.key.value else ()

    @property
    def features(self) -> tuple[str, ...]:
        """What the others are told that this member understands."""
        return () if self.is_explicit else (KEYS,)

    def call(self, address: str) -> bytes:
        """What a call to an address says, and its answer repeats."""
        return call_nonce(self._secret, address)

    # --- birth

    def share_for(self, hello: LeaderHello) -> bytes:
        """Our share, for one of the first members that calls before the cluster is born."""
        is_first = hello.address in self._initial and KEYS in hello.features
        return self.share if is_first and not self.is_explicit else b""

    def born(self, cluster_id: bytes, shares: Mapping[MemberId, bytes]) -> None:
        """A cluster is born of these members. One without a share is of a version without keys:
        then the group has none for now."""
        if self.is_explicit or any(len(share) != SHARE_BYTES for share in shares.values()):
            return
        self.found = ClusterKey(key_of_birth(cluster_id, shares), is_sure=True)

    # --- a key is told

    def key_for(self, hello: LeaderHello, config: Config) -> bytes:
        """The key, if a caller lacks it and its address is that of a member."""
        is_member = Member(hello.member_id, hello.address) in config.voters + config.learners
        lacks = KEYS in hello.features and _gives_way(mark_of(hello), self.mark)
        return self.key.value if is_member and lacks else b""

    def is_answer(self, answer: RollAnswer) -> bool:
        """Whether it answers a call of ours, and comes from where we called."""
        return answer.to_call == self.call(answer.address)

    def take(self, answer: RollAnswer, members: tuple[Member, ...]) -> bool:
        """Note which key a member holds, and take the one that it tells if ours gives way to it.
        True: it has just said that it holds ours."""
        if self.is_explicit or not self.is_answer(answer):
            return False
        mark = mark_of(answer)
        addresses = [*self._initial, *(member.address for member in members)]
        is_told = answer.address in addresses and len(answer.key) == KEY_BYTES
        if is_told and self.found is None and _gives_way(self.mark, mark):
            self.found = ClusterKey(answer.key, answer.key_term, answer.key_sure)
        held_before, self._marks[answer.member_id] = self._holds(answer.member_id), mark
        return self._holds(answer.member_id) and not held_before

    def is_lacked_by(self, member_id: MemberId) -> bool:
        """Whether a member has said that it holds none, or one that gives way to ours."""
        known = self._marks.get(member_id)
        return known is not None and _gives_way(known, self.mark)

    def is_behind(self, hello: LeaderHello) -> bool:
        """Whether a caller holds a key that ours gives way to: then we ask it for that."""
        return not self.is_explicit and _gives_way(self.mark, mark_of(hello))

    # --- a group from before gets its key

    def mind(self, others: list[Member], term: int, jitter: Jitter) -> None:
        """The leader's part, when all others know keys: make one, or see that all hold it."""
        if self.is_guarded or self.found is not None:
            return
        if not self.key.value:
            self.found = ClusterKey(jitter.draw_id() + jitter.draw_id(), term)
        elif all(self._holds(member.id) for member in others):
            self.found = ClusterKey(self.key.value, self.key.term, is_sure=True)

    def _holds(self, member_id: MemberId) -> bool:
        known = self._marks.get(member_id)
        return known is not None and known.key_id == self.mark.key_id != b""

    def noted(self, key: ClusterKey) -> None:
        """A key is written down: from now on it is held."""
        self._hold(key)
        self.found = None

    def _hold(self, key: ClusterKey) -> None:
        self.key = key  # written down
        self.mark = KeyMark()  # what this member says of it
        if key.value and not self.is_explicit:
            self.mark = KeyMark(key.is_sure, key.term, key_id_of(key.value))


def mark_of(message: LeaderHello | RollAnswer) -> KeyMark:
    """What a message says of the key that its sender holds."""
    if not message.key_id:
        return KeyMark()
    return KeyMark(message.key_sure, message.key_term, message.key_id)


def _gives_way(mark: KeyMark, other: KeyMark) -> bool:
    return not mark.is_sure and mark < other
