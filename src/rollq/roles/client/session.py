"""The shell of the client's machine: one group, one link at a time, timers and callbacks.

No task and no future a message. What is asked in one turn of the loop reaches the machine at once.
Everything that one read brings is handled in one go, and what it makes us confirm leaves as one
message. Requests over the window wait here, in order: what is sent again must fit on a link.
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
from rollq.net.dialer import dial, split_address, takes_connections
from rollq.net.link import Link
from rollq.roles.client import signals
from rollq.roles.client.answers import must_be_within_bounds
from rollq.roles.client.forks import Home
from rollq.roles.client.machine import ClientMachine
from rollq.roles.client.signals import id_of
from rollq.roles.client.specs import ArgumentTypeError, request_bytes
from rollq.roles.client.standing import FEATURES, ClientSetup, SessionState
from rollq.roles.refusals import refusal_of
from rollq.roles.service import SystemJitter
from rollq.security.credentials import NONE, Credentials
from rollq.wire import features as f
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
    """The way to one group.

    Args:
        addresses: Its members, `host:port,host:port…`; one is enough to find the others.
        client_id: Results are owed to this name, also after a restart.
        desired_parallelism: How many of this client's jobs may run at once; 0: the group's default.
        shares_id: Results of what others under this client id asked for are not for us.
        group: Only for the link's own bookkeeping.
        redial_ms_max: The longest wait before the next try to find the leader.
        credentials: What we prove ourselves with, and check members by.
        on_results: Called with the new results that one read brought; the ids of those that were
            taken and may be confirmed.
        is_awaiting: Whether results are still to come.
        on_standing: Called when a leader welcomed us (True), and when it is lost (False).

    Attributes:
        on_published: Called with what was published and reached us, in order.
    """

    def __init__(
        self,
        addresses: str,
        client_id: ClientId,
        *,
        desired_parallelism: int = 0,
        shares_id: bool = False,
        group: str = "default",
        redial_ms_max: int = REDIAL_MAX_MS,
        credentials: Credentials = NONE,
        on_results: Callable[[list[wire.Result]], Sequence[JobId]],
        is_awaiting: Callable[[], bool],
        on_standing: Callable[[bool], None] = lambda is_open: None,
    ) -> None:
        features = (*FEATURES, f.OWN) if shares_id else FEATURES
        setup = ClientSetup(
            client_id=client_id,
            addresses=as_addresses(addresses),
            desired_parallelism=desired_parallelism,
            features=features,
            redial_ms_max=redial_ms_max,
        )
        self.last_trouble = ""  # why no leader is found, or why it puts us off; for people
        self._told = Repeats()
        self._unheard: dict[str, str] = {}  # why no connection came about, by address
        self._is_warned = False
        self._dialed = ""
        self._complaint = ""  # what a member found wrong with us
        self._group = group
        self._credentials = credentials
        self.on_published: OnPublished = lambda messages: None
        self._machine = ClientMachine(setup, SystemJitter())
        self._on_results = on_results
        self._is_awaiting = is_awaiting
        self._on_standing = on_standing
        self._client_id = client_id
        self._link: Link | None = None
        self._dialing: asyncio.Task[None] | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._was_open = False
        self._running = False
        self._home = Home()  # where it was started
        self._on_answer: dict[MessageId, tuple[OnAnswer, int]] = {}
        self._on_output: dict[MessageId, OnOutput] = {}
        self._sent_bytes = 0
        self._turn: list[signals.Request] = []  # asked in this turn of the loop
        self._is_crowded = False  # several have waited for answers since none did
        self._backlog: OrderedDict[MessageId, signals.Request] = OrderedDict()
        self._confirms: list[JobId] = []
        self._confirm_due = False

    @property
    def is_open(self) -> bool:
        """Whether a leader has welcomed us."""
        return self._machine.link is SessionState.OPEN

    @property
    def was_open(self) -> bool:
        """Whether a leader has ever welcomed us, so that it may have taken what was asked."""
        return self._machine.was_welcomed

    @property
    def link(self) -> Link | None:
        """The connection to the leader that welcomed us, for what wants no answer."""
        return self._link if self.is_open else None

    @property
    def leader(self) -> str:
        """The address of the member that welcomed us; empty if none has."""
        return self._dialed if self.is_open else ""

    def start(self) -> None:
        """Look for the leader."""
        if self._running:
            return
        self._home = Home()
        self._loop = asyncio.get_running_loop()
        self._running = True
        self._feed(signals.Started())
        self._tick()

    async def stop(self) -> None:
        """Confirm what is taken, hang up, and tell whoever still waits."""
        if not self._running:
            return
        self._flush_confirms()
        self._running = False
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
        for request_id, (on_answer, _) in waiting.items():
            on_answer(wire.Error(request_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))
        for request_id, on_output in watching.items():
            on_output(wire.Error(request_id, int(ErrorCode.DISCONNECTED), "the client was stopped"))

    def ask(self, request: signals.Request, on_answer: OnAnswer) -> None:
        """Send a request, now or when there is room and a leader. It is answered once.

        Raises:
            StateError: ID_CONFLICT, if a request of the same id waits for its answer.
            LocalError: BAD_SETUP, if the client does not run; BAD_PAYLOAD or BAD_OPTIONS, if a
                leader would refuse it whatever its state.
        """
        if type(request) is not wire.SubmitJob:
            must_be_within_bounds(request)
        self.ask_all((request,), on_answer)

    def ask_all(self, requests: Sequence[signals.Request], on_answer: OnAnswer) -> None:
        """The same for several that are within their bounds, as submits are when they are made;
        each is answered by itself. Raises before any is sent."""
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
        # Who asks one thing at a time is spared a turn of the loop. Where many ask, the first waits
        # for the others: alone it would cost the group a sync of its own.
        if is_first and not self._is_crowded:
            self._send_turn()
        elif was_empty and turn:
            self._loop.call_soon(self._send_turn)
        self._is_crowded = not is_first

    def call(self, request: signals.Request) -> asyncio.Future[Answer]:
        """Send a request; its answer. Raises as `ask` does."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.ask(request, lambda one: None if answered.done() else answered.set_result(one))
        return answered

    def give_up(self, request_id: MessageId) -> None:
        """Wait no longer for an answer, and do not send this again."""
        if self._forget(request_id) is not None:
            self._send_turn()  # it may be one of those
            self._feed(signals.GivenUp(request_id))

    def taken(self, job_id: JobId) -> None:
        """A result that was not taken at once has reached the application after all."""
        self._feed(signals.Taken((job_id,)))

    def watch(self, request: WatchOutput, on_output: OnOutput) -> None:
        """Begin or move a watch of output. It ends with JOB_ENDED, an error, or `unwatch`.

        Raises:
            LocalError: BAD_SETUP, if the client does not run.
        """
        self._must_run()
        must_be_within_bounds(request)
        self._on_output[request.request_id] = on_output
        self._feed(signals.Watched(request))

    def unwatch(self, request_id: MessageId, job_id: JobId) -> None:
        """Watch no longer."""
        self._on_output.pop(request_id, None)
        self._feed(signals.Watched(WatchOutput(request_id, job_id, on=False)))

    def resume(self, request: Subscribe) -> None:
        """Ask the next leader for a subscription in this way."""
        self._feed(signals.Resumed(request))

    def unsubscribe(self, request_id: MessageId) -> None:
        """End a subscription, by the id under which it was asked for."""
        self._forget(request_id)
        self._send_turn()  # it may be one of those
        self._feed(signals.Unsubscribed(request_id))

    def _must_run(self) -> None:
        self._home.check()
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
        """All that was asked since the last time goes out, if there is a leader."""
        if self._turn:
            requests, self._turn = self._turn, []
            self._feed(signals.Asked(requests))
            if self._link is not None:
                self._link.flush()

    # --- the link

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if link is not self._link:
            return
        kinds = list(map(type, messages))
        self.last_trouble = ""
        if wire.Error in kinds:
            self._note_complaint(link, messages)
        elif wire.NotLeader in kinds:
            leader = next(one.leader for one in messages if isinstance(one, wire.NotLeader))
            where = f"{leader} leads" if leader else "there is no leader yet"
            self.last_trouble = f"{self._dialed} answers, but {where}"
        told = [message for message in messages if isinstance(message, wire.MemberMessage)]
        self._feed(signals.Heard(told))
        self._fill_window()
        self._flush_confirms()

    def _note_complaint(self, link: Link, messages: list[Message]) -> None:
        for message in messages:
            if type(message) is wire.Error and message.request_id == NIL_ID:
                self._complaint = f"{link.address} says: {message.message}"
            elif type(message) is wire.Error and message.retryable:
                self.last_trouble = message.message

    def _closed(self, link: Link, reason: str) -> None:
        if link is self._link:
            self._link = None
            is_stranger = reason.startswith("no rollq member")
            why = reason if is_stranger else f"{self._dialed} hung up: {reason}"
            self.last_trouble = self._complaint or why
            self._tell(self.last_trouble)
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
            self.last_trouble = error.message
            self._tell(error.message)
            self._maybe_warn(address, error)
            self._feed(signals.Disconnected(refusal_of(error)))
            return
        self._link = link
        self._dialed = address
        self._is_warned = True  # an address is right: what fails from now on is not the caller's
        self._complaint = ""
        if link.is_open:
            self._feed(signals.Connected())
        else:
            self._closed(link, "at once")

    def _maybe_warn(self, address: str, error: RollqError) -> None:
        """Say at once, and not only when a call runs out of time, that no address that was given
        takes connections."""
        self._unheard[address] = error.message
        if not self._is_warned and self._unheard.keys() >= set(self._machine.addresses):
            self._is_warned = True
            log.warning("%s; trying on (%s)", "; ".join(self._unheard.values()), error.hint)

    def _tell(self, text: str) -> None:
        """Once, and then counted: members are dialed again and again."""
        line = self._told.line(text, text, self._now_ms())
        if line:
            log.info("%s", line)

    async def _probe(self, delay_ms: int) -> str:
        """Wait, but only until a member of the group takes connections; returns which, if any."""
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

    # --- the machine's shell

    def _feed(self, event: signals.Event) -> bool:
        """Do as the machine says; whether that was anything."""
        if not self._running:
            return False
        machine = self._machine
        instructions = machine.handle(event)
        for instruction in instructions:
            DO[type(instruction)](self, instruction)
        if (machine.link is SessionState.OPEN) is not self._was_open:
            self._was_open = not self._was_open
            self._on_standing(self._was_open)
        return bool(instructions)

    def _do_send(self, instruction: signals.Send) -> None:
        message = instruction.message
        if type(message) is wire.Confirm:
            self._confirms.extend(message.job_ids)
            if not self._confirm_due:
                self._confirm_due = True
                self._loop.call_soon(self._flush_confirms)
        elif self._link is not None:
            self._link.send(message)

    def _flush_confirms(self) -> None:
        self._confirm_due = False
        confirms = self._confirms
        if not confirms:
            return
        self._confirms = []
        if self._link is not None and self.is_open:
            for first in range(0, len(confirms), CONFIRM_JOBS_MAX):
                self._link.send(wire.Confirm(tuple(confirms[first : first + CONFIRM_JOBS_MAX])))

    def _do_deliver(self, instruction: signals.Deliver) -> None:
        taken = self._on_results(instruction.results)
        if taken:
            self._feed(signals.Taken(taken))

    def _do_tell(self, instruction: signals.Tell) -> None:
        forget = self._on_answer.pop
        for answer in instruction.answers:
            entry = forget(answer.request_id, None)
            if entry is not None:
                self._sent_bytes -= entry[1]
                entry[0](answer)

    def _do_show(self, instruction: signals.Show) -> None:
        on_output = self._on_output.get(instruction.request_id)
        if on_output is not None:
            on_output(instruction.output)

    def _do_connect(self, instruction: signals.Connect) -> None:
        self._confirms.clear()  # another leader sends them again, and is told then
        self._dialing = self._loop.create_task(
            self._dial(instruction.address, instruction.delay_ms)
        )

    def _do_disconnect(self, instruction: signals.Disconnect) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        if instruction.stuck:
            self.last_trouble = self._complaint or f"{self._dialed} does not answer"
            link.abort("no answer")
        else:
            link.close("going to the leader")


def as_addresses(text: str) -> tuple[str, ...]:
    """`host:port,host:port…` in parts.

    Raises:
        LocalError: BAD_ADDRESS.
        ArgumentTypeError: BAD_ADDRESS, if it is no text.
    """
    if not isinstance(text, str):
        raise ArgumentTypeError(
            ErrorCode.BAD_ADDRESS,
            f"addresses is {type(text).__name__}",
            'give a string with the members of the group: "host:port,host:port"',
        )
    addresses = tuple(part.strip() for part in text.split(",") if part.strip())
    if not addresses:
        raise LocalError(ErrorCode.BAD_ADDRESS, "no address", "give host:port, or several with ,")
    for address in addresses:
        split_address(address)
    return addresses


DO: dict[type, Callable[[GroupSession, Any], None]] = {
    signals.Send: GroupSession._do_send,
    signals.Deliver: GroupSession._do_deliver,
    signals.Tell: GroupSession._do_tell,
    signals.Show: GroupSession._do_show,
    signals.Publications: lambda session, told: session.on_published(told.messages),
    signals.Connect: GroupSession._do_connect,
    signals.Disconnect: GroupSession._do_disconnect,
}
