"""The client as a state machine: events in, instructions out. No IO, no clock, no randomness.

Invariants:
- a request stays pending until it is answered, and is sent again (same ids) to the next leader;
- an administrative change and a publish are sent once: if the session breaks before the response,
  the application gets OUTCOME_UNKNOWN;
- a submit whose session broke may have been accepted. A result of one of its jobs proves it; it is
  not sent again then, because a job that was confirmed and forgotten would run once more;
- a watch of output is sent to every new leader, from the last position, until it ends; so is a
  subscription;
- similar submits of one loop turn are sent as one run, if the member supports runs; each job of it
  is pending on its own;
- a result is delivered to the application once, and confirmed only after the application took it;
- a member that does not answer a ping, a request or a hello is left for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId, MessageId
from rollq.base.limits import REDIAL_MIN_MS, SILENCE_BYTES_PER_MS
from rollq.base.stamp import Jitter
from rollq.roles.client.session import signals
from rollq.roles.client.session.delivered import DeliveredResults, DoubtfulSubmits
from rollq.roles.client.session.older_leaders import LegacyJobs, unsupported
from rollq.roles.client.session.runs import SentRuns, results_of
from rollq.roles.client.session.signals import (
    ClientSetup,
    Connect,
    DeliverResponses,
    Request,
    SendToLeader,
    SessionState,
    id_of,
)
from rollq.roles.offers import Offers
from rollq.roles.redial import Redial
from rollq.roles.refusals import Refusals, is_refusal
from rollq.roles.silence import Silence, Verdict
from rollq.wire import messages as wire
from rollq.wire import subject_messages as subjects
from rollq.wire.features import ALIVE, OWN, RUNS, SUBJECTS
from rollq.wire.output_messages import JOB_ENDED, OutputChunk, WatchOutput
from rollq.wire.run_messages import ResultRun, RunAccepted
from rollq.wire.staging_messages import StageJobs

RETRY_MS: Final = REDIAL_MIN_MS
GREETINGS: Final = (wire.Welcome, wire.NotLeader)  # responses to a hello, which are no progress


class ClientMachine:
    """Pending requests, delivered results, and the session. Only `handle` changes state.

    Attributes:
        link: The state of the session.
        was_welcomed: Whether a session was ever opened.
    """

    __slots__ = (
        "_deferred",
        "_deliveries",
        "_doubtful",
        "_features",
        "_has_received",
        "_is_legacy",
        "_legacy_jobs",
        "_now_ms",
        "_offers",
        "_out",
        "_pending",
        "_ping_ms",
        "_redial",
        "_refusals",
        "_retry_at_ms",
        "_runs",
        "_setup",
        "_silence",
        "_subscribes",
        "_watches",
        "link",
        "was_welcomed",
    )

    def __init__(self, setup: ClientSetup, jitter: Jitter) -> None:
        self._setup = setup
        self._redial = Redial(setup.addresses, jitter, setup.redial_ms_max)
        self._silence = Silence()
        self._ping_ms = 0  # ping interval of the session; 0 if its member does not answer pings
        self._offers = Offers()
        self._refusals = Refusals()
        self._is_legacy = False  # the session is with a legacy leader
        self._has_received = False  # whether anything was received in this session
        self._legacy_jobs = LegacyJobs()
        self._runs = SentRuns(jitter.draw_id())
        self.link = SessionState.DOWN
        self.was_welcomed = False
        self._features: tuple[str, ...] = ()  # of the session, from its Welcome
        self._pending: dict[MessageId, Request] = {}  # in the order of submission
        self._deferred: dict[MessageId, None] = {}  # refused; sent again at _retry_at_ms
        self._retry_at_ms = 0
        self._doubtful = DoubtfulSubmits()
        # Sent to every new leader, until the subscription ends or is refused.
        self._subscribes: dict[MessageId, subjects.Subscribe] = {}
        self._deliveries = DeliveredResults(
            taken_max=setup.taken_max, untaken_max=setup.untaken_max
        )
        self._watches: dict[MessageId, WatchOutput] = {}
        self._now_ms = 0
        self._out: list[signals.Instruction] = []

    def handle(self, event: signals.Event) -> list[signals.Instruction]:
        """Handle one event; returns the instructions for the shell, in order."""
        out: list[signals.Instruction] = []
        self._out = out
        HANDLERS[type(event)](self, event)
        return out

    @property
    def addresses(self) -> tuple[str, ...]:
        """All known members of the group."""
        return self._redial.addresses

    @property
    def pending_count(self) -> int:
        """The number of requests without a response."""
        return len(self._pending)

    @property
    def is_refused(self) -> bool:
        """Whether all members refuse the login."""
        return self._refusals.final is not None

    # --- requests of the application

    def _on_requested(self, event: signals.Requested) -> None:
        if self._refusals.final is not None:
            for request in event.requests:
                self._reply(replace(self._refusals.final, request_id=id_of(request)))
            return
        pending = self._pending
        if not pending:
            self._silence.began(self._now_ms)
        requests = event.requests
        room = self._setup.pending_max - len(pending)
        for request in requests[room:]:
            self._fail(id_of(request), ErrorCode.OVERLOADED, "too many requests wait", True)
        requests = requests[:room]
        job_ids: list[JobId] = []
        for request in requests:
            if type(request) is wire.SubmitJob:
                pending[request.job_id] = request
                job_ids.append(request.job_id)
            else:
                pending[id_of(request)] = request
        self._deliveries.asked(job_ids)
        for request in requests:
            if type(request) is subjects.Subscribe:
                self._subscribes[request.request_id] = request
        if self.link is SessionState.OPEN:
            self._send_all(requests)

    def _on_abandoned(self, event: signals.Abandoned) -> None:
        self._settle(event.request_id)

    def _on_results_taken(self, event: signals.ResultsTaken) -> None:
        self._deliveries.take(event.job_ids)
        self._confirm(event.job_ids)

    def _on_watch_changed(self, event: signals.WatchChanged) -> None:
        request = event.request
        if request.on:
            self._watches[request.request_id] = request
        elif self._watches.pop(request.request_id, None) is None:
            return
        if self.link is SessionState.OPEN:
            self._out.append(SendToLeader(request))

    def _on_subscribe_changed(self, event: signals.SubscribeChanged) -> None:
        if event.request.request_id in self._subscribes:
            self._subscribes[event.request.request_id] = event.request

    def _on_unsubscribed(self, event: signals.Unsubscribed) -> None:
        self._settle(event.request_id)
        subscribe = self._subscribes.pop(event.request_id, None)
        if subscribe is not None and self.link is SessionState.OPEN and SUBJECTS in self._features:
            self._out.append(SendToLeader(subjects.Unsubscribe(subscribe.number)))

    def _on_tick(self, event: signals.ClientTick) -> None:
        self._now_ms = event.now_ms
        for answer in self._legacy_jobs.take_answers() if self._is_legacy else ():
            self._on_answered(answer)
        if self.link is SessionState.DOWN:
            return
        self._check_silence(event)
        if (
            not self._deferred
            or self.link is not SessionState.OPEN
            or event.now_ms < self._retry_at_ms
        ):
            return
        put_off = [self._pending[request_id] for request_id in self._deferred]
        self._deferred.clear()
        self._send_all(put_off)
        self._silence.began(event.now_ms)  # the retried requests are sent only now

    def _check_silence(self, event: signals.ClientTick) -> None:
        """Ping a silent member, or leave it for the next."""
        is_asked = len(self._pending) > len(self._deferred) and not self._is_legacy
        is_awaiting = self._watches or self._subscribes or event.is_awaiting
        verdict = self._silence.judge(
            event.now_ms,
            is_greeting=self.link is SessionState.GREETING,
            is_asked=is_asked,
            ping_ms=self._ping_ms if is_asked or is_awaiting else 0,
            extra_ms=event.asked_bytes // SILENCE_BYTES_PER_MS,
        )
        if verdict is Verdict.PING:
            self._out.append(SendToLeader(wire.Ping()))
        elif verdict is Verdict.HANG_UP:
            if self.link is SessionState.GREETING:
                self._offers.unanswered(self._redial.address)
            self._lose_session()
            self._out.append(signals.Disconnect(stuck=True))
            self._out.append(Connect(*self._redial.silent()))

    # --- the session

    def _on_started(self, event: signals.Started) -> None:
        self._out.append(Connect(self._redial.address, 0))

    def _on_stopped(self, event: signals.Stopped) -> None:
        self.link = SessionState.DOWN
        self._pending.clear()
        self._deferred.clear()
        self._subscribes.clear()
        self._watches.clear()
        self._runs.clear()
        self._legacy_jobs.cut()
        self._doubtful = DoubtfulSubmits()

    def _on_connected(self, event: signals.Connected) -> None:
        setup = self._setup
        self.link = SessionState.GREETING
        self._ping_ms = 0
        self._silence.opened(self._now_ms, self._redial.address)
        self._is_legacy = self._offers.is_plain(self._redial.address)
        self._has_received = False
        if self._is_legacy:
            self._open_legacy()
            return
        features = setup.features
        if self.was_welcomed:  # a new leader does not know which results this process asked for
            features = tuple(feature for feature in features if feature != OWN)
        hello = wire.HelloClient(setup.client_id, setup.desired_parallelism, features)
        self._out.append(SendToLeader(hello))

    def _open_legacy(self) -> None:
        """Open the session with a legacy leader, which does not answer a hello."""
        setup = self._setup
        hello = wire.HelloClient(setup.client_id, setup.desired_parallelism, plain=True)
        self._out.append(SendToLeader(hello))
        self.link = SessionState.OPEN
        self.was_welcomed = True
        self._features = ()
        self._out += map(SendToLeader, self._legacy_jobs.unended())
        self._send_all(list(self._pending.values()))

    def _on_disconnected(self, event: signals.Disconnected) -> None:
        if self._is_legacy and self.link is SessionState.OPEN and not self._has_received:
            self._offers.hung_up(self._redial.address)
        self._lose_session()
        if event.refusal is not None:
            self._note_refusal(event.refusal)
        redial = self._redial
        self._out.append(Connect(*(redial.refused() if self.is_refused else redial.failed())))

    def _note_refusal(self, error: wire.Error) -> None:
        """If all members refuse the login, fail every pending request."""
        self._refusals.noted(error)
        for request_id in list(self._pending) if self.is_refused else ():
            self._settle(request_id)
            self._reply(replace(error, request_id=request_id))
        for request_id in list(self._subscribes) if self.is_refused else ():
            self._end_subscription(replace(error, request_id=request_id))

    def _on_reachable(self, event: signals.Reachable) -> None:
        if self.link is SessionState.DOWN:
            self._out.append(Connect(*self._redial.reachable(event.address)))

    def _on_not_leader(self, message: wire.NotLeader) -> None:
        self._refusals.over()
        self._lose_session()
        self._out.append(signals.Disconnect())
        self._out.append(Connect(*self._redial.redirected(message.leader, message.members)))

    def _lose_session(self) -> None:
        """Fail changes that were sent without a response; keep other requests for the next
        session."""
        self._legacy_jobs.cut()
        was_open = self.link is SessionState.OPEN
        self.link = SessionState.DOWN
        self._deferred.clear()
        self._runs.clear()
        if was_open:
            for request_id, request in list(self._pending.items()):
                if isinstance(request, wire.Admin | subjects.Publish):
                    del self._pending[request_id]
                    self._fail(request_id, ErrorCode.OUTCOME_UNKNOWN, "the session broke", False)
                else:
                    self._doubtful.cut(request_id, request)

    def _on_welcome(self, message: wire.Welcome) -> None:
        self.link = SessionState.OPEN
        self.was_welcomed = True
        self._ping_ms = message.ping_ms if ALIVE in message.features else 0
        self._redial.welcomed(message.members)
        self._refusals.over()
        self._offers.welcomed()
        self._features = message.features
        self._out += map(SendToLeader, self._legacy_jobs.unended())  # the legacy group was replaced
        for request_id, subscribe in self._subscribes.items():
            self._pending.setdefault(request_id, subscribe)
        self._send_all(list(self._pending.values()))
        for watch in self._watches.values():
            self._out.append(SendToLeader(watch))

    def _send_all(self, requests: Sequence[Request]) -> None:
        """Send pending requests in order; consecutive submits as runs, if the leader supports
        them."""
        takes_runs = RUNS in self._features
        jobs: list[wire.SubmitJob] = []
        for request in requests:
            if takes_runs and type(request) is wire.SubmitJob:
                jobs.append(request)
                continue
            self._out += map(SendToLeader, self._runs.messages(jobs))
            jobs = []
            self._send(request)
        self._out += map(SendToLeader, self._runs.messages(jobs))

    def _send(self, request: Request) -> None:
        """Send a pending request, unless the leader is too old for it."""
        if self._is_legacy:
            if self._legacy_jobs.may_send(request):
                self._out.append(SendToLeader(request))
            return
        if lacking := unsupported(request, self._features):
            code = int(ErrorCode.UNSUPPORTED_VERSION)
            self._on_error(wire.Error(id_of(request), code, lacking))
            return
        self._out.append(SendToLeader(request))

    def _on_messages(self, messages: Sequence[wire.MemberMessage]) -> None:
        """Handle responses one by one, then all results together: a job is accepted before it
        ends."""
        is_answer = type(messages[-1]) not in GREETINGS
        self._silence.heard(self._now_ms, is_answer=is_answer)
        # Only a legacy leader sends a result to a plain hello; a silent current member sends none.
        if self._is_legacy and any(type(message) is wire.Result for message in messages):
            self._has_received = True
            self._legacy_jobs.prove()
        results: list[wire.Result] = []
        published: list[subjects.Deliver | subjects.Missed | wire.Error] = []
        for message in messages:
            if type(message) is subjects.Deliver or type(message) is subjects.Missed:
                published.append(message)
                continue
            if type(message) is wire.Result:
                results.append(message)
                continue
            if type(message) is ResultRun:
                results += results_of(message)
                continue
            on_message = ON_MESSAGE.get(type(message))
            if on_message is not None:
                on_message(self, message)
                if self.link is SessionState.DOWN:  # redirected: drop the rest
                    break
        if published:
            self._out.append(signals.DeliverPublications(published))
        if results:
            self._on_results(results)

    # --- responses

    def _on_answered(self, message: wire.Accepted | wire.Answer | wire.Error) -> None:
        if self._settle(message.request_id):
            self._reply(message)

    def _on_run_accepted(self, message: RunAccepted) -> None:
        for answer in self._runs.answers(message):
            if type(answer) is wire.Error:
                self._on_error(answer)
            elif self._settle(answer.request_id):
                self._reply(answer)

    def _on_output(self, message: OutputChunk) -> None:
        if message.watch_id in self._watches:
            if message.end == JOB_ENDED:
                del self._watches[message.watch_id]
            self._out.append(signals.DeliverOutput(message.watch_id, message))

    def _on_error(self, message: wire.Error) -> None:
        if self.link is SessionState.GREETING and is_refusal(message):
            self._note_refusal(message)
            return
        self._refusals.over()
        if self._watches.pop(message.request_id, None) is not None:
            self._out.append(signals.DeliverOutput(message.request_id, message))
        if message.request_id in self._subscribes and not message.retryable:
            self._end_subscription(message)
        if message.request_id not in self._pending:
            for refusal in self._runs.refusals(message):
                self._on_error(refusal)
            return
        # After BLOB_MISSING the blobs must be uploaded first, so it is not retried here. After
        # GRID_FULL the caller that stages decides.
        is_staging = type(self._pending[message.request_id]) is StageJobs
        is_told = message.code == ErrorCode.BLOB_MISSING or (
            is_staging and message.code == ErrorCode.GRID_FULL
        )
        if message.retryable and not is_told:
            if not self._deferred:
                self._retry_at_ms = self._now_ms + RETRY_MS
            self._deferred[message.request_id] = None
            return
        self._settle(message.request_id)
        self._reply(message)

    def _settle(self, request_id: MessageId) -> bool:
        """Remove a request; false if it was not pending."""
        request = self._pending.pop(request_id, None)
        if request is None:
            return False
        if self._deferred:
            self._deferred.pop(request_id, None)
        self._doubtful.settled(request)
        return True

    def _end_subscription(self, error: wire.Error) -> None:
        self._subscribes.pop(error.request_id, None)
        self._out.append(signals.DeliverPublications([error]))

    def _on_results(self, results: list[wire.Result]) -> None:
        for request_id in self._doubtful.accepted_by(results):
            self._settle(request_id)
            self._reply(wire.Accepted(request_id, known=True))
        self._legacy_jobs.ended(results)
        new, again = self._deliveries.sort(results)
        self._confirm(again)
        if new:
            self._out.append(signals.DeliverResults(new))

    def _confirm(self, job_ids: Sequence[JobId]) -> None:
        """Confirm results, if the session is open; otherwise the next leader sends them again."""
        if job_ids and self.link is SessionState.OPEN:
            self._out.append(SendToLeader(wire.Confirm(tuple(job_ids))))

    def _fail(self, request_id: MessageId, code: ErrorCode, text: str, retryable: bool) -> None:
        self._reply(wire.Error(request_id, int(code), text, retryable=retryable))

    def _reply(self, answer: wire.Accepted | wire.Answer | wire.Error) -> None:
        """Append a response; consecutive ones are combined into one instruction."""
        if self._out and type(self._out[-1]) is DeliverResponses:
            self._out[-1].answers.append(answer)
        else:
            self._out.append(DeliverResponses([answer]))


HANDLERS: dict[type, Callable[[ClientMachine, Any], None]] = {
    signals.Started: ClientMachine._on_started,
    signals.Stopped: ClientMachine._on_stopped,
    signals.Connected: ClientMachine._on_connected,
    signals.Disconnected: ClientMachine._on_disconnected,
    signals.Reachable: ClientMachine._on_reachable,
    signals.Received: lambda machine, event: machine._on_messages((event.message,)),
    signals.MessagesReceived: lambda machine, event: machine._on_messages(event.messages),
    signals.Requested: ClientMachine._on_requested,
    signals.Abandoned: ClientMachine._on_abandoned,
    signals.ResultsTaken: ClientMachine._on_results_taken,
    signals.WatchChanged: ClientMachine._on_watch_changed,
    signals.SubscribeChanged: ClientMachine._on_subscribe_changed,
    signals.Unsubscribed: ClientMachine._on_unsubscribed,
    signals.ClientTick: ClientMachine._on_tick,
}

ON_MESSAGE: dict[type, Callable[[ClientMachine, Any], None]] = {
    wire.Welcome: ClientMachine._on_welcome,
    wire.NotLeader: ClientMachine._on_not_leader,
    wire.Accepted: ClientMachine._on_answered,
    RunAccepted: ClientMachine._on_run_accepted,
    wire.Answer: ClientMachine._on_answered,
    wire.Error: ClientMachine._on_error,
    OutputChunk: ClientMachine._on_output,
}
