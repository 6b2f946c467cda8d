"""Arrays against a plain model: a list with one word a task."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from rollq.base.ids import task_id
from rollq.base.jobs import JobOptions, Status
from rollq.grid import commands as c
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Applied, Refused
from rollq.grid.invariants import check
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.grid.views import job_view
from tests.effort import examples

ARRAY = b"an array's id..\xfe"  # the numbers of its tasks wrap round
WORKER = b"w" * 16
MAX_ATTEMPTS = 2
ENDS = ("done", "dead", "cancelled")
NUMBERS = st.integers(0, 9)


class ArrayMachine(RuleBasedStateMachine):
    """One array, run by one worker."""

    def __init__(self) -> None:
        super().__init__()
        self.state = GridState()
        self.tasks: list[str] = []
        self.running_max = 0
        self.next_number = 0
        self.starts: dict[int, int] = {}
        self.asked: set[int] = set()
        self.records: set[int] = set()

    def apply(self, command: c.Command) -> Applied:
        if self.state.applied_index % 3 == 0:
            self.state = decode_snapshot(encode_snapshot(self.state))
        was_ended = self.is_ended()
        applied = apply_entry(self.state, self.state.applied_index + 1, encode_batch(1, [command]))
        self.ends_told = [event.kind for event in applied.events].count("array_end")
        self.was_ended = was_ended
        return applied

    def is_ended(self) -> bool:
        return bool(self.tasks) and all(word in ENDS for word in self.tasks)

    def settle(self) -> None:
        """The end of an array is told when it becomes true, and only then."""
        assert self.ends_told == (self.is_ended() and not self.was_ended)

    @initialize(count=st.integers(1, 10), running_max=st.integers(0, 3))
    def submit(self, count: int, running_max: int) -> None:
        options = JobOptions(max_attempts=MAX_ATTEMPTS)
        self.apply(c.OpenWorker(WORKER, 1, "w", (">",), 4))
        self.apply(c.SubmitArray(ARRAY, "ann", "q", "exe", b"b", count, options, running_max))
        self.running_max = running_max
        self.tasks = ["queued"] * count

    def pick(self, number: int, *words: str) -> int:
        """Mostly a record in one of these states, at times any number."""
        fitting = [one for one in sorted(self.records) if self.tasks[one] in words]
        return fitting[number % len(fitting)] if fitting and number != 9 else number

    def is_full(self) -> bool:
        return bool(self.running_max) and self.tasks.count("assigned") >= self.running_max

    @rule()
    def assign_next(self) -> None:
        number = self.next_number
        may = (
            number < len(self.tasks)
            and self.tasks[number] == "queued"
            and not self.is_full()
            and ARRAY[:12] in self.state.arrays
        )
        applied = self.apply(c.AssignTask(ARRAY, WORKER, 1, 50))
        assert isinstance(applied.outcomes[0], Refused) != may
        if may:
            self.tasks[number] = "assigned"
            self.starts[number] = 1
            self.records.add(number)
            self.next_number += 1
        self.settle()

    @rule(number=NUMBERS)
    def assign_again(self, number: int) -> None:
        number = self.pick(number, "queued")
        record = self.state.jobs.get(task_id(ARRAY, number))
        attempt = 1 if record is None else record.attempt + 1
        applied = self.apply(c.AssignJob(task_id(ARRAY, number), WORKER, 1, attempt, 50))
        may = number in self.records and self.tasks[number] == "queued" and not self.is_full()
        assert isinstance(applied.outcomes[0], Refused) != may
        if may:
            self.tasks[number] = "assigned"
            self.starts[number] += 1
        self.settle()

    @rule(number=NUMBERS, good=st.booleans())
    def end(self, number: int, good: bool) -> None:
        number = self.pick(number, "assigned")
        record = self.state.jobs.get(task_id(ARRAY, number))
        if record is None or self.tasks[number] != "assigned":
            return
        if good:
            self.apply(c.AckJob(record.job_id, record.attempt, record.fence, Status.OK))
            self.tasks[number] = "done"
        else:
            self.apply(c.NackJob(record.job_id, record.attempt, record.fence))
            if number in self.asked:
                self.tasks[number] = "cancelled"
            else:
                self.tasks[number] = "dead" if self.starts[number] >= MAX_ATTEMPTS else "queued"
        self.asked.discard(number)
        self.settle()

    @rule(number=st.sampled_from([-1, *range(10)]))
    def cancel(self, number: int) -> None:
        numbers = range(len(self.tasks)) if number <= 0 else [number]
        self.apply(c.CancelJobs((task_id(ARRAY, max(number, 0)),)))
        exists = ARRAY[:12] in self.state.arrays
        for one in numbers if exists else []:
            if one < len(self.tasks) and (number <= 0 or one in self.records):
                if self.tasks[one] == "assigned":
                    self.asked.add(one)
                elif self.tasks[one] == "queued":
                    self.tasks[one] = "cancelled"
        self.settle()

    @rule(number=NUMBERS)
    def redrive(self, number: int) -> None:
        number = self.pick(number, "dead")
        self.apply(c.RedriveJobs((c.RedriveItem(task_id(ARRAY, number)),)))
        if number in self.records and self.tasks[number] == "dead":
            self.tasks[number] = "queued"
            self.starts[number] = 0
        self.settle()

    @rule(number=NUMBERS)
    def forget(self, number: int) -> None:
        number = self.pick(number, *ENDS)
        self.apply(c.ForgetJobs((task_id(ARRAY, number),)))
        if number in self.records and self.tasks[number] in ENDS:
            self.records.discard(number)
        self.settle()

    @invariant()
    def grid_and_model_agree(self) -> None:
        assert check(self.state) == []
        assert len(self.state.jobs) == len(self.records)
        if ARRAY[:12] not in self.state.arrays:
            assert self.is_ended() or not self.tasks
            return
        for number, word in enumerate(self.tasks):
            view = job_view(self.state, task_id(ARRAY, number))
            assert view is not None
            assert view.state == word, number


TestArrayMachine = ArrayMachine.TestCase
TestArrayMachine.settings = settings(max_examples=examples(60), stateful_step_count=50)
