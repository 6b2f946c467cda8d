"""A client in the simulator: the production machine, and an application that persists its requests
and results, so that it can crash and restart under its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId, MessageId, task_id
from rollq.base.limits import LOOK_MS
from rollq.roles.client.session import signals
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.client.session.signals import ClientSetup, id_of
from rollq.testing.clock import MS
from rollq.testing.sim_member import World
from rollq.testing.sim_session import SimSession
from rollq.wire.features import ACCEPTED, ALIVE, COMPACT, RUNS, SUBJECTS, TASKS
from rollq.wire.messages import Error, Result, SubmitArray, SubmitBulk, SubmitJob
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

FEATURES: Final = (COMPACT, ACCEPTED, ALIVE, TASKS, RUNS, SUBJECTS)
TICK_MS = 500


class ClientObserver(Protocol):
    """Observes a client; a checker."""

    def asked(self, client: SimClient, request: signals.Request) -> None:
        """The application sends a request."""

    def told(self, client: SimClient, request: signals.Request, answer: Any) -> None:
        """The client received an answer."""

    def delivered(self, client: SimClient, result: Result) -> None:
        """The client received a result."""


class SimClient(SimSession):
    """One client: its process, if it runs, and the persisted state of its application."""

    def __init__(
        self, world: World, name: str, addresses: tuple[str, ...], cap: int, book: ClientObserver
    ) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.client_id: ClientId = name
        self.machine: ClientMachine | None = None
        self.life = 0
        self.cap = cap
        self.pending: dict[MessageId, signals.Request] = {}
        self.results: dict[JobId, Result] = {}  # the last one of each job
        self.on_results: list[Callable[[list[Result]], None]] = []  # callbacks of the application
        self.on_answers: list[Callable[[signals.Request, Any], None]] = []
        self.on_published: list[Callable[[list[Any]], None]] = []
        self._turn: list[signals.Request] = []  # not passed to the machine yet
        self._addresses = addresses
        self._book = book

    # --- the application

    def ask(self, request: signals.Request) -> None:
        """Persist a request, then send it."""
        self.pending[id_of(request)] = request
        self._book.asked(self, request)
        if not self._turn:
            self.world.timeline.after(0, self._ask_turn, self.life)
        self._turn.append(request)

    def _ask_turn(self, life: int) -> None:
        """Pass on all requests of one moment; after a crash the restarted process sends them."""
        if life == self.life:
            turn, self._turn = self._turn, []
            self._feed(signals.Requested(turn))

    def send(self, message: Any) -> None:
        """Send a message without an answer, if there is a connection."""
        self._do_send(signals.SendToLeader(message))

    def start(self) -> None:
        """Start the process; unanswered requests are sent again."""
        if self.machine is not None:
            return
        self.life += 1
        self._turn = []
        setup = ClientSetup(self.client_id, self._addresses, self.cap, FEATURES)
        chance = self.world.streams.named(f"{self.name}/{self.life}")
        self.machine = ClientMachine(setup, chance)
        self.world.trace.note(self.name, "start", self.life)
        self._feed(signals.Started())
        for request in list(self.pending.values()):
            self._book.asked(self, request)
        self._feed(signals.Requested(list(self.pending.values())))
        self.world.timeline.after(LOOK_MS * MS, self._tick, self.life)

    def crash(self) -> None:
        """Crash the process; the application's persisted state survives."""
        if self.machine is None:
            return
        self.world.trace.note(self.name, "crash")
        self.machine = None
        self.life += 1
        # An administrative change whose outcome is unknown is not repeated, and a query is moot.
        for request_id, request in list(self.pending.items()):
            if not isinstance(request, SUBMITS):
                del self.pending[request_id]
        if self._link is not None:
            self.world.network.close_by_endpoint(self._link, abrupt=True)
            self._link = None

    # --- the machine's shell

    def _feed(self, event: signals.Event) -> None:
        if self.machine is not None:
            for instruction in self.machine.handle(event):
                getattr(self, DO[type(instruction)])(instruction)

    def _tick(self, life: int) -> None:
        if life == self.life and self.machine is not None:
            self.world.timeline.after(LOOK_MS * MS, self._tick, life)
            self._feed(signals.ClientTick(self.world.timeline.now_us // MS))

    def _do_tell(self, instruction: signals.DeliverResponses) -> None:
        for answer in instruction.answers:
            self.world.trace.note(self.name, "told", answer)
            self._on_answer(answer)

    def _on_answer(self, answer: Any) -> None:
        request = self.pending.pop(answer.request_id, None)
        if isinstance(answer, Error) and answer.code == ErrorCode.BLOB_MISSING and request:
            self.world.files.heal()  # upload the missing blobs and send again
            self.ask(request)
            return
        if request is not None:
            self._book.told(self, request, answer)
            for on_answers in list(self.on_answers):
                on_answers(request, answer)

    def _do_publications(self, instruction: signals.DeliverPublications) -> None:
        for message in instruction.messages:
            self.world.trace.note(self.name, "published", message)
        for on_published in list(self.on_published):
            on_published(instruction.messages)

    def _do_deliver(self, instruction: signals.DeliverResults) -> None:
        for result in instruction.results:
            self.world.trace.note(self.name, "result", result)
            for number in range(result.count):
                self.results[task_id(result.job_id, number)] = result
            self._book.delivered(self, result)
        self._feed(signals.ResultsTaken([result.job_id for result in instruction.results]))
        for on_results in list(self.on_results):
            on_results(instruction.results)


SUBMITS = (SubmitJob, SubmitBulk, SubmitArray, StageJobs, CommitBatch, DropBatch)


DO: dict[type, str] = {
    signals.SendToLeader: "_do_send",
    signals.Connect: "_do_connect",
    signals.Disconnect: "_do_disconnect",
    signals.DeliverResponses: "_do_tell",
    signals.DeliverResults: "_do_deliver",
    signals.DeliverPublications: "_do_publications",
}
