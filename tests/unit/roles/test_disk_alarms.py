"""Members tell what their disks hold and have free; the leader shows it and warns an operator."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.disk_use import DiskUse
from rollq.base.errors import ErrorCode
from rollq.base.limits import REPORT_MS_MAX, REPORT_TICKS
from rollq.documents.grid import cluster_document
from rollq.roles.member.driver import Driver
from rollq.roles.member.metrics.families import families
from rollq.roles.member.status import ClusterView, cluster_view
from rollq.wire import messages as wire
from tests.unit.roles.members import TICK_MS, Group

CLIENT = 1
GIB = 1024**3
ROOMY = DiskUse(1, 2, 3, 4, 5, 50 * GIB, 100 * GIB)
FULL = DiskUse(1, 2, 3, 4, 5, GIB, 100 * GIB)
SHOWN = {"used_bytes": 15, **msgspec.structs.asdict(ROOMY)}


@pytest.fixture
def group() -> Group:
    made = Group("a", "b", "c")
    made.elect()
    made.client(CLIENT)
    for driver in made.members.values():
        driver.reports.disk = ROOMY
    made.run(2 * REPORT_TICKS)
    return made


def view(group: Group) -> ClusterView:
    (answer,) = group.say(CLIENT, wire.Query(b"r" * 16, "cluster"))
    return msgspec.msgpack.decode(answer.value, type=ClusterView)


def disks(group: Group) -> dict[str, dict[str, int] | None]:
    return {one.address: one.disk for one in view(group).members}


def of_itself(driver: Driver) -> ClusterView:
    """What a member says that is asked itself."""
    return cluster_view(driver.state, driver.raft, driver.reports)


def test_the_leader_shows_the_disk_of_every_member(group: Group) -> None:
    assert disks(group) == dict.fromkeys("abc", SHOWN)
    assert view(group).alarms == []


def test_a_follower_shows_its_own_alone(group: Group) -> None:
    address = group.follower()
    found = of_itself(group.members[address])
    assert {one.address: one.disk for one in found.members if one.disk} == {address: SHOWN}
    told = {one["address"]: one["disk"] for one in cluster_document(found)["members"]}
    assert told == dict.fromkeys("abc") | {address: SHOWN}


def test_what_a_member_does_not_tell_is_unknown_and_not_nothing(group: Group) -> None:
    """As one of an older version does, whose report ends before it."""
    address = group.follower()
    group.members[address].reports.disk = None
    group.run(2 * REPORT_TICKS)
    assert disks(group)[address] is None
    assert view(group).alarms == []


def test_what_was_told_long_ago_is_unknown(group: Group) -> None:
    address = group.follower()
    group.isolated[address] = None
    group.run(REPORT_MS_MAX // TICK_MS + REPORT_TICKS)
    assert disks(group) == dict.fromkeys("abc", SHOWN) | {address: None}


def test_a_disk_that_is_nearly_full_is_an_alarm_until_there_is_room(group: Group) -> None:
    leader, follower = group.leader, group.members[group.follower()]
    for driver in (leader, follower):
        driver.reports.disk = FULL
    group.run(2 * REPORT_TICKS)
    alarms = {one.member_id: one for one in view(group).alarms}
    assert {one.code for one in alarms.values()} == {ErrorCode.DISK_LOW}
    assert {one: alarm.text for one, alarm in alarms.items()} == {
        driver.raft.member_id: "only 1 GiB of 100 GiB are free on the disk of "
        f"{group.address_of(driver)}"
        for driver in (leader, follower)
    }
    assert "--history-mb" in alarms[leader.raft.member_id].todo
    assert len(group.warned) == 2  # once each, although time goes on
    assert [one.member_id for one in of_itself(follower).alarms] == [follower.raft.member_id]
    for driver in (leader, follower):
        driver.reports.disk = ROOMY
    group.run(2 * REPORT_TICKS)
    assert view(group).alarms == []


def test_metrics_of_a_member_have_its_own_disk(group: Group) -> None:
    driver = group.members[group.follower()]
    found = {one.name: one for one in families(driver)}
    parts = {one.labels[0]: one.value for one in found["rollq_disk_used_bytes"].samples}
    assert parts == {"log": 1, "snapshots": 2, "history": 3, "blobs": 4, "other": 5}
    assert found["rollq_disk_free_bytes"].samples[0].value == 50 * GIB
    assert found["rollq_disk_size_bytes"].samples[0].value == 100 * GIB
    driver.reports.disk = None
    assert not any(one.name.startswith("rollq_disk") for one in families(driver))
