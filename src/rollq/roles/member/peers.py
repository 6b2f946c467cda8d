"""What a member hears from the other members and says to them, consensus itself apart:
roll call, admission of newcomers, history rows, and the addresses behind member ids.

A link to a member that owes an answer and says nothing is closed and dialed anew: a connection that
outlived a broken network would be silent for much longer than the network was broken, because TCP
tries again less and less often.

A hello proves nothing: anybody can send one, and an old one may arrive late. A start that we have
not heard of in our own life, and a newcomer's wish to be let in, are claims. We call the member at
its own address, and believe the claim when that start answers our call: the number of our own
start, which an answer repeats, has a random part that only whoever got the call knows.

Once the members have a key (`keyring`), whoever does not prove it may call, as a newcomer or to be
told the key, and answer a call that it got as a newcomer. Whatever else it says is not heard."""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import NIL_ID, MemberId
from rollq.base.limits import PEER_CLAIMS_MAX, PEER_DOUBLINGS_MAX
from rollq.base.stamp import Jitter
from rollq.raft.node import RaftNode
from rollq.raft.types import (
    NO_MEMBER,
    AppendEntries,
    InstallSnapshot,
    Member,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    RaftMessage,
    RequestVote,
    SnapshotMeta,
)
from rollq.roles.member import membership
from rollq.roles.member.keyring import KEYS, mark_of
from rollq.roles.member.metrics.steps import RoundTrips
from rollq.roles.member.outputs import ClosePeer, Outputs, ProvePeer, ToPeer
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.roles.member.rollcall import REPORTS, UNNOTED, RollCall, is_forgotten
from rollq.roles.member.work import BootNote
from rollq.store.identity import ClusterKey
from rollq.store.snapshots import Snapshots
from rollq.wire.messages import (
    HistoryFetch,
    HistoryRows,
    LeaderHello,
    MemberReport,
    PeerMessage,
    RollAnswer,
)

# What a member that lives answers at once.
ASKING: Final = (AppendEntries, RaftHeartbeat, RequestVote, InstallSnapshot, LeaderHello)
UNPROVEN: Final = "it does not prove the cluster key"


