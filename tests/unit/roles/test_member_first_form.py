"""Peers of the first legacy form at a leader: without names and ids, in any case."""

from __future__ import annotations

import pytest

from rollq.base.ids import NIL_ID
from rollq.roles.member.leader.addressing import Spellings
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit

CLIENT, WORKER = 1, 2


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def test_clients_and_workers_without_a_name_are_taken_each_as_another(group: Group) -> None:
    group.say(3, wire.HelloClient(""))
    group.say(4, wire.HelloClient(""))
    group.say(3, submit(1))
    group.say(4, submit(2))
    names = [group.leader.state.jobs[job(number)].client.client_id for number in (1, 2)]
    assert len({*names, "ann"}) == 3
    for session in (5, 6):
        told = group.say(session, wire.HelloWorker(NIL_ID, ("",)), wire.Credit(1))
        told += group.hear(session)
        (assigned,) = [one for one in told if isinstance(one, wire.AssignJob)]
        group.say(session, wire.AckJob(assigned.job_id))
    assert len(group.leader.state.workers) == 2
    assert [type(one) for one in group.hear(3) + group.hear(4)] == [wire.Result, wire.Result]


def test_a_subject_reaches_the_worker_in_the_case_in_which_it_came(group: Group) -> None:
    group.say(CLIENT, submit(1, subject="job.submit.GroupA"))
    group.say(CLIENT, submit(2, subject="calcb", exec_name="calcB"))
    group.say(CLIENT, submit(3, subject=".Job..Assign.Deep.Name."))
    told = group.worker(WORKER, credit=3)
    subjects = [one.subject for one in told if isinstance(one, wire.AssignJob)]
    wanted = ["job.assign.Deep.Name", "job.assign.GroupA", "job.assign.calcb"]
    assert sorted(subjects) == wanted
    # A leader that has not seen a submit takes the case of the program's name, if it fits.
    assert Spellings().of("calcb", "calcB") == "calcB"
    assert Spellings().of("groupa", "calcB") == "groupa"
