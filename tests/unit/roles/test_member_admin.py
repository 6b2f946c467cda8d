"""What an operator may ask of a leader."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import JobOptions
from rollq.base.limits import READER_HOLD_MS_MAX, REPORT_TICKS
from rollq.grid.commands import Settings
from rollq.grid.readers import held_from
from rollq.grid.state import ASSIGNED, DEAD, DELAYED, QUEUED
from rollq.raft.types import AppendResponse
from rollq.roles.member.driver import Driver
from rollq.testing.disk import VirtualDisk
from rollq.wire import messages as wire
from tests.unit.roles.members import OURS, Group, job, submit

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16


def admin(action: str, **arguments: Any) -> wire.Admin:
    return wire.Admin(REQUEST, action, msgspec.msgpack.encode(arguments))


def one_member() -> Group:
    group = Group()
    group.elect()
    group.client(CLIENT)
    return group


@pytest.fixture
def group() -> Group:
    made = Group("a", "b", "c")
    made.elect()
    made.client(CLIENT)
    return made


def voters(driver: Driver) -> list[str]:
    return sorted(member.address for member in driver.raft.config.voters)


# --- the grid


def test_a_queue_is_paused_and_resumed() -> None:
    group = one_member()
    group.worker(WORKER, credit=1)
    assert group.say(CLIENT, admin("pause", queue="calc")) == [wire.Accepted(REQUEST)]
    group.say(CLIENT, submit(1))
    assert group.hear(WORKER) == []
    assert group.say(CLIENT, admin("resume", queue="calc")) == [wire.Accepted(REQUEST)]
    assert [one.job_id for one in group.heard(WORKER, wire.AssignJob)] == [job(1)]


def test_a_queue_is_named_as_in_submits() -> None:
    group = one_member()
    group.worker(WORKER, credit=1)
    assert group.say(CLIENT, admin("pause", queue="CALC")) == [wire.Accepted(REQUEST)]
    group.say(CLIENT, submit(1, "Calc"))
    assert group.hear(WORKER) == []
    assert list(group.leader.state.queues) == ["calc"]
    (answer,) = group.say(CLIENT, admin("pause", queue="a b"))
    assert answer.code == ErrorCode.BAD_SUBJECT


def test_dead_jobs_are_redriven_and_purged() -> None:
    group = one_member()
    once = JobOptions(max_attempts=1)
    group.say(CLIENT, submit(1, options=once), submit(2, options=once))
    group.worker(WORKER, credit=2)
    jobs = group.leader.state.jobs
    group.say(WORKER, *(wire.Nack(job(n), 1, jobs[job(n)].fence, "no") for n in (1, 2)))
    assert [jobs[job(n)].state for n in (1, 2)] == [DEAD, DEAD]
    assert wire.Accepted(REQUEST) in group.say(CLIENT, admin("redrive", items=[[job(1), b"new"]]))
    assert jobs[job(1)].state is QUEUED
    assert wire.Accepted(REQUEST) in group.say(CLIENT, admin("purge", job_ids=[job(2)]))
    assert job(2) not in jobs


def test_history_is_kept_for_a_reader_until_it_is_freed_or_silent_for_too_long() -> None:
    group = one_member()
    driver = group.members["a"]
    assert group.say(CLIENT, admin("hold_history", name="nightly", index=3)) == [
        wire.Accepted(REQUEST)
    ]
    assert held_from(driver.state) == 3
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "readers"))
    assert isinstance(answer, wire.Answer)
    [[name, index, _]] = msgspec.msgpack.decode(answer.value)
    assert (name, index) == ("nightly", 3)
    assert group.say(CLIENT, admin("free_history", name="nightly")) == [wire.Accepted(REQUEST)]
    assert held_from(driver.state) is None
    group.say(CLIENT, admin("hold_history", name="nightly", index=3))
    group.clock.ms += READER_HOLD_MS_MAX
    group.run()
    assert held_from(driver.state) is None


def test_settings_are_replaced() -> None:
    group = one_member()
    wanted = Settings(lease_ms=7_000)
    assert group.say(CLIENT, admin("settings", settings=wanted)) == [wire.Accepted(REQUEST)]
    assert group.leader.state.settings == wanted


def test_workers_are_told_to_end_if_they_are_here() -> None:
    group = one_member()
    group.worker(WORKER, credit=1)
    group.say(CLIENT, submit(1))
    group.hear(WORKER)
    (worker_id,) = group.leader.state.workers
    told = group.say(CLIENT, admin("dismiss", worker_ids=[worker_id, b"x" * 16]))
    assert told == [wire.Accepted(REQUEST, 1)]
    (error,) = group.hear(WORKER)
    assert (error.code, error.message) == (ErrorCode.DISMISSED, "dismissed by ann")
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    group.say(WORKER, wire.Goodbye("stopped"))
    assert group.leader.state.jobs[job(1)].state is DELAYED
    told = group.say(CLIENT, admin("dismiss", worker_ids=[worker_id]))
    assert told == [wire.Accepted(REQUEST, 0)]


def test_a_worker_is_drained_and_told_of_it_in_every_session() -> None:
    group = one_member()
    group.worker(WORKER, credit=1, features=(*OURS, "drain"))
    (worker_id,) = group.leader.state.workers
    told = group.say(CLIENT, admin("drain", worker_ids=[worker_id]))
    assert told == [wire.Accepted(REQUEST, 1)]
    assert group.hear(WORKER) == [wire.Drain(True)]
    group.say(CLIENT, submit(1))
    assert group.hear(WORKER) == []
    again = WORKER + 1
    told = group.worker(again, credit=1, features=(*OURS, "drain"), worker_id=worker_id)
    assert [type(one) for one in told] == [wire.Welcome, wire.Drain]
    assert group.heard(again, wire.AssignJob) == []
    assert group.say(CLIENT, admin("undrain", worker_ids=[worker_id])) == [wire.Accepted(REQUEST)]
    told = group.hear(again)
    assert told[0] == wire.Drain(False)
    assert [one.job_id for one in told[1:]] == [job(1)]


def test_a_worker_of_before_is_drained_and_not_told() -> None:
    group = one_member()
    group.worker(WORKER, credit=1)
    (worker_id,) = group.leader.state.workers
    group.say(CLIENT, admin("drain", worker_ids=[worker_id]))
    group.say(CLIENT, submit(1))
    assert group.hear(WORKER) == []
    assert group.leader.state.jobs[job(1)].state is QUEUED


def test_a_worker_that_nobody_knows_is_not_drained() -> None:
    group = one_member()
    (error,) = group.say(CLIENT, admin("drain", worker_ids=[b"x" * 16]))
    assert (error.request_id, error.code) == (REQUEST, ErrorCode.UNKNOWN_WORKER)
    assert "no worker 78787878" in error.message


@pytest.mark.parametrize(
    "action", ["pause", "redrive", "purge", "settings", "dismiss", "drain", "add_member"]
)
@pytest.mark.parametrize("arguments", [b"", b"\xc1", msgspec.msgpack.encode({"x": 1}), b"\x90"])
def test_bad_arguments_are_refused(action: str, arguments: bytes) -> None:
    group = one_member()
    (error,) = group.say(CLIENT, wire.Admin(REQUEST, action, arguments))
    assert (error.request_id, error.code) == (REQUEST, ErrorCode.BAD_PAYLOAD)
    assert not group.closed


# --- membership


def test_a_member_is_added_as_a_learner_and_promoted_when_it_has_caught_up(group: Group) -> None:
    group.say(CLIENT, submit(1))
    newcomer = group.start("d", VirtualDisk())
    group.until(lambda: "d" in voters(group.leader))
    group.run(4)
    assert newcomer.state.log_hash == group.leader.state.log_hash
    assert job(1) in newcomer.state.jobs


def test_a_member_may_be_named_before_it_comes(group: Group) -> None:
    assert group.say(CLIENT, admin("add_member", member_id=77, address="z")) == [
        wire.Accepted(REQUEST)
    ]
    group.run(20)
    config = group.leader.raft.config
    assert [member.address for member in config.learners] == ["z"]
    assert voters(group.leader) == ["a", "b", "c"]


def test_a_member_is_removed(group: Group) -> None:
    address = group.follower()
    member_id = group.members[address].raft.member_id
    told = group.say(CLIENT, admin("remove_member", member_id=member_id))
    assert told == [wire.Accepted(REQUEST)]
    group.run(4)
    assert address not in voters(group.leader)
    assert len(voters(group.leader)) == 2


def test_a_change_of_members_is_answered_once_it_is_committed(group: Group) -> None:
    member_id = group.members[group.follower()].raft.member_id
    group.lost = (AppendResponse,)
    assert group.say(CLIENT, admin("remove_member", member_id=member_id)) == []
    group.lost = ()
    group.run(4)
    assert group.hear(CLIENT) == [wire.Accepted(REQUEST)]
    assert len(voters(group.leader)) == 2


def test_a_leader_that_removes_itself_answers(group: Group) -> None:
    group.run(2 * REPORT_TICKS)  # the others tell that they have the whole history
    leader = group.address_of(group.leader)
    remove = admin("remove_member", member_id=group.leader.raft.member_id)
    assert group.say(CLIENT, remove)[0] == wire.Accepted(REQUEST)
    group.until(lambda: any(one.leading for one in group.members.values()))
    assert leader not in voters(group.leader)


def test_leadership_is_handed_over(group: Group) -> None:
    address = group.follower()
    member_id = group.members[address].raft.member_id
    told = group.say(CLIENT, admin("transfer", member_id=member_id))
    assert told[0] == wire.Accepted(REQUEST)
    group.until(lambda: group.members[address].leading)
    assert isinstance((told + group.hear(CLIENT))[-1], wire.NotLeader)


def test_one_change_at_a_time(group: Group) -> None:
    messages = [admin("add_member", member_id=n, address=f"z{n}") for n in (77, 78)]
    refused, accepted = group.say(CLIENT, *messages)
    assert (refused.code, refused.retryable) == (ErrorCode.CONFIG_CHANGE_PENDING, True)
    assert accepted == wire.Accepted(REQUEST)


@pytest.mark.parametrize("action", ["remove_member", "transfer"])
def test_nobody_knows_a_member_that_is_not_in_the_group(group: Group, action: str) -> None:
    (error,) = group.say(CLIENT, admin(action, member_id=12345))
    assert (error.request_id, error.code) == (REQUEST, ErrorCode.BAD_CONFIG_CHANGE)


def test_work_goes_on_while_leadership_is_handed_to_somebody_who_is_away(group: Group) -> None:
    address = group.follower()
    member_id = group.members[address].raft.member_id
    group.isolated[address] = None
    group.say(CLIENT, admin("transfer", member_id=member_id))
    assert group.say(CLIENT, submit(5)) == []
    group.until(lambda: group.leader.raft.transferee == 0)
    group.run(4)
    assert wire.Accepted(job(5)) in group.hear(CLIENT)


# --- accounts and roles


def test_accounts_and_roles_are_put_shown_and_removed() -> None:
    group = one_member()
    done = [wire.Accepted(REQUEST)]
    rule = ["deny", "jobs.cancel", "queue:calc"]
    assert group.say(CLIENT, admin("access_put_role", role=["careful", [rule]])) == done
    account = ["ann", ["client", "careful"], [], [["t1", b"h" * 32, 0]], [], False]
    assert group.say(CLIENT, admin("access_put_account", account=account)) == done
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "account", b"ann"))
    assert isinstance(answer, wire.Answer)
    name, roles, _, tokens, *_, version = msgspec.msgpack.decode(answer.value)
    assert (name, roles, tokens) == ("ann", ["client", "careful"], [["t1", 0]])
    (stale,) = group.say(CLIENT, admin("access_put_account", account=account, version=version - 1))
    assert stale.code == ErrorCode.WRONG_STATE
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "roles", b"careful"))
    assert isinstance(answer, wire.Answer)
    assert next(one[0] for one in msgspec.msgpack.decode(answer.value)) == "client"
    (refused,) = group.say(CLIENT, admin("access_remove_role", name="careful"))
    assert refused.code == ErrorCode.BAD_ACCESS
    assert group.say(CLIENT, admin("access_remove_account", name="ann")) == done
    assert group.say(CLIENT, admin("access_remove_role", name="careful")) == done
    (answer,) = group.say(CLIENT, wire.Query(REQUEST, "accounts"))
    assert isinstance(answer, wire.Answer)
    assert msgspec.msgpack.decode(answer.value) == []


@pytest.mark.parametrize(
    "account",
    [
        ["a" * 65],
        ["ann", ["r" * 65]],
        ["ann", [], [["allow", "a" * 65, "*"]]],
        ["ann", [], [["allow", "*", "r" * 513]]],
        ["ann", [], [["allow", "*", "*"]] * 65],
        ["ann", [], [], [["t", b"h" * 33, 0]]],
        ["ann", [], [], [["t", b"h" * 32, -1]]],
        ["ann", [], [], [], [b"k" * 33]],
    ],
)
def test_an_account_out_of_bounds_never_gets_to_the_log(account: list[Any]) -> None:
    group = one_member()
    (answer,) = group.say(CLIENT, admin("access_put_account", account=account))
    assert answer.code in (ErrorCode.BAD_ACCESS, ErrorCode.BAD_PAYLOAD)
    assert not group.leader.state.access.accounts
