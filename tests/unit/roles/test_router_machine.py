"""What a router makes of the words of one client and of its groups."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, BulkItem
from rollq.base.limits import MULTI_GRACE_MS
from rollq.base.router_limits import MULTI_AWAY_MS
from rollq.base.staged import ids_of
from rollq.roles.router.owners import GivenResults, JobOwners
from rollq.wire import messages as wire
from rollq.wire.run_messages import RefusedJob, ResultRun, RunAccepted, SubmitRun
from tests.unit.roles.router_kit import J, K, Kit, L, R, done, job, run, submit


def test_jobs_go_to_groups_in_turn_and_answers_and_results_come_back() -> None:
    kit = Kit()
    assert kit.says(submit(J), submit(K)) == []
    assert kit.sent(0) == [submit(J)]
    assert kit.sent(1) == [submit(K)]
    assert kit.group(0, wire.Accepted(J)) == [wire.Accepted(J)]
    assert kit.group(0, done(J)) == [done(J)]
    assert kit.owners.find(J) == 0
    assert kit.says(wire.Confirm((J,))) == []
    assert kit.sent(0) == [wire.Confirm((J,))]
    assert kit.sent(1) == []
    refusal = wire.Error(K, int(ErrorCode.BAD_OPTIONS), "no")
    assert kit.group(1, refusal) == [refusal]
    assert not kit.machine.is_busy
    assert kit.machine.unanswered_bytes == kit.kept.size_bytes == 0


def test_a_run_is_shared_out_and_its_answers_are_one() -> None:
    kit = Kit()
    kit.says(run(1, 4))
    (one,), (other,) = kit.sent(0), kit.sent(1)
    assert list(ids_of(one.job_ids)) == [job(1), job(2)]
    assert other.bodies == (b"3", b"4")
    assert (
        kit.group(1, RunAccepted(other.request_id, 1, refused=(RefusedJob(1, 207, "full"),))) == []
    )
    assert kit.group(0, RunAccepted(one.request_id, 2, known=(1,), ended=(1,))) == [
        RunAccepted(R, 3, known=(1,), ended=(1,), refused=(RefusedJob(3, 207, "full"),))
    ]
    results = ResultRun(job(1) + job(2), (b"a", b"b"), "done")
    assert kit.group(0, results) == [results]
    kit.says(wire.Confirm((job(1), job(2))))
    assert kit.sent(0) == [wire.Confirm((job(1), job(2)))]


def test_a_run_that_is_refused_everywhere_for_the_same_reason_is_refused_as_one() -> None:
    kit = Kit()
    kit.says(run(1, 4))
    (one,), (other,) = kit.sent(0), kit.sent(1)
    assert kit.group(0, wire.Error(one.request_id, 111, "no")) == []
    assert kit.group(1, wire.Error(other.request_id, 111, "no")) == [wire.Error(R, 111, "no")]
    assert not kit.machine.is_busy


def test_what_was_not_answered_is_sent_again_to_a_new_leader_of_the_group() -> None:
    kit = Kit(1)
    kit.says(submit(J), run(2, 2))
    _, sent = kit.sent(0)
    kit.group(0, wire.Accepted(J))
    kit.machine.group_down(0, 0)
    kit.machine.group_up(0)
    (again,) = kit.sent(0)
    assert (again.job_ids, again.bodies) == (sent.job_ids, sent.bodies)
    assert kit.group(0, RunAccepted(sent.request_id, 2)) == []  # of the session that broke
    assert kit.group(0, RunAccepted(again.request_id, 2)) == [RunAccepted(R, 2)]


def test_a_result_says_that_a_job_was_accepted_so_it_is_not_sent_again() -> None:
    kit = Kit(1)
    kit.says(submit(J), run(2, 2))
    kit.sent(0)
    kit.machine.group_down(0, 0)
    kit.machine.group_up(0)
    kit.sent(0)
    assert kit.group(0, done(J)) == [wire.Accepted(J, known=True), done(J)]
    assert kit.group(0, done(K)) == [done(K)]
    kit.machine.group_down(0, 10)
    kit.machine.group_up(0)
    (rest,) = kit.sent(0)
    assert rest.job_ids == L
    assert kit.group(0, RunAccepted(rest.request_id, 1)) == [RunAccepted(R, 2, known=(0,))]


def test_what_a_lost_group_did_not_answer_goes_to_another_and_then_what_it_accepted() -> None:
    kit = Kit()
    kit.says(submit(J), submit(K), submit(L))
    kit.group(0, wire.Accepted(J))
    kit.sent(0), kit.sent(1)
    kit.machine.group_down(0, 0)
    kit.machine.tick(MULTI_AWAY_MS)
    assert kit.sent(1) == [submit(L)]
    assert kit.group(1, wire.Accepted(L)) == [wire.Accepted(L)]
    kit.machine.tick(MULTI_GRACE_MS)
    assert kit.sent(1) == [submit(J)]
    assert kit.group(1, wire.Accepted(J)) == []  # the client was told long ago
    kit.machine.group_up(0)
    (cancel,) = kit.sent(0)
    assert cancel.job_ids == (L, J)
    # The first result counts; the other one is confirmed here.
    assert kit.group(1, done(J)) == [done(J)]
    assert kit.group(0, done(J), wire.Result(L, "cancelled")) == []
    assert kit.sent(0) == [wire.Confirm((J,)), wire.Confirm((L,))]


def test_a_moved_job_that_nobody_takes_is_dead_and_one_without_room_is_tried_again() -> None:
    kit = Kit()
    kit.says(submit(J))
    kit.group(0, wire.Accepted(J))
    kit.machine.group_down(0, 0)
    kit.machine.tick(MULTI_GRACE_MS)
    kit.sent(1)
    assert kit.group(1, wire.Error(J, int(ErrorCode.GRID_FULL), "full", retryable=True)) == []
    kit.machine.tick(MULTI_GRACE_MS + 1)
    assert kit.sent(1) == [submit(J)]
    (dead,) = kit.group(1, wire.Error(J, int(ErrorCode.BAD_OPTIONS), "no"))
    assert (dead.job_id, dead.outcome, dead.detail) == (J, "dead", "no")
    assert kit.kept.size_bytes == 0


def test_jobs_with_files_and_those_that_there_is_no_room_for_wait_for_their_group() -> None:
    kit = Kit()
    kit.kept.bytes_max = 5
    with_file = wire.SubmitJob(J, "ann", "calc", "calc", b"{}", blobs=(BlobRef(b"x" * 32, 1),))
    kit.says(with_file, submit(K), submit(L, body=b"large body"))
    kit.group(0, wire.Accepted(J), wire.Accepted(L))
    kit.sent(0), kit.sent(1)
    kit.machine.group_down(0, 0)
    kit.machine.tick(2 * MULTI_GRACE_MS)
    assert kit.sent(1) == []
    kit.machine.group_up(0)
    assert kit.sent(0) == []
    assert kit.group(0, done(J), done(L)) == [done(J), done(L)]


def test_bulks_and_arrays_stay_together() -> None:
    kit = Kit()
    items = tuple(BulkItem(job(n), b"{}") for n in range(1, 4))
    bulk = wire.SubmitBulk(R, "ann", "calc", "calc", items)
    array = wire.SubmitArray(b"a" * 12 + bytes(4), "ann", "calc", "calc", b"{}", 3)
    kit.says(bulk, array)
    assert kit.sent(0) == [bulk]
    assert kit.sent(1) == [array]
    assert kit.group(0, wire.Accepted(R, 3)) == [wire.Accepted(R, 3)]
    assert kit.group(0, done(J), done(K)) == [done(J), done(K)]
    kit.machine.group_down(0, 0)
    kit.machine.tick(MULTI_GRACE_MS)
    assert kit.sent(1) == [bulk]
    kit.machine.group_up(0)
    (cancel,) = kit.sent(0)
    assert cancel.job_ids == (J, K, L)
    kit.group(1, wire.Accepted(R, 3), done(L), wire.Accepted(array.array_id, 3))
    task = b"a" * 12 + (1).to_bytes(4, "big")
    assert kit.owners.find(task) == 1
    whole = wire.Result(array.array_id, "cancelled", count=3)
    assert kit.group(1, whole) == [whole]
    assert not kit.machine.is_busy


def test_an_id_that_is_under_way_is_not_submitted_twice() -> None:
    kit = Kit(1)
    kit.says(submit(J))
    assert kit.says(submit(J)) == []
    assert kit.sent(0) == [submit(J)]
    assert kit.says(run(1, 2)) == []
    (rest,) = kit.sent(0)
    assert rest.job_ids == K
    (answer,) = kit.group(0, RunAccepted(rest.request_id, 1))
    assert [one.position for one in answer.refused] == [0]
    assert answer.refused[0].retryable
    kit.group(0, wire.Accepted(J))
    assert kit.says(submit(J)) == [wire.Accepted(J, known=True)]
    assert kit.machine.unanswered_bytes == 0


def test_an_id_that_a_run_names_twice_is_one_job_and_the_run_is_answered() -> None:
    kit = Kit(1)
    ids = job(1) + job(2) + job(1)
    kit.says(SubmitRun(R, "ann", "calc", "calc", ids, (b"1", b"2", b"1")))
    (sent,) = kit.sent(0)
    assert sent.job_ids == job(1) + job(2)
    told = kit.group(0, RunAccepted(sent.request_id, 2))
    assert told == [RunAccepted(R, 3, known=(2,))]
    assert kit.machine.unanswered_bytes == 0
    kit.group(0, done(job(1)), done(job(2)))
    assert (kit.machine.is_busy, kit.kept.size_bytes) == (False, 0)


def test_an_id_that_a_bulk_names_twice_has_one_result() -> None:
    kit = Kit(1)
    items = tuple(BulkItem(job(1), b"x") for _ in range(2))
    kit.says(wire.SubmitBulk(R, "ann", "calc", "calc", items))
    kit.group(0, wire.Accepted(R, 1), done(job(1)))
    assert (kit.machine.is_busy, kit.kept.size_bytes) == (False, 0)


def test_a_legacy_client_gets_results_alone_and_its_jobs_are_sent_again() -> None:
    kit = Kit(1, is_legacy=True)
    assert kit.says(submit(J), submit(K)) == []
    kit.sent(0)
    assert kit.group(0, done(J)) == [done(J)]
    kit.machine.group_down(0, 0)
    kit.machine.group_up(0)
    assert kit.sent(0) == [submit(K)]
    assert kit.machine.unanswered_bytes == 0


def test_a_group_that_is_removed_loses_its_jobs_and_its_session() -> None:
    kit = Kit()
    kit.says(submit(J))
    kit.sent(0)
    kit.table.remove(0)
    kit.machine.group_removed(0)
    assert kit.sent(1) == [submit(J)]
    (cancel,) = kit.sent(0)
    assert cancel.job_ids == (J,)
    assert kit.machine.left == [0]
    assert kit.group(0, wire.Accepted(J), done(J)) == []  # it is not one of ours


def test_memories_are_bounded() -> None:
    owners, given_results = JobOwners(2), GivenResults(2)
    owners.add((J, K, L), 5)
    assert [owners.find(one) for one in (J, K, L)] == [None, 5, 5]
    given_results.add((J, K, L), 5)
    assert given_results.confirmed((J, K, L)) == ({5: [K, L]}, [J])


# --- whatever happens

GROUPS = 3
steps = st.lists(
    st.one_of(
        st.tuples(st.just("job"), st.integers(0, 19)),
        st.tuples(st.just("run"), st.integers(0, 15)),
        st.tuples(st.just("flip"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("answer"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("end"), st.integers(0, GROUPS - 1)),
        st.tuples(st.just("wait"), st.integers(1, 3)),
    ),
    max_size=50,
)


class World:
    """Groups that accept, run and end jobs as they are told, and a client that counts."""

    def __init__(self) -> None:
        self.kit = Kit(GROUPS, up=False)
        self.is_up = [False] * GROUPS
        self.now_ms = 0
        self.inbox: list[list[Any]] = [[] for _ in range(GROUPS)]
        self.open: list[dict[bytes, None]] = [{} for _ in range(GROUPS)]
        self.owed: list[dict[bytes, str]] = [{} for _ in range(GROUPS)]
        self.submitted: dict[bytes, None] = {}
        self.accepted: dict[bytes, None] = {}
        self.ended: dict[bytes, None] = {}
        self.runs: dict[bytes, list[bytes]] = {}

    def step(self, word: str, number: int) -> None:
        if word == "job":
            self._submit([job(number + 1)], is_run=False)
        elif word == "run":
            self._submit([job(number + n) for n in range(1, 6)], is_run=True)
        elif word == "flip":
            self.is_up[number] = not self.is_up[number]
            self.inbox[number].clear()  # what was on its way is lost
            if self.is_up[number]:
                self.kit.machine.group_up(number)
            else:
                self.kit.machine.group_down(number, self.now_ms)
        elif word == "answer" and self.is_up[number]:
            self._answer(number)
        elif word == "end" and self.is_up[number]:
            for job_id in self.open[number]:
                self.owed[number][job_id] = "done"
            self.open[number].clear()
            self._send_owed(number)
        elif word == "wait":
            self.now_ms += number * MULTI_GRACE_MS // 2
            self.kit.machine.tick(self.now_ms)
        self._deliver()

    def _submit(self, job_ids: list[bytes], *, is_run: bool) -> None:
        fresh = [one for one in job_ids if one not in self.submitted]
        if not fresh:
            return
        self.submitted.update(dict.fromkeys(fresh))
        if not is_run:
            self.kit.machine.on_client_messages([submit(fresh[0])])
            return
        request_id = b"q" + fresh[0][1:]
        self.runs[request_id] = fresh
        bodies = (b"{}",) * len(fresh)
        message = SubmitRun(request_id, "ann", "calc", "calc", b"".join(fresh), bodies)
        self.kit.machine.on_client_messages([message])

    def _answer(self, number: int) -> None:
        answers: list[Any] = []
        for message in self.inbox[number]:
            if isinstance(message, wire.SubmitJob):
                self._take(number, message.job_id)
                answers.append(wire.Accepted(message.job_id))
            elif isinstance(message, SubmitRun):
                for job_id in ids_of(message.job_ids):
                    self._take(number, job_id)
                answers.append(RunAccepted(message.request_id, len(message.bodies)))
            elif isinstance(message, wire.Cancel):
                for job_id in message.job_ids:
                    if self.open[number].pop(job_id, False) is None:
                        self.owed[number][job_id] = "cancelled"
            elif isinstance(message, wire.Confirm):
                for job_id in message.job_ids:
                    self.owed[number].pop(job_id, None)
        self.inbox[number].clear()
        self.kit.machine.on_group_messages(number, answers)

    def _take(self, number: int, job_id: bytes) -> None:
        if job_id not in self.owed[number]:
            self.open[number][job_id] = None

    def _send_owed(self, number: int) -> None:
        results = [wire.Result(one, outcome) for one, outcome in self.owed[number].items()]
        self.kit.machine.on_group_messages(number, results)

    def _deliver(self) -> None:
        while self.kit.machine.to_client or self.kit.machine.to_groups:
            for message in self.kit.told():
                if isinstance(message, wire.Accepted):
                    assert message.request_id not in self.accepted, "accepted twice"
                    self.accepted[message.request_id] = None
                elif isinstance(message, RunAccepted):
                    ids = self.runs.pop(message.request_id)
                    assert message.count == len(ids)
                    self.accepted.update(dict.fromkeys(ids))
                elif isinstance(message, wire.Result):
                    assert message.outcome == "done", "nobody cancelled it"
                    self.ended[message.job_id] = None
                    self.kit.machine.on_client_messages([wire.Confirm((message.job_id,))])
            for number in range(GROUPS):
                sent = self.kit.sent(number)
                if self.is_up[number]:
                    self.inbox[number] += sent


@given(steps)
def test_every_job_is_accepted_and_ends_and_nothing_is_left(script: list[tuple[str, int]]) -> None:
    world = World()
    for word, number in script:
        world.step(word, number)
    for number in range(GROUPS):
        if not world.is_up[number]:
            world.step("flip", number)
    for _ in range(3):
        for number in range(GROUPS):
            world.step("answer", number)
            world.step("end", number)
    assert world.accepted == {**world.accepted, **world.submitted}
    assert world.ended == {**world.ended, **world.submitted}
    machine = world.kit.machine
    assert not machine.is_busy
    assert machine.unanswered_bytes == world.kit.kept.size_bytes == 0
    assert sum(world.kit.table.load.values()) == 0
