"""How people write the names of queues, where the state has them in lower case.

Matching does not regard case, so this is for the eyes of workers alone: an AssignJob has the
subject in the case in which it came. Not replicated: a new leader learns it with the next submit,
and until then takes the case of the program's name if the queue is called after it.
"""

from __future__ import annotations

from rollq.base.limits import SPELLINGS_MAX
from rollq.subjects.grammar import SEPARATOR, fold


class Spellings:
    """Queue names as they were written last in a new way; the oldest give way."""

    __slots__ = ("_known", "_seen")

    def __init__(self) -> None:
        self._known: dict[str, str] = {}  # by queue
        self._seen: dict[str, None] = {}  # subjects that were looked at: jobs share a few

    def note(self, queue: str, subject: str) -> None:
        """A submit named this queue by that subject."""
        if subject in self._seen:
            return
        if len(self._seen) >= SPELLINGS_MAX:
            self._seen.clear()
        self._seen[subject] = None
        name = SEPARATOR.join([token for token in subject.split(SEPARATOR) if token])
        spelled = name[len(name) - len(queue) :]  # the prefix of the subject is not part of it
        if fold(spelled) != queue:
            return  # one without a name, or one that names a worker
        known = self._known
        if len(known) >= SPELLINGS_MAX and queue not in known:
            del known[next(iter(known))]
        known[queue] = spelled

    def of(self, queue: str, exec_name: str) -> str:
        """The name as people write it."""
        spelled = self._known.get(queue)
        if spelled is not None:
            return spelled
        return exec_name if fold(exec_name) == queue else queue