class Peers:
    """The member's relations to the others. What must be written down first waits in
    `boot_notes`, `rows` and `cluster_found` for the next turn's work."""

    def __init__(
        self,
        roll: RollCall,
        initial: tuple[str, ...],
        boots_known: dict[MemberId, int],
        jitter: Jitter,
        *,
        outputs: Outputs,
        silent_ticks: int,
        reports: Reports,
        round_trips: RoundTrips,
    ) -> None:
        self._round_trips = round_trips
        self.roll = roll
        self.keys = roll.keys
        self.reports = reports  # of the others, while this member leads
        self.boot_notes: list[BootNote] = []
        self.boots_told: dict[MemberId, int] = {}  # starts that others noted and we did not
        self.rows: list[HistoryRows] = []
        self.cluster_found = roll.found_alone(initial)
        self.snapshot_wanted = False  # the one that a peer needs is gone or rotten
        self.snapshot_doubted: SnapshotMeta | None = None  # a peer had all of it and asks again
        self._snapshot_begun: dict[str, SnapshotMeta] = {}  # the last one sent to each address
        self._initial = initial
        self._boots_known = boots_known  # as written down
        # The newest start of each that answered our call in this life, to notice restarts once.
        self._boots_heard: dict[MemberId, int] = {}
        self._claims: dict[MemberId, BootNote] = {}  # the last of each, oldest first; see the head
        self._addresses: dict[MemberId, str] = {}
        self._features: dict[MemberId, tuple[str, ...]] = {}  # as each told them last
        self._jitter = jitter
        self._outputs = outputs
        self._silent_ticks = silent_ticks
        self._ticks = 0
        # By address: since which tick an answer is due, and how often the link was closed for it.
        self._unanswered: dict[str, int] = {}
        self._closings: dict[str, int] = {}

    def tick(self, raft: RaftNode, *, leads: bool) -> None:
        """Call those who have not answered yet, and leave links that are silent."""
        self._ticks += 1
        if raft.leader_id not in (NO_MEMBER, raft.member_id):
            # Of a vote that is over. A follower asks nobody anything, and hears nothing of other
            # followers: a link to one of them that died since is left soon in the next vote.
            self._unanswered.clear()
            self._closings.clear()
        for address, since in list(self._unanswered.items()):
            closings = self._closings.get(address, 0)
            if self._ticks - since >= self._silent_ticks << min(closings, PEER_DOUBLINGS_MAX):
                del self._unanswered[address]
                self._closings[address] = closings + 1
                self._outputs.append(ClosePeer(address, "no answer"))
        for address, hello in self.roll.hellos(self._initial, raft.config, raft.last_index).items():
            self._say(address, hello)
        if leads and not self.keys.is_guarded:
            members = raft.config.voters + raft.config.learners
            others = [member for member in members if member.id != raft.member_id]
            if all(KEYS in self._features.get(member.id, ()) for member in others):
                self.keys.mind(others, raft.term, self._jitter)

    def heard(self, address: str) -> None:
        """A member said something."""
        self._unanswered.pop(address, None)
        self._closings.pop(address, None)

    def refusal(self, message: RaftMessage | PeerMessage, raft: RaftNode) -> str:
        """Why the link of somebody who did not prove the key is to be closed for what it says;
        empty: it may go on, and `unproven` takes the message."""
        if self.keys.is_explicit or not isinstance(message, LeaderHello | RollAnswer):
            return UNPROVEN
        if isinstance(message, RollAnswer):
            return ""
        if membership.find(raft.config, message.member_id) is None:
            return UNPROVEN if self.keys.is_closed else ""
        # One that has the key dialled when we had not: it is to dial again, and to prove it.
        return UNPROVEN if mark_of(message) == self.keys.mark else ""

    def unproven(
        self,
        address: str,
        message: RaftMessage | PeerMessage,
        raft: RaftNode,
        replica: Replica,
        *,
        leads: bool,
        boot: int,
    ) -> None:
        """Take a message of somebody who does not prove the key. Nothing is written down for it
        before it is a member."""
        if isinstance(message, LeaderHello):
            note = BootNote(address, message)
            if message.cluster_id == NIL_ID:
                self._answer(note, self._boots_known, raft, replica)
            elif self.keys.key_for(message, raft.config):
                self._say(message.address, self.roll.unnoted(message, raft.config))
            elif self._asks(note, raft, leads):
                self._call_back(note, raft)
        elif isinstance(message, RollAnswer) and self.keys.is_answer(message):
            claim = self._claims.get(message.member_id)
            if claim is not None and claim.hello.boot == boot and self._asks(claim, raft, leads):
                del self._claims[message.member_id]
                membership.admit(raft, Member(message.member_id, message.address))

    def message(
        self,
        address: str,
        message: PeerMessage,
        raft: RaftNode,
        replica: Replica,
        *,
        leads: bool,
        boot: int,
    ) -> None:
        """Take one message that is not consensus'."""
        if isinstance(message, LeaderHello):
            self._called(BootNote(address, message), raft, replica, leads)
        elif isinstance(message, RollAnswer):
            if message.to_boot == self.roll.boot:  # else to an earlier life of ours, or forged
                self._features[message.member_id] = message.features
                self.roll.features_at[message.address] = message.features
                self.cluster_found |= self.roll.take(message, self._initial)
                self._hear_boots(message)
                self._hear_key(message, raft)
                claim = self._claims.get(message.member_id)
                if claim is not None and claim.hello.boot == boot:
                    del self._claims[message.member_id]
                    self._believe(claim, raft, replica, leads)
        elif isinstance(message, HistoryFetch):
            rows = replica.history.rows(message.first, message.last)
            if rows is not None:
                self._say(address, rows)
        elif isinstance(message, MemberReport):
            if leads:
                self.reports.take(message, replica.hash_at(message.index))
        elif isinstance(message, HistoryRows):
            applied = replica.state.applied_index
            if not self.rows and replica.history.accepts(message, applied):
                self.rows.append(message)

    def report(self, raft: RaftNode, report: MemberReport) -> None:
        """Tell the leader how this member is, if it understands that and has an address: one that
        was taken out of the group leads on until that is committed."""
        address = raft.leader_address
        if address and REPORTS in self._features.get(raft.leader_id, ()):
            self._outputs.append(ToPeer(address, report))

    def is_outdated(
        self, address: str, sender: MemberId, boot: int, raft: RaftNode, replica: Replica
    ) -> bool:
        """Whether a message comes from an earlier life of its sender. It may live on beside a copy
        of its disk that was started later, so it is told: two must not speak for one disk."""
        heard = self._boots_heard.get(sender, 0)
        if boot >= heard:
            return False
        hello = LeaderHello(sender, address, self.roll.cluster_id, boot, 0)
        self._answer(BootNote(address, hello), {sender: heard}, raft, replica)
        return True

    def speaks_from(self, message: RaftMessage, address: str) -> None:
        """Remember where a member can be answered, also one that no configuration names."""
        self._addresses[message.sender] = address
        if isinstance(message, RaftHeartbeatResponse):
            self._round_trips.answered(message.sender)

    def noted(
        self, notes: list[BootNote], told: dict[MemberId, int], raft: RaftNode, replica: Replica
    ) -> None:
        """These boots are written down: say so to whoever called."""
        self._boots_known.update(told)
        for note in notes:
            boots = dict(self._boots_known)
            self._boots_known[note.hello.member_id] = note.hello.boot
            self._answer(note, boots, raft, replica)

    def key_noted(self, key: ClusterKey, raft: RaftNode) -> None:
        """A key is written down: links to others are to prove it."""
        self.keys.noted(key)
        members = (*self.roll.members, *raft.config.voters, *raft.config.learners)
        addresses = dict.fromkeys([*self._initial, *(member.address for member in members)])
        for address in addresses:
            if address != self.roll.me.address:
                self._outputs.append(ProvePeer(address))

    def ask_for_gap(self, raft: RaftNode, replica: Replica) -> None:
        """Ask somebody for the first rows that are missing here."""
        gaps = replica.history.gaps(replica.state.applied_index)
        others = [voter.address for voter in raft.config.voters if voter.id != raft.member_id]
        if gaps and others:
            address = others[self._jitter.draw(0, len(others))]
            self._say(address, HistoryFetch(*gaps[0]))

    def send(self, raft: RaftNode, messages: list[RaftMessage], snapshots: Snapshots) -> None:
        """Send consensus messages to whoever they name."""
        for message in messages:
            member = membership.find(raft.config, message.to)
            address = member.address if member else self._addresses.get(message.to, "")
            if not address:
                continue
            if isinstance(message, InstallSnapshot):
                self._send_chunk(address, message, snapshots)
            else:
                self._say(address, message)

    def _say(self, address: str, message: RaftMessage | PeerMessage) -> None:
        if isinstance(message, ASKING):
            self._unanswered.setdefault(address, self._ticks)
            if isinstance(message, RaftHeartbeat):
                self._round_trips.sent(message.to)
        self._outputs.append(ToPeer(address, message))

    def _called(self, note: BootNote, raft: RaftNode, replica: Replica, leads: bool) -> None:
        hello = note.hello
        if hello.member_id == self.roll.me.id:
            return  # a copy of our disk, or a forgery: we do not vouch for ourselves
        member = membership.find(raft.config, hello.member_id)
        if member is not None and self.keys.is_behind(hello):
            self._say(member.address, self._hello(raft, member.address))
        known = self._boots_known.get(hello.member_id, 0)
        is_heard = self._boots_heard.get(hello.member_id, 0) >= hello.boot
        if hello.cluster_id != self.roll.cluster_id or hello.cluster_id == NIL_ID:
            self._answer(note, self._boots_known, raft, replica)
        elif is_forgotten(hello.lives or (hello.boot,), known):
            # An older copy of that disk: told so, and what we know of the original stays.
            self._answer(note, self._boots_known, raft, replica)
        elif is_heard and not self._asks(note, raft, leads):
            self._note(note, raft, replica)
        else:
            self._call_back(note, raft)

    def _asks(self, note: BootNote, raft: RaftNode, leads: bool) -> bool:
        """Whether a caller is to be let in by us. It must answer each time that it asks: whoever
        had its address before would otherwise come back in its place by an old hello."""
        is_in = membership.find(raft.config, note.hello.member_id) is not None
        return note.hello.newcomer and leads and not is_in

    def _call_back(self, note: BootNote, raft: RaftNode) -> None:
        """Remember a claim and call whom it names. The caller may be waiting for us in the same
        way, so we answer its call too, with the word that nothing is written down."""
        hello = note.hello
        self._claims.pop(hello.member_id, None)
        self._claims[hello.member_id] = note
        if len(self._claims) > PEER_CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        member = membership.find(raft.config, hello.member_id)
        address = member.address if member is not None else hello.address
        self._say(address, self._hello(raft, address))
        if UNNOTED in hello.features:
            self._say(note.address, self.roll.unnoted(hello, raft.config))

    def _hello(self, raft: RaftNode, address: str) -> LeaderHello:
        return self.roll.hello(raft.config, raft.last_index, address)

    def _believe(self, note: BootNote, raft: RaftNode, replica: Replica, leads: bool) -> None:
        """What a hello claimed is true: that start of that member has answered us."""
        hello = note.hello
        if self._boots_heard.get(hello.member_id, 0) < hello.boot:
            self._boots_heard[hello.member_id] = hello.boot
            raft.member_restarted(hello.member_id, hello.last_index)
        if self._asks(note, raft, leads):
            membership.admit(raft, Member(hello.member_id, hello.address))
        self._note(note, raft, replica)

    def _note(self, note: BootNote, raft: RaftNode, replica: Replica) -> None:
        """Answer a caller when its start is written down."""
        if note.hello.boot > self._boots_known.get(note.hello.member_id, 0):
            self.boot_notes.append(note)
        else:
            self._answer(note, self._boots_known, raft, replica)

    def _hear_boots(self, answer: RollAnswer) -> None:
        if answer.cluster_id != self.roll.cluster_id:
            return
        for member_id, boot in answer.boots:
            if member_id != self.roll.me.id and boot > self._boots_known.get(member_id, 0):
                self.boots_told[member_id] = boot

    def _hear_key(self, answer: RollAnswer, raft: RaftNode) -> None:
        if answer.cluster_id != self.roll.cluster_id or self.roll.superseded:
            return
        members = self.roll.members + raft.config.voters + raft.config.learners
        if self.keys.take(answer, members):
            self._outputs.append(ProvePeer(answer.address))

    def _answer(
        self, note: BootNote, boots: dict[MemberId, int], raft: RaftNode, replica: Replica
    ) -> None:
        index = replica.state.applied_index
        answer = self.roll.answer(note.hello, boots, raft.config, index)
        if answer is not None:
            self._say(note.address, answer)

    def _send_chunk(self, address: str, message: InstallSnapshot, snapshots: Snapshots) -> None:
        if message.offset == 0:
            if self._snapshot_begun.get(address) == message.meta:
                self.snapshot_doubted = message.meta
            self._snapshot_begun[address] = message.meta
        try:
            data = snapshots.read(message.meta, message.offset, message.length)
        except DiskError as error:
            if error.code is not ErrorCode.SNAPSHOT_CORRUPT:
                raise
            self.snapshot_wanted = True
            return
        self._say(address, msgspec.structs.replace(message, data=data))
