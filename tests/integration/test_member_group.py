"""Members that stop in good order, lose their disk, or belong to somebody else."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollq.net.ports import free_ports
from rollq.roles.member.status import ClusterView
from rollq.wire import messages as wire
from tests.integration.load import Load
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import Talker, accepted, find_leader, hang_up_all


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def cluster(talker: Talker) -> ClusterView:
    talker.say(wire.Query(b"q" * 16, "cluster"))
    return msgspec.msgpack.decode(talker.hear(wire.Answer).value, type=ClusterView)


def test_a_leader_that_is_told_to_stop_hands_over_to_one_that_has_everything(
    tmp_path: Path,
) -> None:
    with Members(tmp_path, 3) as members, Load(members.addresses) as load:
        for _ in range(3):
            load.until_more(100)
            address, talker = find_leader(members.addresses)
            term = cluster(talker).term
            member = members.at(address)
            assert member.stop() == 0
            chosen = member.until_line("transferring leadership to").split()[-1]
            new, talker = find_leader([one for one in members.addresses if one != address])
            # The one that was chosen leads the very next term: nobody had to time out.
            assert (new, cluster(talker).term) == (chosen, term + 1)
            load.until_more(50)
            member.start()
        assert load.failure is None


def test_a_follower_that_stops_is_not_missed(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        address, talker = find_leader(members.addresses)
        term = cluster(talker).term
        follower = next(member for member in members.all if member.address != address)
        assert follower.stop() == 0
        assert accepted(talker, range(1, 50))
        follower.start()
        until(lambda: all(one.lag == 0 and one.active for one in cluster(talker).members))
        assert cluster(talker).term == term


def test_a_member_that_is_stopped_is_gone_and_back_in_the_log_of_the_leader(tmp_path: Path) -> None:
    """Its links stay open meanwhile, as they do when a network is cut."""
    with Members(tmp_path, 3) as members:
        address, _ = find_leader(members.addresses)
        leader = members.at(address)
        follower = next(member for member in members.all if member.address != address)
        follower.send(signal.SIGSTOP)
        leader.until_line(f"member at {follower.address} is gone: no answer")
        follower.send(signal.SIGCONT)
        leader.until_line(f"member at {follower.address} is back")


def test_a_member_that_was_replaced_says_so_when_its_old_disk_is_put_back(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        address, talker = find_leader(members.addresses)
        assert accepted(talker, range(1, 20))
        member = next(one for one in members.all if one.address != address)
        member.kill()
        member.state.rename(tmp_path / "old")
        member.start()
        own = int(member.until_line("serving").split()[-1])
        until(lambda: any(one.member_id == own and one.active for one in cluster(talker).members))
        assert accepted(talker, range(20, 40))
        member.kill()
        shutil.rmtree(member.state)
        (tmp_path / "old").rename(member.state)
        member.start()
        member.until_line("this member is not in the group")


def test_a_member_that_lost_its_disk_joins_under_a_new_id_and_catches_up(tmp_path: Path) -> None:
    with Members(tmp_path, 3, snapshot_entries=20) as members:
        address, talker = find_leader(members.addresses)
        for number in range(1, 60):
            assert accepted(talker, [number])
        member = next(one for one in members.all if one.address != address)
        old_id = int(member.until_line("serving").split()[-1])
        member.kill()
        shutil.rmtree(member.state)
        member.start()
        new_id = int(member.until_line("serving").split()[-1])
        assert new_id != old_id

        def is_back() -> bool:
            found = {one.member_id: one for one in cluster(talker).members}
            mine = found.get(new_id)
            return (
                old_id not in found
                and mine is not None
                and (mine.role, mine.lag, mine.active) == ("follower", 0, True)
            )

        until(is_back)
        # Its vote counts: with it and the leader alone the group goes on.
        third = next(one for one in members.all if one.address not in (address, member.address))
        third.kill()
        assert accepted(talker, range(100, 120))


def test_members_of_different_groups_do_not_mix(tmp_path: Path) -> None:
    ports = free_ports(2)
    addresses = [f"127.0.0.1:{port}" for port in ports]
    strangers = [
        MemberProcess(tmp_path / "a", ports[0], peers=[addresses[1]], group="a").start(),
        MemberProcess(tmp_path / "b", ports[1], peers=[addresses[0]], group="b").start(),
    ]
    try:
        for member in strangers:
            assert "is not for the group" in member.until_line("bad_subject")
        for address in addresses:
            talker = Talker(address)
            talker.say(wire.HelloClient("ann", 0, ("accepted", "compact")))
            assert talker.hear(wire.NotLeader).leader == ""
    finally:
        for member in strangers:
            member.kill()


def test_a_member_of_one_cluster_is_not_taken_into_another(tmp_path: Path) -> None:
    """Two clusters of one name: a member started with the wrong peers stays with its own."""
    with Members(tmp_path / "one", 1) as one, Members(tmp_path / "two", 3) as two:
        _, alone = find_leader(one.addresses)
        _, talker = find_leader(two.addresses)
        assert accepted(alone, [1])
        assert accepted(talker, [2])
        lost = one.all[0]
        lost.kill()
        wrong = MemberProcess(lost.state, lost.port, peers=list(two.addresses)).start()
        try:
            _, alone = find_leader([wrong.address])
            assert accepted(alone, [1]).popitem()[1]
            assert len(cluster(alone).members) == 1
            view = cluster(talker)
            assert sorted(member.address for member in view.members) == sorted(two.addresses)
        finally:
            wrong.kill()
