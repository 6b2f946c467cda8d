"""Clients that watch the output of running jobs: the leader forwards it and stores nothing.

A watch lives from the client's first WatchOutput until the job is over or the client disconnects.
While an attempt runs, the watch is bound to its worker until that reports the end of the attempt,
even if the job is over by then: its last output may still arrive. Between attempts it has no
worker. None of it is replicated; a client watches again on the next leader."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import GUID_BYTES, JobId, MessageId, WorkerId
from rollq.base.limits import OUTPUT_WATCHES_MAX, OUTPUT_WATCHES_PER_JOB_MAX
from rollq.grid.effects import Effect, SendAssign, SendResult, each_effect
from rollq.grid.state import ASSIGNED, ENDED_STATES
from rollq.grid.views import job_view
from rollq.roles.member.leader.sessions import ClientSession, Session, Sessions, WorkerSession
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica
from rollq.wire.features import OUTPUT
from rollq.wire.output_messages import (
    JOB_ENDED,
    MORE,
    UNWANTED,
    OutputChunk,
    TellOutput,
    WatchOutput,
)

ENDS = frozenset(state.name.lower() for state in ENDED_STATES)


class OutputWatch(msgspec.Struct):
    """One client that watches one job."""

    watch_id: MessageId  # drawn by the leader
    session: int
    request_id: MessageId  # the client's
    job_id: JobId
    wanted: tuple[bool, bool]  # stdout, stderr
    attempt: int = 0
    # Offsets up to which the client has the output of `attempt`; 0 with every new attempt.
    sent: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    fence: int = 0
    worker_id: WorkerId = b""  # that sends the output of `attempt`; empty: none runs it
    whole: bool = False  # whether output that the worker has on disk is wanted too


class OutputWatches:
    """The watches of one leader."""

    def __init__(
        self, replica: Replica, sessions: Sessions, shell: Shell, outputs: Outputs
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._shell = shell
        self._outputs = outputs
        self._last = 0
        self._by_id: dict[MessageId, OutputWatch] = {}
        self._by_asker: dict[tuple[int, MessageId], OutputWatch] = {}
        self._by_job: dict[JobId, dict[MessageId, OutputWatch]] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    # --- messages of clients

    def watch(self, session: ClientSession, message: WatchOutput) -> None:
        """Begin, continue at other offsets, or end a watch.

        Raises:
            StateError: UNKNOWN_JOB; OVERLOADED, if too many watch already.
        """
        watch = self._by_asker.get((session.number, message.request_id))
        if not message.on:
            if watch is not None:
                self._end(watch)
        elif watch is None:
            self._begin(session.number, message)
        elif watch.worker_id and message.attempt == watch.attempt:
            self._send_tell(watch, message.offsets)

    def left(self, session: Session) -> None:
        """A session was removed."""
        if isinstance(session, ClientSession):
            for watch in [one for one in self._by_id.values() if one.session == session.number]:
                self._end(watch)
        else:
            self._release(session.worker_id)

    # --- messages of workers

    def chunk(self, session: WorkerSession, chunk: OutputChunk) -> None:
        """Forward output to the watching client."""
        watch = self._by_id.get(chunk.watch_id)
        if watch is None or (watch.worker_id, watch.attempt) != (session.worker_id, chunk.attempt):
            return  # the watch is over, or is bound to another attempt
        after = chunk.offset + len(chunk.data)
        data = chunk.data if self._shell.has_room(watch.session) else b""
        self._send(
            watch,
            msgspec.structs.replace(
                chunk, watch_id=watch.request_id, offset=after - len(data), data=data
            ),
        )
        if chunk.end == MORE:
            watch.sent[chunk.stream] = max(watch.sent[chunk.stream], after)
        else:
            watch.worker_id = b""
            self._maybe_end(watch)

    def worker_opened(self, session: WorkerSession) -> None:
        """A worker's session opened: it may or may not still run watched jobs."""
        self._release(session.worker_id)
        for watch in self._by_id.values():
            self._bind(watch, session.worker_id)

    # --- effects of applied entries

    def follow(self, effects: Sequence[Effect]) -> None:
        """Follow starts of attempts and ends of jobs."""
        for effect in each_effect(effects):
            if type(effect) is SendAssign:
                for watch in self._by_job.get(effect.job_ids, {}).values():
                    self._bind(watch, effect.worker_id)
            elif type(effect) is SendResult:
                many = effect.count > 1  # tasks that never started; any may be watched
                ended = self._by_id if many else self._by_job.get(effect.job_ids, {})
                for watch in list(ended.values()):
                    self._maybe_end(watch)

    def clear(self) -> None:
        """Leadership is lost."""
        self._by_id.clear()
        self._by_asker.clear()
        self._by_job.clear()

    # --- helpers

    def _begin(self, session: int, message: WatchOutput) -> None:
        job_id = message.job_id
        if job_view(self._replica.state, job_id) is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, "no such job, or it is forgotten")
        of_job = self._by_job.get(job_id, {})
        if len(self) >= OUTPUT_WATCHES_MAX or len(of_job) >= OUTPUT_WATCHES_PER_JOB_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, "too many watchers of job output", "ask again later"
            )
        self._last += 1
        watch_id = self._last.to_bytes(GUID_BYTES, "big")
        out, err = message.offsets
        watch = OutputWatch(
            watch_id=watch_id,
            session=session,
            request_id=message.request_id,
            job_id=job_id,
            wanted=(out != UNWANTED, err != UNWANTED),
            attempt=message.attempt,
            sent=[max(out, 0), max(err, 0)],
            whole=message.whole,
        )
        self._by_id[watch_id] = watch
        self._by_asker[session, message.request_id] = watch
        self._by_job.setdefault(job_id, of_job)[watch_id] = watch
        job = self._replica.state.jobs.get(job_id)
        if job is not None:
            self._bind(watch, job.worker_id)
        if not watch.worker_id and not self._maybe_end(watch):
            # It waits, or its worker is disconnected: answer at once.
            self._send(watch, OutputChunk(message.request_id, 0))

    def _bind(self, watch: OutputWatch, worker_id: WorkerId) -> None:
        """Bind a watch to this worker, if it runs the job."""
        job = self._replica.state.jobs.get(watch.job_id)
        session = self._sessions.worker(worker_id)
        if job is None or job.state is not ASSIGNED or job.worker_id != worker_id:
            return
        if session is None or not session.opened or OUTPUT not in session.features:
            return
        if watch.attempt != job.attempt:
            watch.attempt, watch.sent = job.attempt, [0, 0]
        watch.fence, watch.worker_id = job.fence, worker_id
        self._send_tell(watch, watch.sent)

    def _send_tell(self, watch: OutputWatch, offsets: Sequence[int], *, on: bool = True) -> None:
        session = self._sessions.worker(watch.worker_id)
        if session is not None:
            out, err = (
                offset if wanted else UNWANTED
                for wanted, offset in zip(watch.wanted, offsets, strict=True)
            )
            tell = TellOutput(
                *(watch.watch_id, watch.job_id, watch.attempt, watch.fence),
                *((out, err), on, watch.whole),
            )
            self._outputs.mail(session.number).append(tell)

    def _release(self, worker_id: WorkerId) -> None:
        """A worker sends no more output."""
        for watch in [one for one in self._by_id.values() if one.worker_id == worker_id]:
            watch.worker_id = b""
            self._maybe_end(watch)

    def _maybe_end(self, watch: OutputWatch) -> bool:
        """Report the end of the job, if it has ended and no output is to come."""
        if watch.worker_id:
            return False
        view = job_view(self._replica.state, watch.job_id)
        if view is not None and view.state not in ENDS:
            return False
        self._send(watch, OutputChunk(watch.request_id, watch.attempt, end=JOB_ENDED))
        self._end(watch)
        return True

    def _end(self, watch: OutputWatch) -> None:
        if watch.worker_id:
            self._send_tell(watch, (0, 0), on=False)
        del self._by_id[watch.watch_id]
        del self._by_asker[watch.session, watch.request_id]
        of_job = self._by_job[watch.job_id]
        del of_job[watch.watch_id]
        if not of_job:
            del self._by_job[watch.job_id]

    def _send(self, watch: OutputWatch, chunk: OutputChunk) -> None:
        self._outputs.mail(watch.session).append(chunk)
