"""What nodes say of each other and to each other. Pure.

A *node* is one process. Only it raises its incarnation: with a restart, with a change of what it
says of itself, and to refute what others say of it. Of two pieces of news on a node the one with
the higher incarnation counts, and with the same incarnation the worse standing: so whoever has
heard the same news, in whatever order, thinks the same.
"""

from __future__ import annotations

import enum
from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base.federation_limits import GOSSIP_ADDRESS_BYTES_MAX, GOSSIP_GROUP_BYTES_MAX
from rollq.base.limits import CLUSTER_ID_BYTES_MAX, TERM_MAX

NODE_ID_BYTES: Final = 8
INCARNATION_MAX: Final = 2**62
COUNT_MAX: Final = 2**53  # of jobs, workers, members: a number that every reader of JSON holds
AGE_S_MAX: Final = 2**31

NodeId: TypeAlias = Annotated[
    bytes, msgspec.Meta(min_length=NODE_ID_BYTES, max_length=NODE_ID_BYTES)
]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Incarnation: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
ProbeNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class Kind(enum.IntEnum):
    """What a process is."""

    MEMBER = 0
    ROUTER = 1


class Standing(enum.IntEnum):
    """What is known of a node, the worse the higher."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3  # it said so itself


GONE: Final = (Standing.DEAD, Standing.LEFT)


class Figures(msgspec.Struct, frozen=True, array_like=True):
    """How a group is, as its leader says.

    Attributes:
        members: Of the group.
        members_up: Of these, those that the leader heard from lately.
        queued: Jobs that wait.
        running: Attempts that run.
        workers: That are connected.
    """

    members: Count = 0
    members_up: Count = 0
    queued: Count = 0
    running: Count = 0
    workers: Count = 0


class NodeRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of itself.

    Attributes:
        node_id: Of a member, its id; of a router, drawn at its start.
        kind: What it is.
        group: Of a member, the name of its group.
        cluster_id: Of a member, its cluster; empty: it belongs to none yet.
        address: Under which others reach it, by TCP and UDP.
        incarnation: Raised by the node alone.
        leads: Whether it leads its group.
        term: In which it leads, or follows.
        figures: Of its group, if it leads.
    """

    node_id: NodeId
    kind: Kind
    group: Annotated[str, msgspec.Meta(max_length=GOSSIP_GROUP_BYTES_MAX)]
    cluster_id: Annotated[bytes, msgspec.Meta(max_length=CLUSTER_ID_BYTES_MAX)]
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=GOSSIP_ADDRESS_BYTES_MAX)]
    incarnation: Incarnation
    leads: bool = False
    term: Annotated[int, msgspec.Meta(ge=0, le=TERM_MAX)] = 0
    figures: Figures = Figures()


class News(msgspec.Struct, frozen=True, array_like=True):
    """A node, and what is thought of it.

    Attributes:
        standing: What.
        age_s: Of one that is gone: for how long. So all forget it at the same time.
        record: What it said last.
    """

    standing: Standing
    age_s: Annotated[int, msgspec.Meta(ge=0, le=AGE_S_MAX)]
    record: NodeRecord


class Probe(msgspec.Struct, frozen=True, array_like=True, tag=0):
    """Are you there? Only the node with this id answers: another process may have its address."""

    number: ProbeNumber
    target: NodeId


class Ack(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """It is there: the answer to a probe, or to a request for one."""

    number: ProbeNumber
    target: NodeId


class ProbeFor(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """It does not answer me; does it answer you?"""

    number: ProbeNumber
    target: NodeId


class Sync(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """A page of all that is known. `asks`: whoever gets it is to send all that it knows."""

    asks: bool


Question: TypeAlias = Probe | Ack | ProbeFor | Sync


class Datagram(msgspec.Struct, frozen=True, array_like=True):
    """What goes over the network, but for its authentication.

    Attributes:
        sent_ms: When, by the clock of the sender, since 1970.
        sender: Who.
        address: Where the sender is answered: where a datagram seems to come from is no proof.
        said: What it is about.
        news: What rides on it.
    """

    sent_ms: Annotated[int, msgspec.Meta(ge=0, le=INCARNATION_MAX)]
    sender: NodeId
    address: Annotated[str, msgspec.Meta(min_length=3, max_length=GOSSIP_ADDRESS_BYTES_MAX)]
    said: Question
    news: tuple[News, ...]
