"""The queue of a submitted subject, and the subject that is shown to a worker.

Three tables, none of them replicated: names that were found valid, worker names (the last token of
a subject may address one worker), and the spelling of queue names. Matching ignores case, so
spellings are only for display: a new leader learns them from later submits, and until then uses the
case of the program's name if the queue is named after it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import WorkerId
from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions
from rollq.base.limits import EXEC_NAME_BYTES_MAX, QUEUE_NAME_BYTES_MAX, SPELLINGS_MAX
from rollq.subjects.grammar import SEPARATOR, fold
from rollq.subjects.queues import queue_of

NAMES_KEPT = 1_024  # valid names in the cache; thousands of jobs share a few


class Address(NamedTuple):
    """The validated address of a submit."""

    queue: str
    exec_name: str
    options: JobOptions | None


class Addressing:
    """Resolves the addresses of jobs on one leader."""

    __slots__ = ("spellings", "workers")

    def __init__(self) -> None:
        self.workers = WorkerNames()
        self.spellings = Spellings()

    def resolve(self, subject: str, options: JobOptions | None) -> tuple[str, JobOptions | None]:
        """The queue of a subject, and the options: they name the worker if the last token of the
        subject is the name of a known one."""
        queue = queue_named(subject)
        self.spellings.note(queue, subject)
        group = self.target_queue(subject) if SEPARATOR in queue else queue
        if group != queue:
            last = queue.rpartition(SEPARATOR)[2]
            return group, replace(options or DEFAULT_OPTIONS, worker_name=last)
        if options is not None and options.worker_name:
            options = replace(options, worker_name=fold(options.worker_name))
        return queue, options

    def target_queue(self, subject: str) -> str:
        """The queue of a subject without a trailing worker name."""
        queue = queue_named(subject)
        group, _, last = queue.rpartition(SEPARATOR)
        return group if group and last in self.workers else queue


class WorkerNames:
    """Names of the group's workers, case-insensitive; several workers may share one."""

    __slots__ = ("_name_of", "_workers_of")

    def __init__(self) -> None:
        self._name_of: dict[WorkerId, str] = {}
        self._workers_of: dict[str, dict[WorkerId, None]] = {}  # no entry is empty

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._workers_of

    def set(self, worker_id: WorkerId, name: str) -> None:
        """Set the present name of a worker; empty: it left, or has none."""
        older = self._name_of.pop(worker_id, "")
        if older:
            workers = self._workers_of[older]
            del workers[worker_id]
            if not workers:
                del self._workers_of[older]
        key = name.lower()
        if key:
            self._name_of[worker_id] = key
            self._workers_of.setdefault(key, {})[worker_id] = None

    def clear(self) -> None:
        """Remove all names."""
        self._name_of.clear()
        self._workers_of.clear()


class Spellings:
    """The last new spelling of each queue name; the oldest queues are dropped first."""

    __slots__ = ("_known", "_seen")

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # by queue; at most SPELLINGS_MAX
        self._seen: dict[str, None] = {}  # subjects already noted; at most SPELLINGS_MAX

    def note(self, queue: str, subject: str) -> None:
        """Note the spelling in a submitted subject."""
        if subject in self._seen:
            return
        if len(self._seen) >= SPELLINGS_MAX:
            self._seen.clear()
        self._seen[subject] = None
        name = SEPARATOR.join([token for token in subject.split(SEPARATOR) if token])
        spelled = name[len(name) - len(queue) :]  # without the prefix of the subject
        if fold(spelled) != queue:
            return  # a subject without a queue name, or with the name of a worker
        known = self._known
        if len(known) >= SPELLINGS_MAX and queue not in known:
            del known[next(iter(known))]
        known[queue] = spelled

    def of(self, queue: str, exec_name: str) -> str:
        """The name in its last spelling."""
        spelled = self._known.get(queue)
        if spelled is not None:
            return spelled
        return exec_name if fold(exec_name) == queue else queue


@lru_cache(NAMES_KEPT)
def queue_named(subject: str) -> str:
    """The queue of a subject."""
    return bounded("queue", queue_of(subject), QUEUE_NAME_BYTES_MAX)


@lru_cache(NAMES_KEPT)
def exec_name(name: str) -> str:
    """The name of a program, if its length is valid."""
    return bounded("exec name", name, EXEC_NAME_BYTES_MAX)


def bounded(what: str, text: str, bytes_max: int, *, may_be_empty: bool = False) -> str:
    """The text, if its length is valid.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    if len(text.encode()) > bytes_max or (not text and not may_be_empty):
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"{what} must have 1 to {bytes_max} bytes")
    return text
