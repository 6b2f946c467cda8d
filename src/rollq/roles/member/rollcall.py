"""Roll call: decides whether this process may take part in the group with its disk. Pure.

A member's id is drawn with its disk, so a lost disk means a new id, and the new one joins as a
learner: it can never vote as its old self. An *older copy* of a disk (a restored machine image) has
the right id but has forgotten votes and acknowledgements. So every boot is written to the disk (a
number and a nonce), and a majority of the voters must have written it down too before a member
takes part in raft. Each answer has the boot that its sender knew last: if that one is missing on
the disk, the disk is an older copy, and the process stops. Every answer also relays the boots of
other members, so a member that was away learns the boots that it missed.

Phases: NEWCOMER (belongs to no cluster yet), REGISTERING (waits for a majority to note its boot),
PRESENT (takes part). A cluster is formed once every initial member has answered as a newcomer; the
roster of that moment is the configuration at log index 0, and its digest is the cluster id. The
cluster key (`keyring`) is derived at the same time.
"""

from __future__ import annotations

import enum
import hashlib
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import GUID_BYTES, NIL_ID, MemberId
from rollq.raft.types import Config, Member
from rollq.roles.member import membership
from rollq.roles.member.keyring import KeyRing
from rollq.store.identity import NONCE_BITS
from rollq.wire.features import PACKED
from rollq.wire.messages import LeaderHello, RollAnswer

HELLO_EVERY_TICKS = 4
REPORTS: Final = "reports"  # supports MemberReport
UNNOTED: Final = "unnoted"  # supports answers with `noted` false
FEATURES: Final = (REPORTS, UNNOTED, *PACKED)


class JoinPhase(enum.IntEnum):
    """How far a member has joined."""

    NEWCOMER = 0
    REGISTERING = 1
    PRESENT = 2


