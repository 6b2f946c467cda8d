"""Clients of the leader: their hellos and their results.

A result is owed from the end of its job until the client confirms it. A client that reconnects gets
its owed results page by page, as fast as it reads; a result of a job that ends meanwhile is sent at
once, unless a later page will have it."""

from __future__ import annotations

from functools import partial

from rollq.base.ids import ClientId, JobId
from rollq.base.limits import (
    CLIENT_ID_BYTES_MAX,
    OWED_BYTES_PER_TURN_MAX,
    OWED_RESULTS_PER_TURN_MAX,
)
from rollq.base.staged import ids_of
from rollq.base.stamp import Jitter
from rollq.grid import commands
from rollq.grid.effects import SendResult, each_effect
from rollq.grid.outbox import is_still_to_come, owed_to_client
from rollq.roles.member.leader.addressing import bounded
from rollq.roles.member.leader.effect_messages import needs_blobs, outcome_of, result_run
from rollq.roles.member.leader.keeping import Deliveries, Delivery
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.session_log import SessionLog
from rollq.roles.member.leader.sessions import ClientSession, Sessions
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Outputs
from rollq.roles.member.replica import Replica
from rollq.wire import messages
from rollq.wire.features import ACCEPTED, COMPACT, OWN, RUNS, agree

NAMELESS = "nameless-"  # prefix of generated client names


class Clients:
    """Handles the clients of one leader."""

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        proposals: Proposals,
        replies: Replies,
        *,
        deliveries: Deliveries,
        shell: Shell,
        outputs: Outputs,
        log: SessionLog,
        jitter: Jitter,
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._proposals = proposals
        self._replies = replies
        self._deliveries = deliveries
        self._shell = shell
        self._outputs = outputs
        self._log = log
        self._jitter = jitter

    def hello(self, number: int, hello: messages.HelloClient) -> None:
        """Open the session of a client."""
        # A client without a name (first form of the legacy protocol) gets one of its own.
        name = hello.client_id or f"{NAMELESS}{self._jitter.draw_id().hex()}"
        client_id = bounded("client id", name, CLIENT_ID_BYTES_MAX)
        features = hello.features
        session = ClientSession(
            number,
            client_id,
            ACCEPTED in features,
            is_alone=OWN in features,
            knows_blobs=COMPACT in features,
            reads_errors=ACCEPTED in features or COMPACT in features,
            takes_runs=RUNS in agree(features),
            account=self._shell.account_of(number),
        )
        self._sessions.add_client(session)
        self._log.joined(session)
        self._replies.welcome(number, hello.features)
        self._open(client_id, max(0, hello.desired_parallelism))
        self.owe_results(session)

    def owe_results(self, session: ClientSession) -> None:
        """Send the results that are owed to a client, a page at a time."""
        self._sessions.owing[session.number] = session

    def send_owed(self) -> None:
        """Once a turn: the next pages, to sessions that have read the previous ones."""
        owing = self._sessions.owing
        size_bytes = 0
        for session in list(owing.values()):
            if size_bytes >= OWED_BYTES_PER_TURN_MAX:
                return
            if self._shell.has_room(session.number):
                del owing[session.number]
                owing[session.number] = session  # moved to the end: the others come first
                size_bytes += self._send_page(session)

    def send_result(self, effect: SendResult) -> None:
        """Send the results of ended jobs."""
        if not self._send_run(effect):
            for one in each_effect((effect,)):
                assert isinstance(one, SendResult), "`each_effect` keeps the type"
                self._send_one(one)

    def _send_run(self, effect: SendResult) -> bool:
        """Send results as one run if all receivers are the same for each job, support runs, confirm
        results and are owed nothing older; False if not."""
        ids = tuple(ids_of(effect.job_ids))
        sessions, owing = self._sessions, self._sessions.owing
        clients = sessions.common_receivers(effect.client_id, ids)
        if clients is not None and not clients:
            return True  # no receiver is connected
        if clients is None or not all(
            client.takes_runs and client.confirms and client.number not in owing
            for client in clients
        ):
            return False
        run = result_run(self._replica.state, effect)
        if run is None:
            return False
        sessions.answered(ids)
        for client in clients:
            self._outputs.mail(client.number).append(run)
        return True

    def _send_one(self, effect: SendResult) -> None:
        state, owing = self._replica.state, self._sessions.owing
        for client in self._sessions.receivers(effect.client_id, effect.job_ids):
            is_owing = client.number in owing
            if not is_owing or not is_still_to_come(state, effect.job_ids, client.owed_after):
                self._deliver(client, effect)

    def _open(self, client_id: ClientId, cap: int) -> None:
        known = self._replica.state.clients.get(client_id)
        if known is None or known.cap != cap:
            self._proposals.add(commands.OpenClient(client_id, cap))

    def _send_page(self, session: ClientSession) -> int:
        results, session.owed_after = owed_to_client(
            self._replica.state, session.client_id, session.owed_after, OWED_RESULTS_PER_TURN_MAX
        )
        for result in results:
            self._deliver(session, result)
        if len(results) < OWED_RESULTS_PER_TURN_MAX:
            self._sessions.owing.pop(session.number, None)
        return sum(len(result.ends[0].result) for result in results)

    def _deliver(self, client: ClientSession, effect: SendResult) -> None:
        message = outcome_of(self._replica.state, effect)
        if effect.ends[0].blobs and needs_blobs(message, knows_blobs=client.knows_blobs):
            sent = partial(self._delivered, client, effect.job_ids)
            self._deliveries.add(
                Delivery(client.number, message, client.knows_blobs, _always, sent)
            )
            return
        self._outputs.mail(client.number).append(message)
        self._delivered(client, effect.job_ids)

    def _delivered(self, client: ClientSession, job_id: JobId) -> None:
        if not client.confirms:
            self._proposals.add(commands.ConfirmRun(client.client_id, job_id))


def _always() -> bool:
    """A `Delivery.is_wanted`: a result is wanted as long as its session lasts."""
    return True
