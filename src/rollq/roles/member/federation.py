"""A member as a node of a federation: what it publishes about itself and its group by gossip."""

from __future__ import annotations

from rollq.base.ids import NIL_ID
from rollq.gossip.machine import OwnState
from rollq.gossip.node import GossipNode, OwnNode
from rollq.gossip.records import NODE_ID_BYTES, Figures, NodeKind
from rollq.gossip.setup import FederationSetup
from rollq.grid.views import grid_counts
from rollq.raft.types import Role
from rollq.roles.member.driver import Driver
from rollq.roles.member.setup import MemberSetup
from rollq.roles.service import SystemClock, SystemJitter


async def start_gossip(
    setup: MemberSetup, driver: Driver, host: str, port: int
) -> GossipNode | None:
    """Start the gossip node of a member; None without a federation key.

    Raises:
        LocalError: CANNOT_LISTEN; BAD_SETUP if its own record breaks the limits of gossip.
    """
    if setup.federation is None:
        return None
    members = (*driver.raft.config.voters, *driver.raft.config.learners)
    peers = (*setup.peers, *(member.address for member in members))
    seeds = tuple(dict.fromkeys((*setup.federation.seeds, *peers)))
    own = OwnNode(
        node_id=driver.raft.member_id.to_bytes(NODE_ID_BYTES, "big"),
        kind=NodeKind.MEMBER,
        group=setup.group,
        address=setup.address,
        state=lambda: _state(driver),
        figures=lambda: _figures(driver),
    )
    federation = FederationSetup(setup.federation.keys, seeds)
    node = GossipNode(federation, own, SystemClock(), SystemJitter())
    await node.start(host, port)
    driver.leader_state.shell.federation = node.view
    return node


def _state(driver: Driver) -> OwnState:
    cluster_id = driver.roll.cluster_id
    return OwnState(
        cluster_id=b"" if cluster_id == NIL_ID else cluster_id,
        leads=driver.leading,
        term=driver.raft.term,
    )


def _figures(driver: Driver) -> Figures:
    """Counts of the group if this member leads it, else empty: the leader publishes them."""
    raft = driver.raft
    if not driver.leading or raft.role is not Role.LEADER:
        return Figures()
    counts = grid_counts(driver.state)
    members = (*raft.config.voters, *raft.config.learners)
    progress = raft.progress
    up = sum(one.id == raft.member_id or progress[one.id].active for one in members)
    return Figures(
        members=len(members),
        members_up=up,
        queued=counts.queued + counts.delayed + counts.blocked,
        running=counts.assigned,
        workers=len(driver.leader_state.sessions.workers()),
    )