class RollCall:
    """The roll call of one boot of a member."""

    def __init__(
        self,
        me: Member,
        cluster_id: bytes,
        roster: tuple[Member, ...],
        lives: tuple[int, ...],
        keys: KeyRing,
        *,
        admitted: bool = False,
    ) -> None:
        self.me = me
        self.keys = keys
        self.cluster_id = cluster_id
        self.roster = roster
        self.boot = lives[-1]
        self._lives = lives
        self.admitted = admitted  # some applied configuration had this member
        self.phase = JoinPhase.NEWCOMER if cluster_id == NIL_ID else JoinPhase.REGISTERING
        self.superseded = False  # a voter knows a later boot of this disk
        self._claims: dict[MemberId, None] = {}  # who knew a later boot while this member took part
        self._answered: dict[MemberId, str] = {}  # members that noted our boot
        self._newcomers: dict[str, Member] = {}
        self._shares: dict[MemberId, bytes] = {}  # of the newcomers
        # The newest configuration received from a member: ours may be out of date.
        self._config = Config(roster)
        self._config_index = 0
        self._ticks = 0
        self.features_at: dict[str, tuple[str, ...]] = {}  # last announced, by address

    def hellos(
        self, peers: tuple[str, ...], config: Config, last_index: int
    ) -> dict[str, LeaderHello]:
        """Count a tick; returns the hellos to send now, by address."""
        self._ticks += 1
        if self._ticks % HELLO_EVERY_TICKS != 1:
            return {}
        members = (*config.voters, *config.learners, *self._config.voters)
        addresses = [
            member.address
            for member in members
            if member.id not in self._answered or self.keys.is_lacked_by(member.id)
        ]
        if self._is_new(config) or self.phase is not JoinPhase.PRESENT:
            addresses = [*addresses, *peers, *(member.address for member in members)]
        return {
            address: self.hello(config, last_index, address)
            for address in addresses
            if address != self.me.address
        }

    def hello(self, config: Config, last_index: int, address: str) -> LeaderHello:
        """Our hello to the member at an address."""
        mark = self.keys.mark
        return LeaderHello(
            self.me.id,
            self.me.address,
            cluster_id=self.cluster_id,
            boot=self.boot,
            last_index=last_index,
            newcomer=self._is_new(config),
            lives=self._lives,
            features=(*FEATURES, *self.keys.features),
            call=self.keys.call(address),
            key_id=mark.key_id,
            key_term=max(mark.term, 0),
            key_sure=mark.is_sure,
        )

    def _is_new(self, config: Config) -> bool:
        """Whether to request admission: only until it was granted once, because a removed member
        must not rejoin by itself."""
        return not self.admitted and not self._is_in(config)

    def missing(self, peers: tuple[str, ...]) -> tuple[str, ...]:
        """Addresses whose answers this member waits for before it takes part."""
        if self.phase is JoinPhase.PRESENT:
            return ()
        met = {*self._newcomers, *self._answered.values(), self.me.address}
        known = tuple(member.address for member in self._config.voters) or peers
        return tuple(sorted(set(known) - met))

    @property
    def members(self) -> tuple[Member, ...]:
        """The members of the newest known configuration."""
        return self._config.voters + self._config.learners

    @property
    def voters(self) -> tuple[Member, ...]:
        """The voters of the newest known configuration."""
        return self._config.voters

    def is_removed(self, last_index: int) -> bool:
        """Whether the group removed this member, as a member told: it was in a configuration of our
        log, which ends at `last_index`, and is missing in one from there on."""
        is_later = 0 < self._config_index >= last_index
        return self.admitted and is_later and not self._is_in(self._config)

    def note_config(self, config: Config) -> bool:
        """A configuration is applied. True: it has this member for the first time; write that
        down."""
        if self.admitted or not self._is_in(config):
            return False
        self.admitted = True
        return True

    def _is_in(self, config: Config) -> bool:
        return any(m.id == self.me.id for m in (*config.voters, *config.learners))

    def answer(
        self, hello: LeaderHello, boots: dict[MemberId, int], config: Config, config_index: int
    ) -> RollAnswer | None:
        """The answer to a member's call; None: it is of another cluster."""
        if hello.cluster_id not in (NIL_ID, self.cluster_id):
            return None
        if self.keys.is_guarded and not membership.find(config, hello.member_id):
            # Boots of other members go only to members.
            boots = {one: boot for one, boot in boots.items() if one == hello.member_id}
        answer = RollAnswer(
            self.me.id,
            self.me.address,
            self.cluster_id,
            boot_known=boots.get(hello.member_id, 0),
            to_boot=hello.boot,
            newcomer=self.phase is JoinPhase.NEWCOMER,
            roster=self.roster,
            config=config,
            config_index=config_index,
            boots=tuple(boots.items()),
        )
        share = self.keys.share_for(hello) if self.cluster_id == NIL_ID else b""
        return self._with_key(answer, hello, config, share)

    def unnoted(self, hello: LeaderHello, config: Config) -> RollAnswer:
        """The answer to a caller whose boot is not confirmed yet: its call was received."""
        me = self.me
        answer = RollAnswer(
            me.id, me.address, self.cluster_id, boot_known=0, to_boot=hello.boot, noted=False
        )
        return self._with_key(answer, hello, config)

    def _with_key(
        self, answer: RollAnswer, hello: LeaderHello, config: Config, share: bytes = b""
    ) -> RollAnswer:
        mark = self.keys.mark
        return msgspec.structs.replace(
            answer,
            features=(*FEATURES, *self.keys.features),
            to_call=hello.call,
            key_id=mark.key_id,
            key_term=max(mark.term, 0),
            key_sure=mark.is_sure,
            key=self.keys.key_for(hello, config),
            share=share,
        )

    def take(self, answer: RollAnswer, peers: tuple[str, ...]) -> bool:
        """Take an answer. True: the cluster was just found or formed, and must be written down."""
        if answer.to_boot != self.boot or not answer.noted:
            return False
        # `boot_known` is the caller's, who may have our address and another id.
        boots = dict(answer.boots)
        known = boots.get(self.me.id, 0) if boots else answer.boot_known
        if is_forgotten(self._lives, known):
            if self.phase is not JoinPhase.PRESENT or self._is_claimed_by_quorum(answer):
                self.superseded = True
            return False
        if self.phase is JoinPhase.NEWCOMER:
            return self._find_cluster(answer, peers)
        if answer.cluster_id != self.cluster_id:
            return False
        self._answered[answer.member_id] = answer.address
        self.settle(answer.config, answer.config_index)
        return False

    def _is_claimed_by_quorum(self, answer: RollAnswer) -> bool:
        """Whether most of the other voters know a later boot of this disk. A member that takes part
        was noted by a majority in this boot, so one claim against it is not enough."""
        if answer.cluster_id == self.cluster_id and answer.member_id not in self._claims:
            self._claims[answer.member_id] = None
            self._answered.clear()  # call all again, to learn what the others know
        others = [voter.id for voter in self._config.voters if voter.id != self.me.id]
        return sum(1 for one in others if one in self._claims) > len(others) // 2

    def settle(self, config: Config, config_index: int) -> None:
        """Become PRESENT once a majority of the voters, us included, knows our boot. The voters are
        those of the newest known configuration: applied indexes order configurations, because a
        change is in effect before any member announces the index of its entry."""
        if config_index >= self._config_index and config.voters:
            self._config, self._config_index = config, config_index
        if self.phase is not JoinPhase.REGISTERING:
            return
        voters = self._config.voters
        known = sum(1 for v in voters if v.id == self.me.id or v.id in self._answered)
        if known > len(voters) // 2:
            self.phase = JoinPhase.PRESENT

    def joined(self) -> None:
        """The cluster is written down. Register like every member: this may be an older copy of a
        disk, from before it joined the cluster."""
        self.phase = JoinPhase.REGISTERING
        self._config = Config(self.roster)
        self.settle(self._config, 0)

    def _find_cluster(self, answer: RollAnswer, peers: tuple[str, ...]) -> bool:
        if self.cluster_id != NIL_ID:
            return False  # found before, and being written down
        if answer.cluster_id != NIL_ID:
            self.cluster_id = answer.cluster_id
            self.roster = answer.roster
            return True
        self._newcomers[answer.address] = Member(answer.member_id, answer.address)
        self._shares[answer.member_id] = answer.share if self.keys.is_answer(answer) else b""
        return self.form(peers)

    def form(self, peers: tuple[str, ...]) -> bool:
        """Form the cluster if every initial member is known to be a newcomer."""
        others = [self._newcomers.get(address) for address in peers if address != self.me.address]
        if self.cluster_id != NIL_ID or any(member is None for member in others):
            return False
        members = [self.me] + [member for member in others if member is not None]
        self.roster = tuple(sorted(members, key=lambda member: member.id))
        digest = hashlib.blake2b(msgspec.msgpack.encode(self.roster), digest_size=GUID_BYTES)
        self.cluster_id = digest.digest()
        shares = {self.me.id: self.keys.share} | self._shares
        self.keys.form(self.cluster_id, {member.id: shares[member.id] for member in members})
        return True


def is_forgotten(lives: tuple[int, ...], life: int) -> bool:
    """Whether a boot of this disk that a voter knows is missing in the memory of the disk. A boot
    older than that memory proves nothing."""
    return life not in lives and life >> NONCE_BITS >= lives[0] >> NONCE_BITS


def older_copy() -> DiskError:
    """The error for a disk that is a copy of an earlier time, without its later votes."""
    return DiskError(
        ErrorCode.WRONG_IDENTITY,
        "this disk is an older copy of itself, or a copy of it was started elsewhere: a peer knows "
        "a later start of it",
        "stop the copy if there is one; move this state directory away and start again: the member "
        "joins anew and fetches everything from its peers",
    )
