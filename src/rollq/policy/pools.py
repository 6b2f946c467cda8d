"""Worker sessions and the pools they form.

A pool is all open sessions that asked for one pattern. A queue is served by the pools whose
patterns match it: how many those are depends on the wildcards of its subject, not on the number of
workers, even if every worker has a pattern of its own besides the shared ones. A session is in as
many pools as it has patterns, with one credit for all of them.

A session may have listed the programs that it can run. As long as all sessions of a pool can run
what waits, nothing is different. For a program that some of them lack, the pool gets a part: a pool
of those who have it, made when a job that needs it has its turn. So a session is in as many parts
as it has such programs with jobs, and a decision looks at nobody who could not run the job.

Sessions and credits exist on the leader only and die with its leadership.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from rollq.base.ids import WorkerId
from rollq.grid.state import AttemptOutcome
from rollq.policy.placement import Placement, load_of, make_placement
from rollq.subjects.grammar import ANY_ONE, ANY_REST, parse_pattern
from rollq.subjects.queues import ASSIGN_PREFIX, assign_subject
from rollq.subjects.trie import Trie

if TYPE_CHECKING:
    from rollq.policy.lanes import Item, QueueLanes

UNTRIED_CHECKED_MAX: Final = 16  # sessions that are looked at for a job that was lost before
EMPTY_POOLS_MIN: Final = 64  # fewer pools without sessions are not worth a sweep
VERDICTS_MAX: Final = 4_096  # programs of which a pool remembers whether all sessions have them
SHIPPED: Final = "\0"  # before the name of a program that comes with its job


def program_of(item: Item) -> str:
    """What a worker must be able to run for this: the name of a program, marked if it comes with
    the job (such a job also needs a worker that allows that)."""
    return SHIPPED + item.exec_name if item.options.ships_exec else item.exec_name


class ProgramSet(NamedTuple):
    """What a worker announced that it can run."""

    names: frozenset[str] | None = None  # None: anything, as far as is known
    ships: bool = False  # it runs programs that come with their jobs, too


ANYTHING: Final = ProgramSet()


class DispatchSession:
    """One open session of a worker: what it may be given, and what it has."""

    __slots__ = (
        "credit",
        "incarnation",
        "load",
        "name",
        "pools",
        "programs",
        "reserved",
        "running",
        "serving",
        "worker_id",
    )

    def __init__(
        self,
        worker_id: WorkerId,
        incarnation: int,
        name: str,
        running: int,
        programs: ProgramSet = ANYTHING,
    ) -> None:
        self.worker_id = worker_id
        self.incarnation = incarnation
        self.name = name
        # Jobs that it may still be given. Granted by the worker, spent by a decision, given back
        # when the group refuses it; 0 for good once the session is closed.
        # Invariant: credit + reserved <= CREDIT_MAX.
        self.credit = 0
        # Attempts that it has, and those that were decided for it. Goes down when an attempt ends,
        # whichever leader decided it.
        self.running = running
        # Of `running`, what was decided and is not applied yet; back in `_on_assigned` or
        # `refused`. Invariant: 0 <= reserved <= running.
        self.reserved = 0
        # `load_of(credit, running)` as its pools were last told: between `mark_changed` and
        # `refresh` it lags behind, so that ten acks in one entry cost one move.
        self.load = 0
        self.pools: list[Pool] = []  # all that it is in, parts too
        self.serving: list[Pool] = []  # of these, the ones that have a queue at all
        self.programs = programs

    def can_run(self, program: str) -> bool:
        """Whether it has what `program_of` a job says."""
        names, ships = self.programs
        if names is None:
            return True
        if program.startswith(SHIPPED):
            return ships or program[1:] in names
        return program in names

    def update_load(self) -> None:
        """Tell the pools that it serves in what credit and running have come to."""
        old, new = self.load, load_of(self.credit, self.running)
        if old != new:
            self.load = new
            for pool in self.serving:
                pool.candidates.move(self, old, new)


class Pool:
    """Sessions that serve the same queues, and the queues that may have something for them.

    A pool that matches no queue keeps no order among its sessions: a pattern that nobody uses,
    such as a worker's own address, costs nothing while jobs run.
    """

    __slots__ = (
        "_verdicts",
        "candidates",
        "has_queue",
        "is_ready",
        "limited_count",
        "part_size",
        "parts",
        "pattern",
        "program",
        "ring",
        "round_left",
        "sessions",
        "users",
    )

    def __init__(self, pattern: str, candidates: Placement, program: str = "") -> None:
        self.pattern = pattern  # that all sessions asked for; PINNED_PATTERN: of one pinned queue
        self.candidates = candidates  # of `sessions`, those with credit; nobody unless `has_queue`
        self.program = program  # of a part: what its sessions can run; empty: a whole pool
        # By program: the sessions that can run it. Made when a job needs one that some lack,
        # dropped with its last queue. Who is in a part is in the whole pool, too.
        self.parts: dict[str, Pool] = {}
        self.users = 0  # of a part: queues that are served by it; at 0 it is dropped
        # Sessions that listed their programs; always 0 in a part, where all can run `program`.
        # While it is 0 no job is looked at for its program at all.
        self.limited_count = 0
        # By program: whether every session can run it. Forgotten when a session comes or goes.
        self._verdicts: dict[str, bool] = {}
        # Queues in turn. A queue is in the ring or has this pool in its `absent`. One that ran dry
        # leaves when it is visited in vain, so that a queue of one job at a time stays in.
        self.ring: deque[QueueLanes] = deque()
        # Of a round in which each queue has one turn: turns that are left, and jobs of each.
        self.round_left = 0
        self.part_size = 1
        self.is_ready = False  # stands in `Backlog.line` or `pinned_line`, once
        self.has_queue = False  # stays true: queues come back
        self.sessions: dict[DispatchSession, None] = {}  # a set with an order

    def admit(self, session: DispatchSession) -> None:
        """A session becomes one of this pool's."""
        self.sessions[session] = None
        self.limited_count += not self.program and session.programs.names is not None
        self._verdicts.clear()
        session.pools.append(self)
        if self.has_queue:
            session.serving.append(self)
            self.candidates.move(session, 0, session.load)
        for program, part in self.parts.items():
            if session.can_run(program):
                part.admit(session)

    def dismiss(self, session: DispatchSession) -> None:
        """A session leaves this pool alone; see `Pools.leave` for leaving all."""
        del self.sessions[session]
        self.limited_count -= not self.program and session.programs.names is not None
        self._verdicts.clear()
        session.pools.remove(self)
        if self.has_queue:
            session.serving.remove(self)
            self.candidates.move(session, session.load, 0)

    def all_can_run(self, program: str) -> bool:
        """Whether every session here can run it; ask only if `limited_count`."""
        verdict = self._verdicts.get(program)
        if verdict is None:
            if len(self._verdicts) >= VERDICTS_MAX:
                self._verdicts.clear()
            verdict = all(session.can_run(program) for session in self.sessions)
            self._verdicts[program] = verdict
        return verdict

    def part(self, program: str, candidates: Placement) -> Pool:
        """The sessions of this pool that can run it, for one more queue."""
        part = self.parts.get(program)
        if part is None:
            part = self.parts[program] = Pool(self.pattern, candidates, program)
            part.start_serving()
            for session in self.sessions:
                if session.can_run(program):
                    part.admit(session)
        part.users += 1
        return part

    def drop_part(self, part: Pool) -> None:
        """One queue less is served by a part."""
        part.users -= 1
        if not part.users and self.parts.get(part.program) is part:
            del self.parts[part.program]
            for session in list(part.sessions):
                part.dismiss(session)

    def untried(
        self, picked: DispatchSession, attempts: Sequence[AttemptOutcome]
    ) -> DispatchSession:
        """The one that was picked for a job, unless it has lost it before and another has credit:
        what kept the job from running there, a full disk for one, may well keep it again. Of a few
        others it is the one with the least load; all of them would cost what the pool has."""
        tried = [outcome.worker_id for outcome in attempts]
        if picked.worker_id not in tried:
            return picked
        few = islice(self.sessions, UNTRIED_CHECKED_MAX)
        others = [other for other in few if other.credit and other.worker_id not in tried]
        return min(others, key=attrgetter("load"), default=picked)

    def start_serving(self) -> None:
        """The pool matches a queue."""
        if not self.has_queue:
            self.has_queue = True
            for session in self.sessions:
                session.serving.append(self)
                self.candidates.move(session, 0, session.load)


