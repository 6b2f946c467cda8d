"""The identity of a disk. It belongs to the disk, not to the address: a member that lost its disk
rejoins as a new member, and can never vote under its old identity.

`IdentityHead` is the body of every HEAD record of the log: identity, the recorded starts of each
peer, and whether the log is suspect. It is small and always written whole, so the newest valid copy
is authoritative. Both structs go to disk: fields may be appended with a default, nothing else.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import MemberId
from rollq.base.limits import PEER_NOTES_MAX
from rollq.raft.types import Member, Position
from rollq.store.record import stuff, unstuff


class Identity(msgspec.Struct, array_like=True, frozen=True):
    """The identity of this disk. `boot` counts starts: a disk with fewer than its peers recorded is
    an old copy."""

    cluster_id: bytes
    member_id: MemberId
    address: str
    boot: int = 0
    # The configuration at log index 0 of the cluster; empty while the disk belongs to none.
    roster: tuple[Member, ...] = ()


class ClusterKey(msgspec.Struct, array_like=True, frozen=True):
    """The key by which members authenticate each other. Without value: the disk has none yet. A key
    created for a group without one is not `is_sure` until all of its members hold it: until then
    one of a later term replaces it."""

    value: bytes = b""
    term: int = 0  # term of the leader that created it; 0: created at the birth of the group
    is_sure: bool = False

    def __repr__(self) -> str:  # a key is not shown in any log
        held = "…" if self.value else "none"
        return f"ClusterKey({held}, term={self.term}, is_sure={self.is_sure})"


NO_KEY: Final = ClusterKey()


class IdentityHead(msgspec.Struct, array_like=True, frozen=True):
    """Persistent state besides the log itself."""

    identity: Identity
    peer_boots: dict[int, int] = {}
    # The log once reached this position, and corruption destroyed some of it; None: none.
    suspect: Position | None = None
    # The starts of this disk, oldest first: number and nonce of each (`life_of`).
    lives: tuple[int, ...] = ()
    # Whether an applied configuration ever had this member: afterwards it is a member, or was
    # removed.
    admitted: bool = False
    # The name of its group; empty: from a member that did not record it.
    group: str = ""
    # This disk's share of the key of the cluster, if it is one of the first members.
    share: bytes = b""
    key: ClusterKey = NO_KEY

    def __repr__(self) -> str:  # a share is as secret as the key
        return f"IdentityHead({self.identity!r}, lives={self.lives!r}, key={self.key!r})"


NONCE_BITS: Final = 32
KEYLESS_FIELDS: Final = IdentityHead.__struct_fields__.index("share")


def life_of(boot: int, nonce: int) -> int:
    """One start of one disk as a number: ordered by start, and distinguished by the nonce."""
    return boot << NONCE_BITS | nonce


def note_boot(peer_boots: dict[int, int], member: MemberId, boot: int) -> dict[int, int]:
    """The starts with this one as the newest; the oldest is dropped if there are too many."""
    notes = {peer: seen for peer, seen in peer_boots.items() if peer != member}
    while len(notes) >= PEER_NOTES_MAX:
        del notes[next(iter(notes))]
    notes[member] = max(boot, peer_boots.get(member, 0))
    return notes


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(IdentityHead)


def encode_head(head: IdentityHead) -> bytes:
    """The body of a HEAD or BASE record. Without a key it is the same as before there were keys."""
    fields = msgspec.structs.astuple(head)
    has_key = head.share or head.key != NO_KEY
    return stuff(_encoder.encode(fields if has_key else fields[:KEYLESS_FIELDS]))


def decode_head(body: bytes) -> IdentityHead | None:
    """The inverse of `encode_head`; None if the bytes are something else."""
    try:
        return _decoder.decode(unstuff(body))
    except msgspec.MsgspecError:
        return None


def identity_lost(reason: str) -> DiskError:
    """The error for a disk with data but no identity: no member may start on it."""
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"this disk holds data of a member but its identity cannot be read: {reason}",
        "move the state directory away and start again: the member then joins as a new one and "
        "fetches everything from its peers; if it is the only member, restore a backup",
    )


def identity_taken(identity: Identity) -> DiskError:
    """The error for naming a disk that has an identity."""
    return DiskError(
        ErrorCode.WRONG_IDENTITY,
        f"this disk already belongs to member {identity.member_id} of cluster "
        f"{identity.cluster_id.hex()}",
        "start with that identity, or use an empty state directory",
    )


def group_differs(head: IdentityHead, group: str) -> DiskError:
    """The error for a member of one group started on the disk of another."""
    return DiskError(
        ErrorCode.WRONG_IDENTITY,
        f"this disk belongs to group {head.group!r}, and the member was started for group "
        f"{group!r}",
        f"start it with --group {head.group}, or with a state directory of its own",
    )
