"""kill -9 and SIGSTOP under load: what was accepted is there, and somebody else leads."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from rollq.base.jobs import AttemptRef
from rollq.grid.views import RawJobView
from rollq.roles.member.status import ClusterView
from rollq.wire import messages as wire
from tests.integration.load import Load
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import (
    Talker,
    accepted,
    client,
    find_leader,
    hang_up_all,
    job,
    submit,
    worker,
)


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def all_known(talker: Talker, numbers: dict[int, None]) -> bool:
    """Whether every one of these was accepted before: submitting it again says so."""
    wanted = list(numbers)
    return all(
        all(accepted(talker, wanted[first : first + 200]).values())
        for first in range(0, len(wanted), 200)
    )


def cluster(talker: Talker) -> ClusterView:
    talker.say(wire.Query(b"q" * 16, "cluster"))
    return msgspec.msgpack.decode(talker.hear(wire.Answer).value, type=ClusterView)


def test_a_single_member_that_is_killed_under_load_has_lost_nothing(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "state", snapshot_entries=100)
    member.start()
    with Load([member.address]) as load:
        for _ in range(4):
            load.until_more(300)
            member.kill()
            member.start()
        load.until_more(100)
    assert all_known(client(member.address, "load"), load.accepted)
    assert member.stop() == 0


def test_the_leader_is_killed_under_load_and_nothing_is_lost(tmp_path: Path) -> None:
    with Members(tmp_path, 3, snapshot_entries=200) as members:
        with Load(members.addresses) as load:
            for _ in range(3):
                load.until_more(200)
                address, _ = find_leader(members.addresses)
                members.at(address).kill()
                load.until_more(200)
                members.at(address).start()
            load.until_more(100)
        _, talker = find_leader(members.addresses, "load")
        assert all_known(talker, load.accepted)
        view = until(lambda: is_level(cluster(talker)))
        assert {one.lag for one in view.members} == {0}


def is_level(view: ClusterView) -> ClusterView | None:
    return view if all(one.lag == 0 and one.active for one in view.members) else None


def test_running_attempts_survive_the_leader(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        address, asker = find_leader(members.addresses)
        hand = worker(address, 7, 2)
        assert accepted(asker, [1, 2])
        first, second = hand.hear(wire.AssignJob), hand.hear(wire.AssignJob)
        members.at(address).kill()
        assert asker.is_over()
        assert hand.is_over()
        others = [one for one in members.addresses if one != address]
        address, asker = find_leader(others)
        held = [AttemptRef(one.job_id, one.attempt, one.fence) for one in (first, second)]
        hand = worker(address, 7, 2, *held)
        asker.say(wire.Query(b"q" * 16, "job", job(1)))
        view = msgspec.msgpack.decode(asker.hear(wire.Answer).value, type=RawJobView)
        assert view.attempt == 1
        for one in (first, second):
            hand.say(wire.AckJob(one.job_id, one.attempt, one.fence, 0, b"done once"))
            assert hand.hear(wire.AckTaken) == wire.AckTaken(one.job_id, 1)
        results = [asker.hear(wire.Result) for _ in range(2)]
        assert [(one.job_id, one.attempt, one.result) for one in results] == [
            (job(1), 1, b"done once"),
            (job(2), 1, b"done once"),
        ]


def test_a_leader_that_is_frozen_is_replaced_and_steps_down_when_it_wakes(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        old, talker = find_leader(members.addresses)
        assert accepted(talker, range(1, 50))
        members.at(old).send(signal.SIGSTOP)
        others = [one for one in members.addresses if one != old]
        new, fresh = find_leader(others)
        assert new != old
        talker.say(wire.Query(b"q" * 16, "counts"), submit(1_000))
        assert all_known(fresh, dict.fromkeys(range(1, 50)))
        assert accepted(fresh, range(50, 60))
        members.at(old).send(signal.SIGCONT)
        # It answers neither the question nor the submit: it says that it does not lead.
        told = talker.hear(wire.NotLeader)
        assert sorted(told.members) == sorted(members.addresses)
        assert talker.is_over()
        assert accepted(fresh, [1_000]) == {job(1_000): False}
        until(lambda: is_level(cluster(fresh)))
