"""Runs the client's machine: one connection to one group, timers and callbacks.

There is no task or future per message. Requests of one loop turn are passed to the machine
together. All messages of one read are handled together, and their confirmations are one message.
Requests beyond the window wait here in order, because all pending ones must fit on a link when
resent.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rollq.base.errors import ErrorCode, LocalError, RollqError, StateError
from rollq.base.ids import NIL_ID, ClientId, JobId, MessageId
from rollq.base.limits import (
    CLIENT_PENDING_BYTES_MAX,
    CLIENT_PENDING_MAX,
    CONFIRM_JOBS_MAX,
    LOOK_MS,
    PROBE_MS,
    REDIAL_MAX_MS,
)
from rollq.base.repeats import Repeats
from rollq.net.dialer import dial, takes_connections
from rollq.net.link import Link
from rollq.roles.client.answers import check_bounds
from rollq.roles.client.forks import OwnerProcess
from rollq.roles.client.session import signals
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import (
    FEATURES,
    SUBMITS,
    ClientSetup,
    SessionState,
    id_of,
    request_bytes,
)
from rollq.roles.refusals import refusal_of
from rollq.roles.service import SystemJitter
from rollq.security.credentials import NONE, Credentials
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from rollq.wire.output_messages import OutputChunk, WatchOutput
from rollq.wire.subject_messages import Deliver, Missed, Subscribe

log = logging.getLogger("rollq.client")

Answer: TypeAlias = wire.Accepted | wire.Answer | wire.Error
OnAnswer: TypeAlias = Callable[[Answer], None]
OnOutput: TypeAlias = Callable[[OutputChunk | wire.Error], None]
OnPublished: TypeAlias = Callable[[Sequence[Deliver | Missed | wire.Error]], None]


class GroupSession:
    """The session with one group.

    Args:
        addresses: Its members; one is enough to find the others.
        client_id: Results are sent to the clients with this id, also after a restart.
        desired_parallelism: How many of this client's jobs may run at once; 0: the group's default.
        features: What it offers to the leader; with OWN, results of jobs that others with this
            client id submitted are skipped.
        group: A label for the link.
        redial_ms_max: The maximum delay between attempts to find the leader.
        credentials: What it logs in with, and verifies members by.
        on_results: Called with the new results of one read; returns the ids to confirm.
        is_awaiting: Whether results are expected.
        on_session_change: Called with True when a session opens, and with False when it is lost.

    Attributes:
        on_published: Called with messages of subscriptions, in order.
        has_submitted: Whether jobs were ever sent, which may have been accepted.
    """

    def __init__(
        self,
        addresses: tuple[str, ...],
        client_id: ClientId,
        *,
        desired_parallelism: int = 0,
        features: tuple[str, ...] = FEATURES,
        group: str = "default",
        redial_ms_max: int = REDIAL_MAX_MS,
        credentials: Credentials = NONE,
        on_results: Callable[[list[wire.Result]], Sequence[JobId]],
        is_awaiting: Callable[[], bool],
        on_session_change: Callable[[bool], None] = lambda is_open: None,
    ) -> None:
        setup = ClientSetup(
            client_id=client_id,
            addresses=addresses,
            desired_parallelism=desired_parallelism,
            features=features,
            redial_ms_max=redial_ms_max,
        )
        self.last_error = ""  # why there is no leader, or it defers requests; in errors
        self._repeats = Repeats()
        self._dial_errors: dict[str, str] = {}  # connection errors by address, until one succeeds
        self._is_warned = False
        self._dialed = ""
        self._session_error = ""  # the last error of a member about this session
        self._group = group
        self._credentials = credentials
        self.on_published: OnPublished = lambda messages: None
        self.has_submitted = False
        self._machine = ClientMachine(setup, SystemJitter())
        self._on_results = on_results
        self._is_awaiting = is_awaiting
        self._on_session_change = on_session_change
        self._client_id = client_id
        self._link: Link | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._was_open = False
        self._running = False
        self._process = OwnerProcess()  # the process that started it
        self._on_answer: dict[MessageId, tuple[OnAnswer, int]] = {}
        self._on_output: dict[MessageId, OnOutput] = {}
        self._sent_bytes = 0
        self._turn: list[signals.Request] = []  # requests of this loop turn
        self._is_concurrent = False  # several requests were pending since the last idle moment
        self._backlog: OrderedDict[MessageId, signals.Request] = OrderedDict()
        self._confirms: list[JobId] = []
        self._confirm_due = False

    @property
    def is_open(self) -> bool:
        """Whether the session with a leader is open."""
        return self._machine.link is SessionState.OPEN

    @property
    def link(self) -> Link | None:
        """The connection of the open session, for messages without a response; else None."""
        return self._link if self.is_open else None

    @property
    def leader(self) -> str:
        """The address of the leader of the open session; empty if there is none."""
        return self._dialed if self.is_open else ""

    def start(self) -> None:
        """Connect to the leader, in the background."""
        if self._running:
            return
        self._process = OwnerProcess()
        self._loop = asyncio.get_running_loop()
        self._running = True
        self._feed(signals.Started())
        self._tick()

    async def stop(self) -> None:
        """Send pending confirmations, close the connection, and fail pending requests."""
        if not self._running:
            return
        self._flush_confirms()
        self._running = False
        self._machine.handle(signals.Stopped())
        self._was_open = False
        if self._ticker is not None:
            self._ticker.cancel()
        if self._dialing is not None:
            self._dialing.cancel()
            await asyncio.gather(self._dialing, return_exceptions=True)
        link, self._link = self._link, None
        if link is not None:
            link.close("the client stops")
        waiting, self._on_answer = self._on_answer, {}
        watching, self._on_output = self._on_output, {}
        self._backlog.clear()
        self._turn.clear()
        self._sent_bytes = 0
        for request_id, (on_answer, _) in waiting.items():
            on_answer(wire.Error(request_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))
        for request_id, on_output in watching.items():
            on_output(wire.Error(request_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))

    def ask(self, request: signals.Request, on_answer: OnAnswer) -> None:
        """Send a request, as soon as the window and the session allow. The callback is called once.

        Raises:
            StateError: ID_CONFLICT, if a request with this id is pending.
            LocalError: BAD_SETUP, if the client is not running; BAD_PAYLOAD or BAD_OPTIONS, if
                every leader would refuse it.
        """
        if type(request) is not wire.SubmitJob:
            check_bounds(request)
        self.ask_all((request,), on_answer)

    def ask_all(self, requests: Sequence[signals.Request], on_answer: OnAnswer) -> None:
        """The same for several valid requests, such as submits, which are checked when encoded.
        Each gets its own response. Raises before any is sent."""
        self._must_run()
        on_answers, turn = self._on_answer, self._turn
        for request in requests:
            if id_of(request) in on_answers:
                raise StateError(ErrorCode.ID_CONFLICT, "this id is being submitted already")
        was_empty = not turn
        pending_count = self._machine.pending_count
        is_first = was_empty and not pending_count
        room = CLIENT_PENDING_MAX - pending_count - len(turn)
        room_bytes = CLIENT_PENDING_BYTES_MAX - self._sent_bytes
        for request in requests:
            request_id, size_bytes = id_of(request), request_bytes(request)
            on_answers[request_id] = (on_answer, size_bytes)
            if room > 0 and room_bytes >= size_bytes and not self._backlog:
                turn.append(request)
                room -= 1
                room_bytes -= size_bytes
            else:
                self._backlog[request_id] = request
        self._sent_bytes = CLIENT_PENDING_BYTES_MAX - room_bytes
        # A single sequential caller is spared a loop turn. With concurrent callers the first
        # request waits for the others: sent alone, it would cost the group a disk sync of its own.
        if is_first and not self._is_concurrent:
            self._send_turn()
        elif was_empty and turn:
            self._loop.call_soon(self._send_turn)
        self._is_concurrent = not is_first

    async def call(self, request: signals.Request) -> Answer:
        """Send a request and return its response; abandon it if the caller is cancelled. Raises
        like `ask`."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.ask(request, lambda one: None if answered.done() else answered.set_result(one))
        try:
            return await answered
        finally:
            self.give_up(id_of(request))

    def give_up(self, request_id: MessageId) -> None:
        """Abandon a request: do not send it again."""
        if self._forget(request_id) is not None:
            self._send_turn()  # the request may be in this turn
            self._feed(signals.Abandoned(request_id))

    def taken(self, job_id: JobId) -> None:
        """Confirm a result that the application took later than its delivery."""
        self._feed(signals.ResultsTaken((job_id,)))

    def watch(self, request: WatchOutput, on_output: OnOutput) -> None:
        """Start or move a watch of output. It ends with JOB_ENDED, an error, or `unwatch`.

        Raises:
            LocalError: BAD_SETUP, if the client is not running.
        """
        self._must_run()
        check_bounds(request)
        self._on_output[request.request_id] = on_output
        self._feed(signals.WatchChanged(request))

    def unwatch(self, request_id: MessageId, job_id: JobId) -> None:
        """End a watch."""
        self._on_output.pop(request_id, None)
        self._feed(signals.WatchChanged(WatchOutput(request_id, job_id, on=False)))

    def resume(self, request: Subscribe) -> None:
        """Replace the subscribe request that is sent to the next leader."""
        self._feed(signals.SubscribeChanged(request))

    def unsubscribe(self, request_id: MessageId) -> None:
        """End a subscription, by the id of its request."""
        self._forget(request_id)
        self._send_turn()  # the request may be in this turn
        self._feed(signals.Unsubscribed(request_id))

    def _must_run(self) -> None:
        self._process.check()
        if not self._running:
            raise LocalError(
                ErrorCode.BAD_SETUP, "the client is not started", "use `async with`, or start it"
            )

    # --- the window

    def _has_room(self, size_bytes: int) -> bool:
        return (
            self._machine.pending_count + len(self._turn) < CLIENT_PENDING_MAX
            and self._sent_bytes + size_bytes <= CLIENT_PENDING_BYTES_MAX
        )

    def _forget(self, request_id: MessageId) -> OnAnswer | None:
        entry = self._on_answer.pop(request_id, None)
        if entry is None:
            return None
        if self._backlog.pop(request_id, None) is None:
            self._sent_bytes -= entry[1]
        return entry[0]

    def _fill_window(self) -> None:
        while self._backlog:
            size_bytes = self._on_answer[next(iter(self._backlog))][1]
            is_alone = not self._turn and not self._machine.pending_count
            if not is_alone and not self._has_room(size_bytes):
                break
            _, request = self._backlog.popitem(last=False)
            self._sent_bytes += size_bytes
            self._turn.append(request)
        self._send_turn()

    def _send_turn(self) -> None:
        """Pass the requests of this turn to the machine, which sends them if there is a leader."""
        if self._turn:
            requests, self._turn = self._turn, []
            self._feed(signals.Requested(requests))
            if self._link is not None:
                self._link.flush()

    # --- the link

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if link is not self._link:
            return
        kinds = list(map(type, messages))
        self.last_error = ""
        if wire.Error in kinds:
            self._note_session_error(link, messages)
        elif wire.NotLeader in kinds:
            leader = next(one.leader for one in messages if isinstance(one, wire.NotLeader))
            where = f"{leader} leads" if leader else "there is no leader yet"
            self.last_error = f"{self._dialed} answers, but {where}"
        known = [message for message in messages if isinstance(message, wire.MemberMessage)]
        self._feed(signals.MessagesReceived(known))
        self._fill_window()
        self._flush_confirms()

    def _not_sent(self, request_id: MessageId, why: Exception) -> None:
        """Fail a request that cannot be encoded, as if the leader had refused it."""
        text = f"the request cannot be encoded: {why}"
        error = wire.Error(request_id, int(ErrorCode.BAD_OPTIONS), text)
        self._feed(signals.MessagesReceived([error]))

    def _note_session_error(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            if type(message) is wire.Error and message.request_id == NIL_ID:
                self._session_error = f"{link.address} says: {message.message}"
            elif type(message) is wire.Error and message.retryable:
                self.last_error = message.message

    def _closed(self, link: Link, reason: str) -> None:
        if link is self._link:
            self._link = None
            is_stranger = reason.startswith("no rollq member")
            why = reason if is_stranger else f"{self._dialed} hung up: {reason}"
            self.last_error = self._session_error or why
            self._log_repeated(self.last_error)
            self._feed(signals.Disconnected())

    async def _dial(self, address: str, delay_ms: int) -> None:
        try:
            if delay_ms > PROBE_MS and not self._machine.is_refused:
                found = await self._probe(delay_ms)
                if found:
                    self._feed(signals.Reachable(found))
                    return
            else:
                await asyncio.sleep(delay_ms / 1000)
            link = await dial(
                address,
                self._group,
                self._messages,
                self._closed,
                credentials=self._credentials,
            )
        except RollqError as error:
            self.last_error = error.message
            self._log_repeated(error.message)
            self._warn_unreachable(address, error)
            self._feed(signals.Disconnected(refusal_of(error)))
            return
        link.notify_unsent(self._not_sent)
        self._link = link
        self._dialed = address
        self._is_warned = True  # an address is right, so later failures are not a wrong address
        self._session_error = ""
        if link.is_open:
            self._feed(signals.Connected())
        else:
            self._closed(link, "at once")

    def _warn_unreachable(self, address: str, error: RollqError) -> None:
        """Log a warning, before any call times out, if none of the given addresses takes
        connections."""
        self._dial_errors[address] = error.message
        if not self._is_warned and self._dial_errors.keys() >= set(self._machine.addresses):
            self._is_warned = True
            troubles = "; ".join(self._dial_errors.values())
            log.warning("%s (%s); still trying", troubles, error.hint)

    def _log_repeated(self, text: str) -> None:
        """Log a message once; repeats, from every attempt to connect, are counted."""
        line = self._repeats.line(text, text, self._now_ms())
        if line:
            log.info("%s", line)

    async def _probe(self, delay_ms: int) -> str:
        """Wait, or until a member takes connections; returns its address."""
        addresses = self._machine.addresses
        for _ in range(delay_ms // PROBE_MS):
            await asyncio.sleep(PROBE_MS / 1000)
            takes = await asyncio.gather(*map(takes_connections, addresses))
            if any(takes):
                return addresses[takes.index(True)]
        return ""

    def _tick(self) -> None:
        self._ticker = self._loop.call_later(LOOK_MS / 1000, self._tick)
        is_awaiting = bool(self._on_output) or self._is_awaiting()
        self._feed(signals.ClientTick(self._now_ms(), is_awaiting, self._sent_bytes))

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    # --- runs the machine

    def _feed(self, event: signals.Event) -> bool:
        """Pass an event to the machine and execute its instructions; false if there were none."""
        if not self._running:
            return False
        machine = self._machine
        instructions = machine.handle(event)
        for instruction in instructions:
            DO[type(instruction)](self, instruction)
        if (machine.link is SessionState.OPEN) is not self._was_open:
            self._was_open = not self._was_open
            self._on_session_change(self._was_open)
        return bool(instructions)

    def _do_send(self, instruction: signals.SendToLeader) -> None:
        message = instruction.message
        if type(message) is wire.Confirm:
            self._confirms.extend(message.job_ids)
            if not self._confirm_due:
                self._confirm_due = True
                self._loop.call_soon(self._flush_confirms)
        elif self._link is not None:
            self._link.send(message)
            self.has_submitted = self.has_submitted or type(message) in SUBMITS

    def _flush_confirms(self) -> None:
        self._confirm_due = False
        confirms = self._confirms
        if not confirms:
            return
        self._confirms = []
        if self._link is not None and self.is_open:
            for first in range(0, len(confirms), CONFIRM_JOBS_MAX):
                self._link.send(wire.Confirm(tuple(confirms[first : first + CONFIRM_JOBS_MAX])))

    def _do_deliver_results(self, instruction: signals.DeliverResults) -> None:
        taken = self._on_results(instruction.results)
        if taken:
            self._feed(signals.ResultsTaken(taken))

    def _do_deliver_responses(self, instruction: signals.DeliverResponses) -> None:
        forget = self._on_answer.pop
        for answer in instruction.answers:
            entry = forget(answer.request_id, None)
            if entry is not None:
                self._sent_bytes -= entry[1]
                entry[0](answer)

    def _do_deliver_output(self, instruction: signals.DeliverOutput) -> None:
        on_output = self._on_output.get(instruction.request_id)
        if on_output is not None:
            on_output(instruction.output)

    def _do_connect(self, instruction: signals.Connect) -> None:
        self._confirms.clear()  # the next leader sends these results again
        self._dialing = self._loop.create_task(
            self._dial(instruction.address, instruction.delay_ms)
        )

    def _do_disconnect(self, instruction: signals.Disconnect) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        if instruction.stuck:
            self.last_error = self._session_error or f"{self._dialed} does not answer"
            link.abort("no answer")
        else:
            link.close("going to the leader")


DO: dict[type, Callable[[GroupSession, Any], None]] = {
    signals.SendToLeader: GroupSession._do_send,
    signals.DeliverResults: GroupSession._do_deliver_results,
    signals.DeliverResponses: GroupSession._do_deliver_responses,
    signals.DeliverOutput: GroupSession._do_deliver_output,
    signals.DeliverPublications: lambda session, known: session.on_published(known.messages),
    signals.Connect: GroupSession._do_connect,
    signals.Disconnect: GroupSession._do_disconnect,
}
