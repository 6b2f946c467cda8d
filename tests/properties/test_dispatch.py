"""Dispatch against a model that counts everything from the table of jobs.

Random histories of submits, decisions applied late or refused, acks, losses, caps, pauses, changes
of leader; after every step the laws hold, and when all obstacles are gone everything runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.ids import task_id
from rollq.base.needs import PLACEMENTS
from rollq.grid.commands import (
    AckJob,
    AssignRun,
    AssignTasks,
    CancelJobs,
    CloseWorker,
    Command,
    NackJob,
    OpenClient,
    OpenWorker,
    PauseQueue,
    ResumeQueue,
    SetSettings,
    Settings,
    SubmitArray,
)
from rollq.grid.effects import RunDone
from rollq.grid.state import ASSIGNED, QUEUED, ClientRecord, GridState
from rollq.policy.dispatch import Dispatcher
from rollq.policy.needs import ANYTHING, ProgramSet
from rollq.subjects.matcher import matches
from tests.effort import examples
from tests.unit.grid.kit import Grid, job_id, submit, worker_id
from tests.unit.policy.kit import EVERYTHING, Desk, in_ones

CLIENTS = ("ann", "bob")
QUEUES = ("a", "b.x")
PATTERNS = {
    "w1": ("job.assign.>",),
    "w2": ("job.assign.a", "job.assign.w2"),
    "w3": ("job.assign.b.>", "job.assign.*"),
}
WORKERS = tuple(PATTERNS)
NAMES = ("", "", "", "", "", "w1", "w2", "nobody")  # which worker a job asks for
EXECS = ("exe", "exe", "rare", "odd")
# What a worker says that it can run; None: nothing is said, so anything.
PROGRAMS = (
    ANYTHING,
    ProgramSet(frozenset({"exe"})),
    ProgramSet(frozenset({"exe", "rare"})),
    ProgramSet(frozenset({"odd"}), ships=True),
    ProgramSet(frozenset()),
)


class Office:
    """One leader, a follower beside it, and decisions that are applied when a step says so.

    A step is the name of a method and three numbers, of which it makes what it needs.
    """

    def __init__(self, placement: str) -> None:
        self.grid = Grid(workers=())
        self.leader = Dispatcher(self.grid.state, placement)
        self.follower = Dispatcher(self.grid.state, placement)
        self.under_way: list[AssignRun | AssignTasks] = []
        self.credit: dict[str, int] = {}  # of workers with a session
        self.granted: Counter[str] = Counter()  # in the present session
        self.given: Counter[str] = Counter()
        self.programs: dict[str, ProgramSet] = {}  # of workers, as they said last
        self.last = 0
        for number in range(len(WORKERS)):
            self.open_worker(number, 0, 0)
            self.grant(number, 2, 0)
        self.open_client(0, 2, 0)

    @property
    def state(self) -> GridState:
        return self.grid.state

    def apply(self, *commands: Command) -> None:
        applied = self.grid.apply(*commands)
        self.leader.observe(applied.events)
        self.follower.observe(applied.events)
        for command, outcome in zip(commands, applied.outcomes, strict=True):
            if isinstance(command, AssignRun | AssignTasks) and outcome != RunDone(1):
                name = name_of_worker(command.worker_id)
                if name in self.credit:
                    self.credit[name] += 1
                    self.given[name] -= 1
                self.leader.refused(command, (0,))

    # --- what clients and operators do

    def submit_jobs(self, who: int, where: int, how: int) -> None:
        for _ in range(1 + how % 5):
            self.last += 1
            made = submit(
                f"j{self.last}",
                client=CLIENTS[who % 2],
                queue=QUEUES[where % 2],
                priority=how % 2,
                worker_name=NAMES[where % len(NAMES)],
                ships_exec=how % 7 == 0,
            )
            self.apply(msgspec.structs.replace(made, exec_name=EXECS[who % 4]))

    def submit_array(self, who: int, where: int, how: int) -> None:
        self.last += 1
        array_id = job_id(f"a{self.last}")
        self.apply(
            SubmitArray(
                array_id,
                CLIENTS[who % 2],
                QUEUES[where % 2],
                EXECS[how % 4],
                b"",
                1 + how % 4,
                None,
                who % 3,
            )
        )

    def open_client(self, who: int, cap: int, _: int) -> None:
        self.apply(OpenClient(CLIENTS[who % 2], cap % 4))

    def set_cap(self, cap: int, _: int, __: int) -> None:
        self.apply(SetSettings(Settings(client_cap=cap % 3)))

    def pause(self, where: int, _: int, __: int) -> None:
        self.apply(PauseQueue(QUEUES[where % 2]))

    def resume(self, where: int, _: int, __: int) -> None:
        self.apply(ResumeQueue(QUEUES[where % 2]))

    def cancel(self, which: int, _: int, __: int) -> None:
        ids = [*self.state.jobs, *(array.array_id for array in self.state.arrays.values())]
        if ids:
            self.apply(CancelJobs((ids[which % len(ids)],)))

    # --- what workers do

    def open_worker(self, who: int, incarnation: int, what: int) -> None:
        self.settle(0, 0, 0)  # as in a log: what was decided before comes before
        name = WORKERS[who % 3]
        number = 1 + incarnation % 2
        self.apply(OpenWorker(worker_id(name), number, name, PATTERNS[name], 4))
        held = len(self.state.workers[worker_id(name)].held)
        self.programs[name] = PROGRAMS[what % len(PROGRAMS)]
        identity = worker_id(name), number, name
        self.leader.open_worker(*identity, PATTERNS[name], held, programs=self.programs[name])
        self.credit[name] = self.granted[name] = self.given[name] = 0

    def announce(self, who: int, what: int, _: int) -> None:
        """ProgramSet came to a worker, or went."""
        name = WORKERS[who % 3]
        self.programs[name] = PROGRAMS[what % len(PROGRAMS)]
        self.leader.announce(worker_id(name), self.programs[name])

    def disconnect(self, who: int, _: int, __: int) -> None:
        self.credit.pop(WORKERS[who % 3], None)
        self.leader.close_worker(worker_id(WORKERS[who % 3]))

    def close_worker(self, who: int, _: int, __: int) -> None:
        """The group gives a worker up, whether or not its session knows."""
        self.credit.pop(WORKERS[who % 3], None)
        worker = self.state.workers.get(worker_id(WORKERS[who % 3]))
        if worker is not None:
            self.apply(CloseWorker(worker.worker_id, worker.incarnation))

    def grant(self, who: int, count: int, _: int) -> None:
        name = WORKERS[who % 3]
        if name in self.credit:
            self.leader.grant(worker_id(name), count % 5)
            self.credit[name] += count % 5
            self.granted[name] += count % 5

    def end_attempts(self, which: int, count: int, how: int) -> None:
        """Attempts end, and their workers have room again."""
        for _ in range(1 + count % 4):
            running = [job for job in self.state.jobs.values() if job.state is ASSIGNED]
            if not running:
                return
            job = running[which % len(running)]
            name = name_of_worker(job.worker_id)
            if how % 3:
                self.apply(AckJob(job.job_id, job.attempt, job.fence, 0))
            else:
                self.apply(NackJob(job.job_id, job.attempt, job.fence))
            self.grant(WORKERS.index(name), 1, 0)

    # --- what the leader does

    def decide(self, count_max: int, _: int, __: int) -> None:
        decided = in_ones(self.leader.decide(count_max % 8))
        assert len(decided) <= count_max % 8
        for command in decided:
            self.check_decision(command)
            self.under_way.append(command)

    def settle(self, _: int, __: int, ___: int) -> None:
        commands, self.under_way = self.under_way, []
        if commands:
            self.apply(*commands)

    def change_leader(self, swap: int, lost: int, _: int) -> None:
        """Nobody has a session; what is under way is lost, or applied after the change."""
        self.leader.step_down()
        self.credit.clear()
        if swap % 2:
            self.leader, self.follower = self.follower, self.leader
        if lost % 2:
            self.under_way.clear()
        self.settle(0, 0, 0)
        for number in range(len(WORKERS)):
            self.open_worker(number, 0, 0)
            self.grant(number, 2, 0)

    # --- laws

    def check_decision(self, command: AssignRun | AssignTasks) -> None:
        """Somebody who may, for something that waits, within all limits."""
        name = name_of_worker(command.worker_id)
        self.credit[name] -= 1
        self.given[name] += 1
        assert self.credit[name] >= 0
        worker = self.state.workers[command.worker_id]
        assert worker.incarnation == command.incarnation
        if isinstance(command, AssignRun):
            job = self.state.jobs[command.job_ids]
            assert job.state is QUEUED
            assert command.attempt == job.attempt + 1
            assert command not in self.under_way
            assert job.options.worker_name in ("", name)
            queue, client = job.queue, job.client
            assert self.can_run(name, job.exec_name, ships=job.options.ships_exec)
        else:
            array = self.state.array_of(command.array_id)
            assert array is not None
            assert array.tasks_waiting > self.tasks_under_way(command.array_id)
            queue, client = array.queue, array.client
            assert self.can_run(name, array.exec_name, ships=False)
            if array.running_max:
                assert array.running + self.starts_under_way(array.array_id) < array.running_max
        assert not self.state.queues[queue].paused
        assert any(matches(pattern, f"job.assign.{queue}") for pattern in worker.patterns)
        cap = self.state.cap_of(client)
        assert not cap or client.in_flight + self.client_under_way(client) < cap

    def can_run(self, name: str, exec_name: str, *, ships: bool) -> bool:
        names, allows = self.programs[name]
        return names is None or exec_name in names or (ships and allows)

    def client_under_way(self, client: ClientRecord) -> int:
        owners = [
            self.state.jobs[command.job_ids].client
            if isinstance(command, AssignRun)
            else self.owner(command.array_id)
            for command in self.under_way
        ]
        return sum(owner is client for owner in owners)

    def owner(self, array_id: bytes) -> ClientRecord | None:
        array = self.state.array_of(array_id)
        return array.client if array is not None else None

    def tasks_under_way(self, array_id: bytes) -> int:
        return sum(
            isinstance(command, AssignTasks) and command.array_id == array_id
            for command in self.under_way
        )

    def starts_under_way(self, array_id: bytes) -> int:
        tasks = {task_id(array_id, number) for number in range(4)}
        return self.tasks_under_way(array_id) + sum(
            isinstance(command, AssignRun) and command.job_ids in tasks
            for command in self.under_way
        )

    def credit_is_what_was_granted_and_not_given(self) -> None:
        for name, credit in self.credit.items():
            assert self.leader.credit(worker_id(name)) == credit
            assert credit == self.granted[name] - self.given[name] >= 0

    def everything_ends_within_its_limits(self) -> None:
        """With workers and without pauses, caps and limits delay jobs but never strand them."""
        self.apply(*(ResumeQueue(queue) for queue in QUEUES))
        for number, name in enumerate(WORKERS):
            if name not in self.credit:
                self.open_worker(number, 0, 0)
            self.grant(number, 4, 0)
        self.announce(0, 0, 0)  # one who can run everything, for all queues, is enough
        progress = True
        while progress:
            self.settle(0, 0, 0)
            self.decide(7, 0, 0)
            progress = bool(self.under_way)
            self.settle(0, 0, 0)
            for job in [job for job in self.state.jobs.values() if job.state is ASSIGNED]:
                progress = True
                self.apply(AckJob(job.job_id, job.attempt, job.fence, 0))
                self.grant(WORKERS.index(name_of_worker(job.worker_id)), 1, 0)
        for job in self.state.jobs.values():
            nobody_may = job.options.worker_name == "nobody"
            not_served = job.options.worker_name == "w2" and job.queue != "a"
            not_there = job.options.worker_name == "w2" and not self.can_run(
                "w2", job.exec_name, ships=job.options.ships_exec
            )
            assert job.state is not QUEUED or nobody_may or not_served or not_there
        assert not any(array.tasks_waiting for array in self.state.arrays.values())

    def everything_runs_at_once_without_limits(self) -> None:
        """Take away every obstacle: all that waits must run, on the leader and on the follower."""
        self.leader.step_down()
        self.credit.clear()
        self.under_way.clear()
        self.apply(SetSettings(Settings(client_cap=0)))
        self.apply(*(OpenClient(client, 0) for client in ("ann", "bob")))
        self.apply(*(ResumeQueue(queue) for queue in ("a", "b.x")))
        waiting = {job.job_id for job in self.state.jobs.values() if job.state is QUEUED}
        tasks = {array.array_id: array.tasks_waiting for array in self.state.arrays.values()}
        for member in (self.follower, self.leader):
            for name in ("w1", "w2", "nobody"):
                member.open_worker(worker_id(name), 1, name, EVERYTHING)
                member.grant(worker_id(name), 1_000)
            decided = in_ones(member.decide(10_000))
            jobs = [command.job_ids for command in decided if isinstance(command, AssignRun)]
            assert len(jobs) == len(set(jobs))
            counts = Counter(
                command.array_id for command in decided if isinstance(command, AssignTasks)
            )
            limited = {
                array.array_id: array for array in self.state.arrays.values() if array.running_max
            }
            for array_id, array in limited.items():
                assert array.running + counts[array_id] <= max(array.running_max, array.running)
            assert waiting - set(jobs) <= {
                job.job_id for job in self.state.jobs.values() if job.array is not None
            }
            for array_id, count in tasks.items():
                if array_id not in limited:
                    assert counts[array_id] == count
            member.step_down()


def name_of_worker(identity: bytes) -> str:
    return identity.lstrip(bytes(1)).decode()


WEIGHTS = {
    Office.submit_jobs: 6,
    Office.submit_array: 4,
    Office.open_client: 2,
    Office.set_cap: 1,
    Office.pause: 1,
    Office.resume: 2,
    Office.cancel: 2,
    Office.open_worker: 1,
    Office.announce: 3,
    Office.disconnect: 1,
    Office.close_worker: 1,
    Office.grant: 4,
    Office.end_attempts: 6,
    Office.decide: 10,
    Office.settle: 4,
    Office.change_leader: 1,
}
VERBS = [verb for verb, weight in WEIGHTS.items() for _ in range(weight)]
NUMBERS = st.integers(0, 63)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), NUMBERS, NUMBERS, NUMBERS), min_size=60, max_size=120
)


@settings(max_examples=examples(60))
@given(
    st.sampled_from(sorted(PLACEMENTS)),
    STEPS,
    st.sampled_from(
        [Office.everything_ends_within_its_limits, Office.everything_runs_at_once_without_limits]
    ),
)
def test_dispatch_keeps_its_laws(
    placement: str,
    steps: list[tuple[Callable[[Office, int, int, int], None], int, int, int]],
    ending: Callable[[Office], None],
) -> None:
    office = Office(placement)
    for verb, first, second, third in steps:
        verb(office, first, second, third)
        office.credit_is_what_was_granted_and_not_given()
    ending(office)


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 12), min_size=1, max_size=8))
def test_nobody_waits_more_than_one_round_of_turns(backlogs: list[int]) -> None:
    """With k clients in a queue, each is served once in every k decisions while it waits."""
    desk = Desk()
    left = {}
    for number, backlog in enumerate(backlogs):
        client = f"c{number}"
        left[client] = backlog
        desk.submit(*(f"{client}-{job}" for job in range(backlog)), client=client)
    desk.worker("w", 1_000)
    order = [name.split("-")[0] for name in desk.run()]
    assert Counter(order) == left
    while order:
        waiting = [client for client, count in left.items() if count]
        turn, order = order[: len(waiting)], order[len(waiting) :]
        assert sorted(turn) == waiting
        for client in turn:
            left[client] -= 1


@settings(max_examples=examples(30))
@given(st.lists(st.integers(1, 6), min_size=1, max_size=8))
def test_every_queue_is_served_in_turn(backlogs: list[int]) -> None:
    desk = Desk()
    for number, backlog in enumerate(backlogs):
        desk.submit(*(f"q{number}-{job}" for job in range(backlog)), queue=f"q{number}")
    desk.worker("w", 1_000)
    first_round = [name.split("-")[0] for name in desk.run(len(backlogs))]
    assert sorted(first_round) == [f"q{number}" for number in range(len(backlogs))]
