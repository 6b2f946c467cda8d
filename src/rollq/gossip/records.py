"""The records and messages of gossip. Pure.

A *node* is one process. Only the node itself raises its incarnation: at a restart, when its record
changes, and to refute a suspicion. Of two updates about a node the one with the higher incarnation
wins, and of equal incarnations the one with the worse standing: so nodes that have received the
same updates, in any order, have the same table.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base.federation_limits import GOSSIP_ADDRESS_BYTES_MAX, GOSSIP_GROUP_BYTES_MAX
from rollq.base.limits import CLUSTER_ID_BYTES_MAX, TERM_MAX

NODE_ID_BYTES: Final = 8
INCARNATION_MAX: Final = 2**62
COUNT_MAX: Final = 2**53  # the largest integer that every JSON parser represents exactly
AGE_S_MAX: Final = 2**31

NodeId: TypeAlias = Annotated[
    bytes, msgspec.Meta(min_length=NODE_ID_BYTES, max_length=NODE_ID_BYTES)
]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Incarnation: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
ProbeNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class NodeKind(enum.IntEnum):
    """The role of a process."""

    MEMBER = 0
    ROUTER = 1


class Standing(enum.IntEnum):
    """The status of a node. Of equal incarnations the higher value wins."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3  # it announced this itself


GONE: Final = (Standing.DEAD, Standing.LEFT)


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """Figures of a group, from its leader.

    Attributes:
        members: Size of the group.
        members_up: Members that the leader has recently heard from.
        queued: Waiting jobs.
        running: Running attempts.
        workers: Connected workers.
    """

    members: Count = 0
    members_up: Count = 0
    queued: Count = 0
    running: Count = 0
    workers: Count = 0


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """A node's description of itself. Only the node itself changes it.

    Attributes:
        node_id: Of a member, its id; of a router, random at each start.
        kind: Member or router.
        group: Of a member, the name of its group.
        cluster_id: Of a member, its cluster; empty: it belongs to none yet.
        address: Where it is reached, by TCP and UDP.
        incarnation: The version of this record. It never decreases but when the clock is set back.
        leads: Whether it leads its group.
        term: Its Raft term.
        figures: Of its group; only the leader's are valid.
    """

    node_id: NodeId
    kind: NodeKind
    group: Annotated[str, msgspec.Meta(max_length=GOSSIP_GROUP_BYTES_MAX)]
    cluster_id: Annotated[bytes, msgspec.Meta(max_length=CLUSTER_ID_BYTES_MAX)]
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=GOSSIP_ADDRESS_BYTES_MAX)]
    incarnation: Incarnation
    leads: bool = False
    term: Annotated[int, msgspec.Meta(ge=0, le=TERM_MAX)] = 0
    figures: Figures = Figures()


class NodeUpdate(msgspec.Struct, frozen=True, array_like=True):
    """An update about one node, as disseminated.

    Attributes:
        standing: The sender's view of the node.
        age_s: For how long a gone node has been gone, so that all tables drop it at the same time.
        record: The latest known record.
    """

    standing: Standing
    age_s: Annotated[int, msgspec.Meta(ge=0, le=AGE_S_MAX)]
    record: NodeRecord


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """A direct probe. Only the node with this id answers: another may have taken its address."""

    number: ProbeNumber
    target: NodeId


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The answer to a `Probe`, or to a `ProbeFor`."""

    number: ProbeNumber
    target: NodeId


class ProbeFor(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """A request to probe the target on behalf of the sender."""

    number: ProbeNumber
    target: NodeId


class Sync(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A page of the sender's full table. `asks`: the receiver is to send its own in return."""

    asks: bool


Message: TypeAlias = Probe | Ack | ProbeFor | Sync


class Datagram(msgspec.Struct, frozen=True, array_like=True):
    """A message with its envelope. Authentication is added by `codec`.

    Attributes:
        sent_ms: Wall clock of the sender, milliseconds since 1970.
        sender: Its node id.
        address: Where to reply. The source address of the datagram is not used: it can be forged.
        message: The message.
        updates: Piggybacked updates.
    """

    sent_ms: Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
    sender: NodeId
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=GOSSIP_ADDRESS_BYTES_MAX)]
    message: Message
    updates: tuple[NodeUpdate, ...]
