"""Staged batches against a plain model: random commands, and after each the same answer from both.

The model is made of dicts of names. After every step all laws hold, every move is in the lifecycle
table, and a copy of the state that went through a snapshot one step before has done the same.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollq.base.staged import StagedGroup
from rollq.grid import commands as c
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Done, Duplicate, Outcome, Refused
from rollq.grid.invariants import check
from rollq.grid.lifecycle import is_allowed
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import DEAD, GridState
from tests.effort import examples
from tests.unit.grid.kit import job_id, submit
from tests.unit.grid.staged import again, group, part

NAMES = st.sampled_from("abcde")
KEYS = st.sampled_from("klmnopqr")
PARTS = st.sampled_from(["0", "1"])
NUMBERS = st.sampled_from([0, 0, 0, 0, 0, 1])
SETS = st.sets(NAMES, min_size=1, max_size=2)
Message = tuple[bool, str]  # whether its jobs run again, and their names


class StagingMachine(RuleBasedStateMachine):
    """Some batches of few jobs, and others who want the same ids."""

    def __init__(self) -> None:
        super().__init__()
        self.state = GridState()
        self.jobs: dict[str, bool] = {}  # whether it is dead
        self.staged: dict[str, dict[str, dict[int, Message]]] = {}
        self.accepted: dict[str, list[Message]] = {}  # what is left to unpack, by key
        self.new: dict[str, str] = {}  # names of jobs that are accepted and new, by key
        self.settled: dict[str, None] = {}

    def ask(self, command: c.Command) -> Outcome:
        before = {name: record.state for name, record in self.state.jobs.items()}
        twin = decode_snapshot(encode_snapshot(self.state))
        index = self.state.applied_index + 1
        data = encode_batch(index, [command])
        applied = apply_entry(self.state, index, data)
        assert apply_entry(twin, index, data) == applied
        for name in {**before, **self.state.jobs}:
            record = self.state.jobs.get(name)
            now = None if record is None else record.state
            assert is_allowed(before.get(name), type(command), now), (command, name)
        (outcome,) = applied.outcomes
        return outcome

    def is_reserved(self, name: str) -> bool:
        return any(
            name in names and (runs_again or name in self.new[key])
            for key, messages in self.accepted.items()
            for runs_again, names in messages
        )

    @rule(key=KEYS, name=PARTS, number=NUMBERS, names=SETS)
    def stage(self, key: str, name: str, number: int, names: set[str]) -> None:
        self.put(key, name, number, (False, "".join(sorted(names))))

    @precondition(lambda self: any(self.jobs.values()))
    @rule(key=KEYS, number=NUMBERS, names=SETS)
    def stage_again(self, key: str, number: int, names: set[str]) -> None:
        dead = [name for name in sorted(self.jobs) if self.jobs[name]]
        self.put(key, "again", number, (True, "".join(sorted(names) if number else dead[:2])))

    def put(self, key: str, name: str, number: int, message: Message) -> None:
        outcome = self.ask(c.StageJobs("ann", key, name, number, (group_of(message),)))
        if key in self.settled:
            assert isinstance(outcome, Duplicate)
            return
        known = self.staged.get(key, {}).get(name, {}).get(number)
        if known is None:
            assert outcome == Done(len(message[1]))
            self.staged.setdefault(key, {}).setdefault(name, {})[number] = message
        else:
            assert isinstance(outcome, Duplicate if known == message else Refused)

    @precondition(lambda self: self.staged)
    @rule(pick=st.integers(0, 7), but_for=st.sampled_from(["", "", "0", "1", "again"]))
    def commit(self, pick: int, but_for: str) -> None:
        keys = [*self.staged, *self.staged, *self.settled]
        key = keys[pick % len(keys)]
        staged = self.staged.get(key, {})
        named = {name: staged[name] for name in sorted(staged) if name != but_for}
        parts = [
            part(name, *((group_of(messages[number]),) for number in sorted(messages)))
            for name, messages in named.items()
        ]
        outcome = self.ask(c.CommitBatch("ann", key, tuple(parts)))
        if key in self.settled:
            assert isinstance(outcome, Duplicate)
            return
        messages = [named[name][number] for name in named for number in sorted(named[name])]
        jobs = Counter(name for _, names in messages for name in names)
        may_be = (
            all(sorted(numbers) == list(range(len(numbers))) for numbers in named.values())
            and all(count == 1 for count in jobs.values())
            and not any(self.is_reserved(name) for name in jobs)
            and all(self.jobs.get(name) for again, names in messages if again for name in names)
        )
        if not may_be:
            assert isinstance(outcome, Refused)
            return
        assert outcome == Done(len(jobs))
        self.settled[key] = None
        self.staged.pop(key, None)
        if messages:
            new = "".join(names for again, names in messages if not again)
            self.new[key] = "".join(name for name in new if name not in self.jobs)
            self.accepted[key] = messages

    @precondition(lambda self: self.accepted)
    @rule(pick=st.integers(0, 7), shift=st.sampled_from([0, 0, 0, 1]))
    def unpack(self, pick: int, shift: int) -> None:
        key = list(self.accepted)[pick % len(self.accepted)]
        position = self.state.committed["ann", key].position + shift
        outcome = self.ask(c.UnpackBatch("ann", key, position))
        if shift:
            assert outcome == Done(0)
            return
        runs_again, names = self.accepted[key].pop(0)
        made = [name for name in names if runs_again or name in self.new[key]]
        assert outcome == Done(len(made))
        self.jobs.update(dict.fromkeys(made, False))
        if not self.accepted[key]:
            del self.accepted[key]

    @precondition(lambda self: len(self.staged) > 2)
    @rule(key=KEYS)
    def drop(self, key: str) -> None:
        outcome = self.ask(c.DropBatches((c.BatchName("ann", key),)))
        assert outcome == Done(1 if self.staged.pop(key, None) else 0)

    @rule(name=NAMES)
    def submit(self, name: str) -> None:
        outcome = self.ask(submit(name))
        if name in self.jobs:
            assert isinstance(outcome, Duplicate)
        elif self.is_reserved(name):
            assert isinstance(outcome, Refused)
        else:
            assert outcome == Done()
            self.jobs[name] = False

    @precondition(lambda self: not all(self.jobs.values()))
    @rule(name=NAMES)
    def expire(self, name: str) -> None:
        waits = self.jobs.get(name) is False
        assert self.ask(c.ExpireJobs((job_id(name),))) == Done(1 if waits else 0)
        if waits:
            self.jobs[name] = True

    @precondition(lambda self: any(self.jobs.values()))
    @rule(name=NAMES, forgets=st.booleans())
    def let_go(self, name: str, forgets: bool) -> None:
        names = (job_id(name),)
        outcome = self.ask(c.ForgetJobs(names) if forgets else c.PurgeJobs(names))
        if self.is_reserved(name):
            refuses = not forgets
        elif self.jobs.get(name):
            assert outcome == Done(1)
            del self.jobs[name]
            return
        else:
            refuses = not forgets and name in self.jobs
        assert isinstance(outcome, Refused) if refuses else outcome == Done(0)

    @invariant()
    def nothing_is_amiss(self) -> None:
        assert check(self.state) == []
        dead = {job_id(name): is_dead for name, is_dead in self.jobs.items()}
        assert {name: one.state is DEAD for name, one in self.state.jobs.items()} == dead
        reserved = [name for name in "abcde" if self.is_reserved(name)]
        assert [name for name in "abcde" if job_id(name) in self.state.reserved] == reserved


def group_of(message: Message) -> StagedGroup:
    runs_again, names = message
    return again(*names) if runs_again else group(*names)


TestStaging = StagingMachine.TestCase
TestStaging.settings = settings(max_examples=examples(120), stateful_step_count=60)