class Pools:
    """All pools by pattern, and which of them match a queue."""

    __slots__ = ("_by_pattern", "_empty_count", "_placement", "_trie")

    def __init__(self, placement: str) -> None:
        make_placement(placement)  # a wrong name is refused now, not at the first worker
        self._placement = placement
        self._by_pattern: dict[str, Pool] = {}  # whole pools; parts hang in them
        self._trie: Trie[Pool] = Trie()  # the same by what their patterns match
        self._empty_count = 0  # of them, how many have no session; they are swept now and then

    def join(self, session: DispatchSession, patterns: Iterable[str]) -> list[Pool]:
        """Put a session into the pools of its patterns; the pools that are new by this."""
        made: list[Pool] = []
        for pattern in dict.fromkeys(patterns):
            pool = self._by_pattern.get(pattern)
            if pool is None:
                pool = Pool(pattern, make_placement(self._placement))
                self._trie.insert(pattern, pool)
                self._by_pattern[pattern] = pool
                made.append(pool)
            elif not pool.sessions:
                self._empty_count -= 1
            pool.admit(session)
        return made

    def leave(self, session: DispatchSession) -> None:
        """Take a session out of all its pools. Empty pools stay a while: workers come back."""
        session.credit = 0
        for pool in list(session.pools):
            pool.dismiss(session)
            if not pool.sessions and self._by_pattern.get(pool.pattern) is pool:
                self._empty_count += 1
        if self._empty_count > EMPTY_POOLS_MIN + len(self._by_pattern) // 2:
            self._sweep()

    def announce(self, session: DispatchSession, programs: ProgramSet) -> list[Pool]:
        """A session can run other programs from now on; all pools that it is in."""
        wholes = [pool for pool in session.pools if not pool.program]
        # Out of everything and in again: `admit` finds the parts, and the counts stay simple. A
        # worker announces when its programs change, not when it runs one.
        for pool in list(session.pools):
            pool.dismiss(session)
        session.programs = programs
        for pool in wholes:
            pool.admit(session)
        return session.pools

    def serving(self, queue: str) -> list[Pool]:
        """The pools whose pattern matches a queue."""
        return self._trie.match(assign_subject(queue))

    def _sweep(self) -> None:
        for pattern, pool in list(self._by_pattern.items()):
            if not pool.sessions:
                del self._by_pattern[pattern]
                self._trie.remove(pattern, pool)
        self._empty_count = 0


def only_queue(pattern: str) -> str | None:
    """The one queue that a pattern can match; None if it has wildcards."""
    tokens = parse_pattern(pattern)
    if ANY_ONE in tokens or ANY_REST in tokens or tokens[:2] != ASSIGN_PREFIX:
        return None
    return ".".join(tokens[2:])
