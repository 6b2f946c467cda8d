"""Needs against a model that looks at everybody: who has the labels, who has the resources free by
what the state and the decisions under way say, and whether anything waits that could start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.jobs import JobOptions
from rollq.base.needs import PLACEMENTS, labels_match
from rollq.grid.commands import AckJob, AssignRun, AssignTasks, OpenWorker, ResumeQueue, SubmitArray
from rollq.grid.rule_commands import PutPolicy, RemovePolicy
from rollq.grid.state import ASSIGNED, QUEUED, ArrayRecord, JobRecord
from rollq.policy import backlog, pools
from rollq.policy.needs import need_of
from rollq.policy.pools import Pool
from rollq.subjects.matcher import matches
from tests.effort import examples
from tests.properties.test_dispatch import (
    CLIENTS,
    EXECS,
    NAMES,
    PATTERNS,
    PROGRAMS,
    QUEUES,
    WEIGHTS,
    WORKERS,
    Office,
    name_of_worker,
)
from tests.unit.grid.kit import job_id, submit, worker_id
from tests.unit.policy.kit import in_ones

# What jobs ask for, and what workers have.
LABELS = ((), (), ("zone=a",), ("zone!=a",), ("gpu",), ("!gpu", "zone"))
RESOURCES = ((), (), (("gpu", 1),), (("gpu", 3),), (("cpu", 2), ("gpu", 1)), (("cpu", 3),))
OFFERS = (
    (("gpu", "zone=a"), (("cpu", 3), ("gpu", 4))),
    (("zone=a",), (("cpu", 4), ("gpu", 2))),
    (("zone=b", "gpu"), (("cpu", 2),)),
    ((), ()),
)


class NeedyOffice(Office):
    """An office whose jobs need labels and resources, which its workers have or not."""

    def __init__(self, placement: str) -> None:
        self.offers = dict.fromkeys(WORKERS, 0)  # by worker: which of OFFERS it has
        super().__init__(placement)

    def submit_jobs(self, who: int, where: int, how: int) -> None:
        for _ in range(1 + how % 5):
            self.last += 1
            made = submit(
                f"j{self.last}",
                client=CLIENTS[who % 2],
                queue=QUEUES[where % 2],
                priority=how % 2,
                worker_name=NAMES[where % len(NAMES)],
                labels=LABELS[(who + how) % len(LABELS)],
                resources=RESOURCES[(where + how) % len(RESOURCES)],
                sticky_key=("", "k")[where % 2],
            )
            self.apply(msgspec.structs.replace(made, exec_name=EXECS[who % 4]))

    def submit_array(self, who: int, where: int, how: int) -> None:
        self.last += 1
        needs = JobOptions(
            labels=LABELS[(who + how) % len(LABELS)],
            resources=RESOURCES[(where + how) % len(RESOURCES)],
        )
        array_id, client, queue = job_id(f"a{self.last}"), CLIENTS[who % 2], QUEUES[where % 2]
        made = SubmitArray(array_id, client, queue, EXECS[how % 4], b"", 1 + how % 4, needs)
        self.apply(msgspec.structs.replace(made, running_max=who % 3))

    def open_worker(self, who: int, incarnation: int, what: int) -> None:
        self.settle(0, 0, 0)
        name = WORKERS[who % 3]
        number = 1 + incarnation % 2
        known = self.state.workers.get(worker_id(name))
        if known is None or known.incarnation != number:  # the same process keeps what it has
            self.offers[name] = what % len(OFFERS)
        labels, resources = OFFERS[self.offers[name]]
        opened = OpenWorker(worker_id(name), number, name, PATTERNS[name], 4)
        self.apply(msgspec.structs.replace(opened, labels=labels, resources=resources))
        held = len(self.state.workers[worker_id(name)].held)
        self.programs[name] = PROGRAMS[what % len(PROGRAMS)]
        identity = worker_id(name), number, name
        self.leader.open_worker(*identity, PATTERNS[name], held, programs=self.programs[name])
        self.credit[name] = self.granted[name] = self.given[name] = 0

    def put_policy(self, where: int, what: int, _: int) -> None:
        self.apply(PutPolicy((">", *QUEUES)[where % 3], PLACEMENTS[what % len(PLACEMENTS)]))

    def remove_policy(self, where: int, _: int, __: int) -> None:
        self.apply(RemovePolicy((">", *QUEUES)[where % 3]))

    def decide_all(self, _: int, __: int, ___: int) -> None:
        for _ in range(4):  # needs that are many are served by and by
            for command in in_ones(self.leader.decide(1_000)):
                self.check_decision(command)
                self.under_way.append(command)
        self.nothing_is_left_that_could_start()

    # --- laws

    def check_decision(self, command: AssignRun | AssignTasks) -> None:
        super().check_decision(command)
        item = self.item_of(command)
        assert item is not None
        worker = self.state.workers[command.worker_id]
        assert labels_match(item.options.labels, worker.labels)
        free = self.free(command.worker_id)
        assert all(free[name] >= amount for name, amount in item.options.resources)

    def item_of(self, command: AssignRun | AssignTasks) -> JobRecord | ArrayRecord | None:
        if isinstance(command, AssignRun):
            return self.state.jobs.get(command.job_ids)
        return self.state.array_of(command.array_id)

    def free(self, who: bytes) -> Counter[str]:
        """What a worker has, less what its attempts and the decisions under way hold."""
        worker = self.state.workers[who]
        free = Counter(dict(worker.resources))
        for held in worker.held:
            free.subtract(dict(self.state.jobs[held].options.resources))
        for command in self.under_way:
            item = self.item_of(command)
            if command.worker_id == who and item is not None:
                free.subtract(dict(item.options.resources))
        return free

    def what_is_free_is_what_nobody_holds(self) -> None:
        for who, session in self.leader._sessions.items():
            counted = Counter(session.room.free)
            expected = self.free(who)
            gone = [one for one in self.under_way if self.item_of(one) is None]
            if not gone:  # what is decided and not there any more holds until it is refused
                assert counted == expected

    def candidates_are_those_who_could(self) -> None:
        self.leader._backlog.refresh()
        for pool in self.pools():
            for session in pool.sessions:
                kept = session.reserved_for
                is_kept = kept is not None and bool(pool.resources) and pool.competes_with(kept)
                has_room = session.room.count(pool.resources, 1) == 1
                could = session.credit > 0 and has_room and not is_kept
                assert (session in pool.candidates) == (could and pool.has_queue)
            assert pool.candidates.count == sum(one in pool.candidates for one in pool.sessions)

    def pools(self) -> Iterator[Pool]:
        for session in self.leader._sessions.values():
            yield from session.pools

    def nothing_is_left_that_could_start(self) -> None:
        decided = {one.job_ids for one in self.under_way if isinstance(one, AssignRun)}
        waiting: list[JobRecord | ArrayRecord] = [
            job
            for job in self.state.jobs.values()
            if job.state is QUEUED and job.job_id not in decided
        ]
        waiting += [
            array
            for array in self.state.arrays.values()
            if array.tasks_waiting > self.tasks_under_way(array.array_id) and not array.delayed
        ]
        for item in waiting:
            array = item.array if isinstance(item, JobRecord) else item
            cap = self.state.cap_of(item.client)
            if self.state.queues[item.queue].paused:
                continue
            if cap and item.client.in_flight + self.client_under_way(item.client) >= cap:
                continue
            if array is not None and array.running_max:
                starts = self.starts_under_way(array.array_id)
                if array.running + starts >= array.running_max:
                    continue
            if not self.is_for_later(item):
                assert not [name for name in self.credit if self.could_start(name, item)]

    def is_for_later(self, item: JobRecord | ArrayRecord) -> bool:
        """Whether it waits until others of the many needs of its queue are served."""
        queue = self.leader._backlog.whole_queue_of(item)
        return queue is not None and need_of(item) in queue.deferred

    def could_start(self, name: str, item: JobRecord | ArrayRecord) -> bool:
        session = self.leader._sessions[worker_id(name)]
        worker = self.state.workers[worker_id(name)]
        free = self.free(worker_id(name))
        subject = f"job.assign.{item.queue}"
        is_kept = session.reserved_for is not None and bool(item.options.resources)
        return (
            self.credit[name] > 0
            and item.options.worker_name in ("", name)
            and any(matches(pattern, subject) for pattern in PATTERNS[name])
            and self.can_run(name, item.exec_name, ships=item.options.ships_exec)
            and labels_match(item.options.labels, worker.labels)
            and all(free[what] >= amount for what, amount in item.options.resources)
            and not is_kept
        )

    def everything_ends_that_somebody_could_run(self) -> None:
        """One worker has all that anybody asks for: nothing stays behind for good."""
        self.apply(*(ResumeQueue(queue) for queue in QUEUES))
        self.settle(0, 0, 0)
        known = self.state.workers.get(worker_id("w1"))
        self.open_worker(0, 0 if known is None else known.incarnation, 0)  # another incarnation
        for number, name in enumerate(WORKERS):
            if name not in self.credit:
                self.open_worker(number, 0, 0)
            self.grant(number, 4, 0)
        self.announce(0, 0, 0)
        progress = True
        while progress:
            self.decide_all(0, 0, 0)
            progress = bool(self.under_way)
            self.settle(0, 0, 0)
            for job in [job for job in self.state.jobs.values() if job.state is ASSIGNED]:
                progress = True
                self.apply(AckJob(job.job_id, job.attempt, job.fence, 0))
                self.grant(WORKERS.index(name_of_worker(job.worker_id)), 1, 0)
        assert all(session.reserved_for is None for session in self.leader._sessions.values())


VERBS = [verb.__name__ for verb, weight in WEIGHTS.items() for _ in range(weight)]
VERBS += ["put_policy", "remove_policy"] + 5 * ["decide_all"]
NUMBERS = st.integers(0, 63)
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), NUMBERS, NUMBERS, NUMBERS), min_size=60, max_size=120
)


@settings(max_examples=examples(60))
@given(st.sampled_from(PLACEMENTS), STEPS, st.sampled_from([64, 3]))
def test_needs_are_kept_and_nobody_waits_for_nothing(
    placement: str, steps: list[tuple[str, int, int, int]], served_max: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backlog, "NEEDS_SERVED_MAX", served_max)
        patch.setattr(pools, "OVERTAKING_MAX", 2)
        office = NeedyOffice(placement)
        for verb, first, second, third in steps:
            step: Callable[[int, int, int], None] = getattr(office, verb)
            step(first, second, third)
            office.credit_is_what_was_granted_and_not_given()
            office.what_is_free_is_what_nobody_holds()
            office.candidates_are_those_who_could()
        office.everything_ends_that_somebody_could_run()
