"""How people write the names of queues, where the state has them in lower case.

Matching does not regard case, so this is for the eyes of workers alone: an AssignJob has the
subject in the case in which it came. Not replicated: a new leader learns it with the next submit,
and until then takes the case of the program's name if the queue is called after it.
"""

from __future__ import annotations

from rollq.base.limits import SPELLINGS_MAX
from rollq.subjects.grammar import SEPARATOR, fold


class Spellings:
    """Queue names as they came last; the oldest gives way."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def note(self, queue: str, subject: str) -> None:
        """A submit named this queue by that subject."""
        if queue == subject or self._known.get(queue) == subject:
            return
        name = SEPARATOR.join([token for token in subject.split(SEPARATOR) if token])
        known = self._known
        # The prefix of the subject is not part of the name.
        spelled = name[len(name) - len(queue) :]
        if fold(spelled) != queue or known.get(queue) == spelled:
            return
        if len(known) >= SPELLINGS_MAX and queue not in known:
            del known[next(iter(known))]
        known[queue] = spelled

    def of(self, queue: str, exec_name: str) -> str:
        """The name as people write it."""
        spelled = self._known.get(queue)
        if spelled is not None:
            return spelled
        return exec_name if fold(exec_name) == queue else queue
