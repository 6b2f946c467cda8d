"""Messages between members beside raft itself: roll call, admission of newcomers, history rows, and
the addresses of member ids.

A link is closed and dialed again if its member owes a response and sends nothing for too long: a
connection that outlived a broken network stays silent for much longer than the network was broken,
because TCP retransmits less and less often.

A hello proves nothing: any process can send one, and an old one may arrive late. A boot that is new
to us, and a newcomer's request for admission, are claims. We call the member at its own address,
and accept the claim when that boot answers our call: our own boot number, which an answer repeats,
has a random part that only the called process knows.

Once the members have a key (`keyring`), a process without proof may only call, as a newcomer or to
get the key, and answer a call that it got as a newcomer. Its other messages are refused."""

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

# Requests that a live member answers at once.
REQUESTS: Final = (AppendEntries, RaftHeartbeat, RequestVote, InstallSnapshot, LeaderHello)
UNPROVEN: Final = "it does not prove the cluster key"


class Peers:
    """Exchanges with the other members. What must be on disk first waits in `boot_notes`, `rows`
    and `cluster_found` for the work of the next turn."""

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
        self.boots_relayed: dict[MemberId, int] = {}  # boots known to others, and unknown to us
        self.rows: list[HistoryRows] = []
        self.cluster_found = roll.form(initial)
        self.snapshot_wanted = False  # the snapshot that a peer needs is gone or rotten
        self.snapshot_doubted: SnapshotMeta | None = None  # a peer received it all and restarts it
        self._snapshot_begun: dict[str, SnapshotMeta] = {}  # the last one sent to each address
        self._initial = initial
        self._boots_known = boots_known  # as on disk
        # The newest boot of each member that answered our call in this run: detects restarts once.
        self._boots_confirmed: dict[MemberId, int] = {}
        self._claims: dict[MemberId, BootNote] = {}  # the last of each, oldest first; see the head
        # Addresses that were called in reply to a hello since the last tick, one call each: two
        # members that both want something of the other would answer hello by hello without end.
        # True: another hello came since. It is answered at the next tick, because the link of the
        # one before may have broken with our call.
        self._called_back: dict[str, bool] = {}
        self._addresses: dict[MemberId, str] = {}
        self._features: dict[MemberId, tuple[str, ...]] = {}  # last announced
        self._jitter = jitter
        self._outputs = outputs
        self._silent_ticks = silent_ticks
        self._ticks = 0
        # By address: the tick of the oldest unanswered request, and how often that closed the link.
        self._unanswered: dict[str, int] = {}
        self._closings: dict[str, int] = {}

    def tick(self, raft: RaftNode, *, leads: bool) -> None:
        """Call members that have not answered yet, and close silent links."""
        self._ticks += 1
        again = [address for address, is_due in self._called_back.items() if is_due]
        self._called_back.clear()
        for address in again:
            self._call(address, raft)
        if raft.leader_id not in (NO_MEMBER, raft.member_id):
            # Left from an election. A follower sends no requests to other followers, so a dead link
            # to one of them is found by the requests of the next election.
            self._unanswered.clear()
            self._closings.clear()
        for address, since in list(self._unanswered.items()):
            closings = self._closings.get(address, 0)
            if self._ticks - since >= self._silent_ticks << min(closings, PEER_DOUBLINGS_MAX):
                del self._unanswered[address]
                self._closings[address] = closings + 1
                self._outputs.append(ClosePeer(address, "no answer"))
        for address, hello in self.roll.hellos(self._initial, raft.config, raft.last_index).items():
            self._post(address, hello)
        if leads and not self.keys.is_guarded:
            members = raft.config.voters + raft.config.learners
            others = [member for member in members if member.id != raft.member_id]
            if all(KEYS in self._features.get(member.id, ()) for member in others):
                self.keys.advance(others, raft.term, self._jitter)

    def note_alive(self, address: str) -> None:
        """A message of a member arrived: it is not silent."""
        self._unanswered.pop(address, None)
        self._closings.pop(address, None)

    def refusal(self, message: RaftMessage | PeerMessage, raft: RaftNode) -> str:
        """Why to close the link of a sender without proof of the key for this message; empty: pass
        the message to `unproven`."""
        if self.keys.is_explicit or not isinstance(message, LeaderHello | RollAnswer):
            return UNPROVEN
        if isinstance(message, RollAnswer):
            return ""
        if membership.find(raft.config, message.member_id) is None:
            return UNPROVEN if self.keys.is_closed else ""
        # It has our key, and called before we dialed: it must dial again and prove the key.
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
        """Handle a message of a sender without proof of the key. Nothing is written to disk for it
        before it is a member."""
        if isinstance(message, LeaderHello):
            note = BootNote(address, message)
            if message.cluster_id == NIL_ID:
                self._answer(note, self._boots_known, raft, replica)
            elif self.keys.key_for(message, raft.config):
                self._post(message.address, self.roll.unnoted(message, raft.config))
            elif self._wants_admission(note, raft, leads):
                self._call_back(note, raft)
        elif isinstance(message, RollAnswer) and self.keys.is_answer(message):
            claim = self._claims.get(message.member_id)
            if claim and claim.hello.boot == boot and self._wants_admission(claim, raft, leads):
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
        """Handle a message other than raft's."""
        if isinstance(message, LeaderHello):
            self._handle_hello(BootNote(address, message), raft, replica, leads)
        elif isinstance(message, RollAnswer):
            if message.to_boot == self.roll.boot:  # else to an earlier boot of ours, or forged
                self._features[message.member_id] = message.features
                self.roll.features_at[message.address] = message.features
                self.cluster_found |= self.roll.take(message, self._initial)
                self._note_boots(message)
                self._note_key(message, raft)
                claim = self._claims.get(message.member_id)
                if claim is not None and claim.hello.boot == boot:
                    del self._claims[message.member_id]
                    self._accept(claim, raft, replica, leads)
        elif isinstance(message, HistoryFetch):
            rows = replica.history.rows(message.first, message.last)
            if rows is not None:
                self._post(address, rows)
        elif isinstance(message, MemberReport):
            if leads:
                self.reports.take(message, replica.hash_at(message.index))
        elif isinstance(message, HistoryRows):
            applied = replica.state.applied_index
            if not self.rows and replica.history.accepts(message, applied):
                self.rows.append(message)

    def report(self, raft: RaftNode, report: MemberReport) -> None:
        """Send a report to the leader if it supports reports and has an address: a leader that was
        removed from the group leads on until its removal is committed."""
        address = raft.leader_address
        if address and REPORTS in self._features.get(raft.leader_id, ()):
            self._outputs.append(ToPeer(address, report))

    def is_outdated(
        self, address: str, sender: MemberId, boot: int, raft: RaftNode, replica: Replica
    ) -> bool:
        """Whether a message comes from an earlier boot of its sender. That process may still run
        beside a copy of its disk that was started later, so it is notified: only one may use an
        identity."""
        confirmed = self._boots_confirmed.get(sender, 0)
        if boot >= confirmed:
            return False
        hello = LeaderHello(
            sender, address=address, cluster_id=self.roll.cluster_id, boot=boot, last_index=0
        )
        self._answer(BootNote(address, hello), {sender: confirmed}, raft, replica)
        return True

    def note_address(self, message: RaftMessage, address: str) -> None:
        """Remember the address of a sender, also of one that is in no configuration."""
        self._addresses[message.sender] = address
        if isinstance(message, RaftHeartbeatResponse):
            self._round_trips.answered(message.sender)

    def boots_written(
        self, notes: list[BootNote], relayed: dict[MemberId, int], raft: RaftNode, replica: Replica
    ) -> None:
        """These boots are on disk: answer the callers."""
        self._boots_known.update(relayed)
        for note in notes:
            boots = dict(self._boots_known)
            self._boots_known[note.hello.member_id] = note.hello.boot
            self._answer(note, boots, raft, replica)

    def key_written(self, key: ClusterKey, raft: RaftNode) -> None:
        """A key is on disk: links to others must prove it from now on."""
        self.keys.written(key)
        members = (*self.roll.members, *raft.config.voters, *raft.config.learners)
        addresses = dict.fromkeys([*self._initial, *(member.address for member in members)])
        for address in addresses:
            if address != self.roll.me.address:
                self._outputs.append(ProvePeer(address))

    def ask_for_gap(self, raft: RaftNode, replica: Replica) -> None:
        """Request the first missing history rows from a random voter."""
        gaps = replica.gaps()
        others = [voter.address for voter in raft.config.voters if voter.id != raft.member_id]
        if gaps and others:
            address = others[self._jitter.draw(0, len(others))]
            self._post(address, HistoryFetch(*gaps[0]))

    def send(self, raft: RaftNode, messages: list[RaftMessage], snapshots: Snapshots) -> None:
        """Send raft messages to the members that they name."""
        for message in messages:
            member = membership.find(raft.config, message.to)
            address = member.address if member else self._addresses.get(message.to, "")
            if not address:
                continue
            if isinstance(message, InstallSnapshot):
                self._send_chunk(address, message, snapshots)
            else:
                self._post(address, message)

    def _post(self, address: str, message: RaftMessage | PeerMessage) -> None:
        if isinstance(message, REQUESTS):
            self._unanswered.setdefault(address, self._ticks)
            if isinstance(message, RaftHeartbeat):
                self._round_trips.sent(message.to)
        self._outputs.append(ToPeer(address, message))

    def _handle_hello(self, note: BootNote, raft: RaftNode, replica: Replica, leads: bool) -> None:
        hello = note.hello
        if hello.member_id == self.roll.me.id:
            return  # from a copy of our disk, or forged: we do not confirm our own boots
        member = membership.find(raft.config, hello.member_id)
        if member is not None and self.keys.is_behind(hello):
            self._call(member.address, raft)
        known = self._boots_known.get(hello.member_id, 0)
        is_confirmed = self._boots_confirmed.get(hello.member_id, 0) >= hello.boot
        if hello.cluster_id != self.roll.cluster_id or hello.cluster_id == NIL_ID:
            self._answer(note, self._boots_known, raft, replica)
        elif is_forgotten(hello.lives or (hello.boot,), known):
            # An older copy of that disk: answered, but what we know of the original stays.
            self._answer(note, self._boots_known, raft, replica)
        elif is_confirmed and not self._wants_admission(note, raft, leads):
            self._note(note, raft, replica)
        else:
            self._call_back(note, raft)

    def _wants_admission(self, note: BootNote, raft: RaftNode, leads: bool) -> bool:
        """Whether we, as the leader, are to admit this caller. It is called back at every request:
        otherwise an old hello of the former member at its address could replace it."""
        is_in = membership.find(raft.config, note.hello.member_id) is not None
        return note.hello.newcomer and leads and not is_in

    def _call_back(self, note: BootNote, raft: RaftNode) -> None:
        """Remember a claim and call the member that it names. The caller may be waiting for us in
        the same way, so its call is answered too: received, but nothing on disk yet."""
        hello = note.hello
        self._claims.pop(hello.member_id, None)
        self._claims[hello.member_id] = note
        if len(self._claims) > PEER_CLAIMS_MAX:
            del self._claims[next(iter(self._claims))]
        member = membership.find(raft.config, hello.member_id)
        address = member.address if member is not None else hello.address
        self._call(address, raft)
        if UNNOTED in hello.features:
            self._post(note.address, self.roll.unnoted(hello, raft.config))

    def _call(self, address: str, raft: RaftNode) -> None:
        """Call in reply to a hello, at most once a tick."""
        if address in self._called_back:
            self._called_back[address] = True
            return
        self._called_back[address] = False
        self._post(address, self.roll.hello(raft.config, raft.last_index, address))

    def _accept(self, note: BootNote, raft: RaftNode, replica: Replica, leads: bool) -> None:
        """A claim is true: that boot of that member has answered us."""
        hello = note.hello
        if self._boots_confirmed.get(hello.member_id, 0) < hello.boot:
            self._boots_confirmed[hello.member_id] = hello.boot
            raft.member_restarted(hello.member_id, hello.last_index)
        if self._wants_admission(note, raft, leads):
            membership.admit(raft, Member(hello.member_id, hello.address))
        self._note(note, raft, replica)

    def _note(self, note: BootNote, raft: RaftNode, replica: Replica) -> None:
        """Answer a caller once its boot is on disk."""
        if note.hello.boot > self._boots_known.get(note.hello.member_id, 0):
            self.boot_notes.append(note)
        else:
            self._answer(note, self._boots_known, raft, replica)

    def _note_boots(self, answer: RollAnswer) -> None:
        if answer.cluster_id != self.roll.cluster_id:
            return
        for member_id, boot in answer.boots:
            if member_id != self.roll.me.id and boot > self._boots_known.get(member_id, 0):
                self.boots_relayed[member_id] = boot

    def _note_key(self, answer: RollAnswer, raft: RaftNode) -> None:
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
            self._post(note.address, answer)

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
        self._post(address, msgspec.structs.replace(message, data=data))
