"""Scenarios of dispatch as text: who is there, what happens, and exactly who gets what, in order.

Each line is a verb and its words; `verb word... name=value...`. `gives` decides and applies, and
compares what started, as `job@worker`. Time passes by `wait` alone.
"""

from __future__ import annotations

from collections.abc import Callable

from rollq.base.jobs import JobOptions
from rollq.base.needs import rate_of
from rollq.grid import commands as c
from rollq.grid.commands import AssignRun, AssignTasks, Command
from rollq.grid.effects import Applied
from rollq.grid.rule_commands import PutLimit, PutWeight, RemoveLimit
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import EVERYTHING, Desk, in_ones, said

Words = list[str]
Named = dict[str, str]


class Script(Desk):
    """A desk whose clock stands still until `wait`, and that runs lines."""

    def __init__(self) -> None:
        super().__init__()
        self.decided: list[AssignRun | AssignTasks] = []

    def apply(self, *commands: Command) -> Applied:
        """Apply one entry, at the time that it is."""
        self.stamp_ms -= 10  # which the kit adds to each entry
        return super().apply(*commands)

    def play(self, text: str) -> None:
        """All lines, in order."""
        for number, line in enumerate(text.strip().splitlines(), 1):
            verb, *words = line.split()
            named = dict(word.split("=", 1) for word in words if "=" in word)
            plain = [word for word in words if "=" not in word]
            try:
                VERBS[verb](self, plain, named)
            except AssertionError as error:
                raise AssertionError(f"line {number}: {line.strip()}\n{error}") from error

    # --- what operators do

    def limit(self, words: Words, named: Named) -> None:
        scope, name = words[0].split(":", 1)
        rate = rate_of(named["rate"]) if "rate" in named else 0
        burst = int(named.get("burst", 1 if rate else 0))
        self.apply(PutLimit(scope, name, int(named.get("running", 0)), rate, burst))

    def unlimit(self, words: Words, named: Named) -> None:
        self.apply(RemoveLimit(*words[0].split(":", 1)))

    def weigh(self, words: Words, named: Named) -> None:
        self.apply(*(PutWeight(client, int(weight)) for client, weight in named.items()))

    def cap(self, words: Words, named: Named) -> None:
        self.apply(*(c.OpenClient(client, int(cap)) for client, cap in named.items()))

    def pause(self, words: Words, named: Named) -> None:
        self.apply(c.PauseQueue(words[0]))

    def resume(self, words: Words, named: Named) -> None:
        self.apply(c.ResumeQueue(words[0]))

    # --- workers

    def open(self, words: Words, named: Named) -> None:
        """`open w=2 v=3 queue=q`: with credit, for one queue or all."""
        queue = named.pop("queue", "")
        patterns = (f"job.assign.{queue}",) if queue else EVERYTHING
        for name, credit in named.items():
            self.worker(name, int(credit), patterns)

    def grants(self, words: Words, named: Named) -> None:
        for name, credit in named.items():
            self.grant(name, int(credit))

    def lead(self, words: Words, named: Named) -> None:
        """Another member leads; its workers come with this credit."""
        self.dispatcher.step_down()
        self.dispatcher, self.follower = self.follower, self.dispatcher
        for name, credit in named.items():
            who = worker_id(name), 1, name
            held = len(self.state.workers[worker_id(name)].held)
            self.dispatcher.open_worker(*who, EVERYTHING, held)
            self.grant(name, int(credit))

    # --- jobs

    def ask(self, words: Words, named: Named) -> None:  # type: ignore[override]
        """`submit a b client=bob exec=render keys=gpu:2,db`: each an entry."""
        where = named.get("client", "ann"), named.get("queue", "q"), named.get("exec", "exe")
        keys = [key.partition(":") for key in filter(None, named.get("keys", "").split(","))]
        options = JobOptions(
            priority=int(named.get("priority", 0)),
            worker_name=named.get("worker", ""),
            expire_ms=int(named.get("expire", 0)),
            max_attempts=int(named.get("attempts", 0)),
            limits=tuple(sorted((name, int(count or 1)) for name, _, count in keys)),
        )
        for name in words:
            if "tasks" in named:
                count, most = int(named["tasks"]), int(named.get("running", 0))
                self.apply(c.SubmitArray(job_id(name), *where, b"", count, options, most))
            else:
                self.apply(c.SubmitJob(job_id(name), *where, b"", options))

    def end(self, words: Words, named: Named) -> None:
        """Jobs end well; `arr/0` is a task."""
        for name in words:
            array, _, number = name.partition("/")
            wanted = self.array(array).id_of(int(number)) if number else job_id(name)
            record = self.state.jobs[wanted]
            self.apply(c.AckJob(wanted, record.attempt, record.fence, 0, b""))

    def lose(self, words: Words, named: Named) -> None:
        for name in words:
            self.nack(name)

    def cancel(self, words: Words, named: Named) -> None:
        self.apply(c.CancelJobs(tuple(map(job_id, words))))

    def expire(self, words: Words, named: Named) -> None:
        self.apply(c.ExpireJobs(tuple(map(job_id, words))))

    def redrive(self, words: Words, named: Named) -> None:
        self.apply(c.RedriveJobs(tuple(c.RedriveItem(job_id(word)) for word in words)))

    # --- time and what comes of it

    def wait(self, words: Words, named: Named) -> None:
        self.stamp_ms += int(words[0])

    def decides(self, words: Words, named: Named) -> None:
        """As `gives`, but nothing is applied yet."""
        decided = in_ones(self.dispatcher.decide(1_000, self.stamp_ms))
        assert [said(one) for one in decided] == words
        self.decided += decided

    def settles(self, words: Words, named: Named) -> None:
        """What was decided is applied."""
        decided, self.decided = self.decided, []
        assert self.settle(decided) == words

    def gives(self, words: Words, named: Named) -> None:
        decided = in_ones(self.dispatcher.decide(1_000, self.stamp_ms))
        found = self.settle(decided)
        assert found == words, f"it gives {' '.join(found)}"

    def wakes(self, words: Words, named: Named) -> None:
        """It has nothing to give now; in how many ms it wants to be asked again; never: `-`."""
        assert not self.dispatcher.decide(1_000, self.stamp_ms)
        next_ms = self.dispatcher.next_ms
        found = "-" if next_ms is None else str(next_ms - self.stamp_ms)
        assert [found] == words, f"it wakes in {found}"

    def says(self, words: Words, named: Named) -> None:
        """The code of what `explain` says of jobs."""
        for name, code in named.items():
            assert self.reason(name) == code, f"it says {self.reason(name)}"


VERBS: dict[str, Callable[[Script, Words, Named], None]] = {
    "limit": Script.limit,
    "unlimit": Script.unlimit,
    "weigh": Script.weigh,
    "cap": Script.cap,
    "pause": Script.pause,
    "resume": Script.resume,
    "open": Script.open,
    "grant": Script.grants,
    "lead": Script.lead,
    "submit": Script.ask,
    "end": Script.end,
    "lose": Script.lose,
    "cancel": Script.cancel,
    "expire": Script.expire,
    "redrive": Script.redrive,
    "wait": Script.wait,
    "decides": Script.decides,
    "settles": Script.settles,
    "gives": Script.gives,
    "wakes": Script.wakes,
    "says": Script.says,
}


def play_to_the_end(text: str) -> None:
    """A scenario. Whatever happened in it: when all limits are gone, nothing stays behind."""
    script = Script()
    script.play(text)
    for scope, name in list(script.state.limits):
        script.play(f"unlimit {scope}:{name}")
    script.play("open late=900")
    script.dispatcher.decide(1_000, script.stamp_ms)
    assert not script.dispatcher._holds.limits.waiting_count
