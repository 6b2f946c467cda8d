"""Changes of a federation's groups, in clients and routers: one that fails holds up no other."""

from __future__ import annotations

import asyncio

import pytest

from rollq.base.errors import LocalError
from rollq.gossip.following import FollowedGroup, GroupChanges
from rollq.roles.client.several_groups.engine import MultiEngine
from rollq.roles.client.several_groups.routes import GroupTable
from rollq.roles.router.node import RouterNode, RouterSetup

NEAR = FollowedGroup("near", "1", ("127.0.0.1:1",))
TAKEN = FollowedGroup("near", "2", ("127.0.0.1:2",))
FAR = FollowedGroup("far", "3", ("127.0.0.1:3",))


def test_a_client_takes_in_the_groups_behind_one_that_it_cannot() -> None:
    engine = MultiEngine(
        {"near": NEAR.addresses[0]},
        "ann",
        desired_parallelism=0,
        policy="round-robin",
        weights={},
        routes=(),
        timeout_s=1.0,
    )

    async def story() -> None:
        with pytest.raises(LocalError, match="two groups are named 'near'"):
            await engine._go_along(GroupChanges((), (TAKEN, FAR)))
        with pytest.raises(LocalError, match="no group is named 'lost'"):
            await engine._go_along(GroupChanges(("lost", "near"), (TAKEN,)))

    asyncio.run(story())
    assert sorted(engine.table.names.values()) == ["far", "near"]


def test_a_router_takes_in_the_groups_behind_one_that_it_cannot() -> None:
    async def story() -> None:
        router = RouterNode(RouterSetup({}, GroupTable()), "127.0.0.1", 0)
        await router._apply_group_changes(GroupChanges((), (NEAR,)))
        with pytest.raises(LocalError, match="two groups are named 'near'"):
            await router._apply_group_changes(GroupChanges((), (TAKEN, FAR)))
        assert list(router.groups.table.names.values()) == ["near", "far"]

    asyncio.run(story())


def test_a_group_that_a_router_was_given_stays_when_it_leaves_the_federation() -> None:
    async def story() -> None:
        given = {"near": "127.0.0.1:1"}
        router = RouterNode(RouterSetup(given, GroupTable(), seeds="127.0.0.1:3"), "127.0.0.1", 0)
        router.groups.add("near", given["near"])
        await router._apply_group_changes(GroupChanges((), (TAKEN, FAR)))
        await router._apply_group_changes(GroupChanges(("near", "far"), ()))
        assert [one.addresses for one in router.groups.found.values()] == ["127.0.0.1:1"]

    asyncio.run(story())
