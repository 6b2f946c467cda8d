"""The cluster key of one member: how it is made, sent to other members, and accepted. Pure.

A new cluster derives its key from the shares of all its first members; a share is drawn with a disk
and stays on it, so every member that collects all shares derives the same key. A group that is
older than keys gets one in two steps. Its leader makes one when all members support keys; members
store it, but do not require it yet. When all of them hold it, it is final ("sure"). A leader that
holds a key makes no other, and a key that is not final is replaced by one of a later term, so two
keys can never be final.

A key is sent in a RollAnswer to a member of the configuration, at its address there, and to no
other; shares are sent to the addresses of the first members. A key is accepted from an answer to
our own call at such an address, which repeats a nonce that only the called process knows. A final
key is never replaced.

The keys of a `cluster.key` file take precedence. Then no key is sent and none is accepted.
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

KEYS: Final = "keys"  # the feature: a cluster key can be held and proved


class KeyMark(NamedTuple):
    """Which key a member holds, as sent in its messages; ordered by precedence."""

    is_sure: bool = False
    term: int = -1
    key_id: bytes = b""  # empty: none


class KeyRing:
    """The keys of a member during one run of its process.

    Args:
        key: From the disk.
        share: Of this disk.
        secret: Drawn at the start, for the nonces of its calls.
        initial: The addresses of the other first members.
        explicit: The keys of a `cluster.key` file.
        is_closed: Whether newcomers must prove the key to join.
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
        self.found: ClusterKey | None = None  # accepted, but not on disk yet
        self.share = share
        self.is_closed = is_closed
        self._secret = secret
        self._initial = initial
        self._explicit = explicit
        self._marks: dict[MemberId, KeyMark] = {}  # from each member's last answer to our call

    @property
    def is_guarded(self) -> bool:
        """Whether only members that prove a key are trusted."""
        return self.is_explicit or self.key.is_sure

    @property
    def held(self) -> tuple[bytes, ...]:
        """The keys that peers may prove; this member proves the first."""
        if self.is_explicit:
            return self._explicit
        return (self.key.value,) if self.key.value else ()

    @property
    def features(self) -> tuple[str, ...]:
        """The features announced to the other members."""
        return () if self.is_explicit else (KEYS,)

    def call(self, address: str) -> bytes:
        """The nonce of a call to an address; its answer repeats it."""
        return call_nonce(self._secret, address)

    # --- birth

    def share_for(self, hello: LeaderHello) -> bytes:
        """Our share, for a first member that calls before the cluster is formed."""
        is_first = hello.address in self._initial and KEYS in hello.features
        return self.share if is_first and not self.is_explicit else b""

    def form(self, cluster_id: bytes, shares: Mapping[MemberId, bytes]) -> None:
        """Derive the key of a new cluster from its members' shares. If one has none, its version
        lacks keys, and the group has no key for now."""
        if self.is_explicit or any(len(share) != SHARE_BYTES for share in shares.values()):
            return
        self.found = ClusterKey(key_of_birth(cluster_id, shares), is_sure=True)

    # --- key exchange

    def key_for(self, hello: LeaderHello, config: Config) -> bytes:
        """The key, if the caller lacks it and has the address of a member."""
        is_member = Member(hello.member_id, hello.address) in config.voters + config.learners
        lacks = KEYS in hello.features and _gives_way(mark_of(hello), self.mark)
        return self.key.value if is_member and lacks else b""

    def is_answer(self, answer: RollAnswer) -> bool:
        """Whether it answers a call of ours, from the address that we called."""
        return answer.to_call == self.call(answer.address)

    def take(self, answer: RollAnswer, members: tuple[Member, ...]) -> bool:
        """Note which key a member holds, and accept the key in its answer if ours gives way to it.
        Returns true if the member did not hold our key before, and now does."""
        if self.is_explicit or not self.is_answer(answer):
            return False
        mark = mark_of(answer)
        addresses = [*self._initial, *(member.address for member in members)]
        is_offered = answer.address in addresses and len(answer.key) == KEY_BYTES
        if is_offered and self.found is None and _gives_way(self.mark, mark):
            self.found = ClusterKey(answer.key, answer.key_term, answer.key_sure)
        held_before, self._marks[answer.member_id] = self._holds(answer.member_id), mark
        return self._holds(answer.member_id) and not held_before

    def is_lacked_by(self, member_id: MemberId) -> bool:
        """Whether a member is known to hold no key, or one that gives way to ours."""
        known = self._marks.get(member_id)
        return known is not None and _gives_way(known, self.mark)

    def is_behind(self, hello: LeaderHello) -> bool:
        """Whether a caller holds a key that ours gives way to; then we call it to get that key."""
        return not self.is_explicit and _gives_way(self.mark, mark_of(hello))

    # --- the first key of a group that is older than keys

    def advance(self, others: list[Member], term: int, jitter: Jitter) -> None:
        """On the leader, once all others support keys: make a key, or make it final if all hold
        it."""
        if self.is_guarded or self.found is not None:
            return
        if not self.key.value:
            self.found = ClusterKey(jitter.draw_id() + jitter.draw_id(), term)
        elif all(self._holds(member.id) for member in others):
            self.found = ClusterKey(self.key.value, self.key.term, is_sure=True)

    def _holds(self, member_id: MemberId) -> bool:
        known = self._marks.get(member_id)
        return known is not None and known.key_id == self.mark.key_id != b""

    def written(self, key: ClusterKey) -> None:
        """The key is on disk: hold it."""
        self._hold(key)
        self.found = None

    def _hold(self, key: ClusterKey) -> None:
        self.key = key  # on disk
        self.mark = KeyMark()  # as announced to the others
        if key.value and not self.is_explicit:
            self.mark = KeyMark(key.is_sure, key.term, key_id_of(key.value))


def mark_of(message: LeaderHello | RollAnswer) -> KeyMark:
    """Which key the sender of a message holds."""
    if not message.key_id:
        return KeyMark()
    return KeyMark(message.key_sure, message.key_term, message.key_id)


def _gives_way(mark: KeyMark, other: KeyMark) -> bool:
    return not mark.is_sure and mark < other
