"""Reads of this member's state (`member.queries`): those of clients of the leader are linearizable,
answered once consensus has named the index from which on the answer is not stale (read-index);
those of readers are answered at once, by any member.
"""

from __future__ import annotations

from collections.abc import Callable

from rollq.base.counters import Family
from rollq.base.errors import DiskError, ErrorCode, StateError
from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession, Sessions
from rollq.roles.member.queries import Sources, answer, must_be_of_state
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.wire.messages import Answer, Error, Query

PENDING_READS_MAX = 4_096


class Reads:
    """Queries that wait for their index."""

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
    ) -> None:
        self._replica = replica
        self._replies = replies
        self._sessions = sessions
        self._caches = caches
        self._reports = reports
        self._raft = raft
        self._metrics = metrics
        self._last_request = 0  # as consensus knows them; never reused
        # A query is in `_asked` until consensus names its index, then in `_waiting` until that is
        # applied; both together hold at most PENDING_READS_MAX.
        self._asked: dict[int, tuple[int, Query]] = {}
        self._waiting: list[tuple[int, int, Query]] = []  # index, session, query

    def query(self, session: ClientSession, query: Query) -> None:
        """Take a query; the answer is sent by `answer` later."""
        self._ask(session.number, query)

    def _ask(self, session: int, query: Query) -> None:
        must_be_of_state(query)
        if len(self._asked) + len(self._waiting) >= PENDING_READS_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, f"{PENDING_READS_MAX} reads are pending", "ask again"
            )
        self._last_request += 1
        self._asked[self._last_request] = (session, query)
        self._raft().read_index(self._last_request)

    def ready(self, reads: list[ReadReady]) -> None:
        """Consensus answered: the index to wait for, or 0 to ask once more under a new number."""
        for read in reads:
            asked = self._asked.pop(read.request, None)
            if asked is None:
                continue
            if read.index:
                self._waiting.append((read.index, *asked))
            else:
                self._ask(*asked)

    def answer(self) -> None:
        """Once a turn: answer everything that can be answered from what is applied now."""
        if not self._waiting:
            return
        applied = self._replica.state.applied_index
        due = [read for read in self._waiting if read[0] <= applied]
        self._waiting = [read for read in self._waiting if read[0] > applied]
        for _, session, query in due:
            answer = self._answer(query)
            if isinstance(answer, Exception):
                self._replies.failed(session, query, answer)
            else:
                self._replies.send(session, answer)

    def sources(self, query: Query, *, leads: bool) -> Sources:
        """What a query is answered from, now and here, whoever leads."""
        return Sources(
            self._replica,
            self._raft(),
            self._caches,
            self._reports,
            sessions=self._sessions,
            leads=leads,
            metrics=self._metrics,
            account=query.account,
        )

    def _answer(self, query: Query) -> Answer | Error | Exception:
        try:
            return answer(self.sources(query, leads=True), query)
        except DiskError:
            raise  # of the history: the member must not go on
        except Exception as error:
            return error

    def clear(self) -> None:
        """Leadership is lost: clients ask the next leader."""
        self._asked.clear()
        self._waiting.clear()
