"""Reads of this member's state (`member.queries`). Those of clients of the leader are linearizable:
answered at a read index of raft. Those of readers are answered at once, by any member.

All other answers of a leader that need no log entry wait here too (`once_current`): a partitioned
or stalled member may believe for a moment that it leads while another one does.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rollq.base.counters import Family
from rollq.base.errors import DiskError, ErrorCode, StateError
from rollq.base.ids import JobId
from rollq.base.job_events import JobEvent
from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession, Sessions
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.queries import Sources, answer, must_be_of_state
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.wire.messages import Answer, Error, Query

PENDING_READS_MAX = 4_096


class Reads:
    """Queries and other answers that wait for their read index."""

    def __init__(
        self,
        replica: Replica,
        replies: Replies,
        caches: GroupCaches,
        reports: Reports,
        *,
        sessions: Sessions,
        raft: Callable[[], RaftNode],
        metrics: Callable[[], list[Family]],
        shell: Shell,
    ) -> None:
        self._replica = replica
        self._replies = replies
        self._sessions = sessions
        self._caches = caches
        self._reports = reports
        self._raft = raft
        self._metrics = metrics
        self._shell = shell
        # The last progress of a job; set before the first query.
        self.progress_of: Callable[[JobId], JobEvent | None] = lambda _: None
        self._last_request = 0  # the last id of a read-index request; never reused
        # Reads are in `_requested` until raft answers with an index, then in `_waiting` until that
        # is applied; both together hold at most PENDING_READS_MAX.
        self._requested: dict[int, Callable[[], None]] = {}
        self._waiting: list[tuple[int, Callable[[], None]]] = []  # read index, callback

    def query(self, session: ClientSession, query: Query) -> None:
        """Take a query; `answer` sends its answer later."""
        must_be_of_state(query)
        self.check_room()
        self.once_current(partial(self._send_answer, session.number, query))

    @property
    def is_asking(self) -> bool:
        """Whether a read-index request is unanswered, which takes a turn."""
        return bool(self._requested)

    def check_room(self) -> None:
        """Raises StateError OVERLOADED if too many reads are pending."""
        if len(self._requested) + len(self._waiting) >= PENDING_READS_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, f"{PENDING_READS_MAX} reads are pending", "ask again"
            )

    def once_current(self, act: Callable[[], None]) -> None:
        """Call back once it is confirmed that this member leads now, and all entries committed
        before are applied. Never called if it does not lead: sessions are redirected then."""
        self._last_request += 1
        self._requested[self._last_request] = act
        self._raft().read_index(self._last_request)

    def ready(self, reads: list[ReadReady]) -> None:
        """Raft's answers: the index to wait for, or 0 to request again under a new id."""
        for read in reads:
            act = self._requested.pop(read.request, None)
            if act is None:
                continue
            if read.index:
                self._waiting.append((read.index, act))
            else:
                self.once_current(act)

    def answer(self) -> None:
        """Once a turn: answer the reads whose index is applied."""
        if not self._waiting:
            return
        applied = self._replica.state.applied_index
        due = [act for index, act in self._waiting if index <= applied]
        self._waiting = [read for read in self._waiting if read[0] > applied]
        for act in due:
            act()

    def sources(self, query: Query, *, leads: bool) -> Sources:
        """The sources for a query on this member, whether it leads or not."""
        return Sources(
            self._replica,
            self._raft(),
            self._caches,
            self._reports,
            sessions=self._sessions,
            leads=leads,
            metrics=self._metrics,
            federation=self._shell.federation,
            account=query.account,
            progress_of=self.progress_of,
        )

    def _send_answer(self, session: int, query: Query) -> None:
        answer = self._answer(query)
        if isinstance(answer, Exception):
            self._replies.failed(session, query, answer)
        else:
            self._replies.send(session, answer)

    def _answer(self, query: Query) -> Answer | Error | Exception:
        try:
            return answer(self.sources(query, leads=True), query)
        except DiskError:
            raise  # while reading history: the member must stop
        except Exception as error:
            return error

    def clear(self) -> None:
        """Leadership is lost: clients ask the next leader."""
        self._requested.clear()
        self._waiting.clear()
