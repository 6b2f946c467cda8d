"""Bugs of links: silence is not detected, or is taken for a crash."""

from __future__ import annotations

from typing import Any

from rollq.grid.commands import Settings
from rollq.roles.client.session.machine import ClientMachine
from rollq.roles.member.leader.sessions import WorkerSession
from rollq.roles.member.leader.workers import Workers
from rollq.roles.member.peers import Peers
from rollq.roles.redial import Redial
from rollq.roles.worker import session
from rollq.testing.bugs.registry import mutant
from rollq.wire import messages as wire


@mutant(
    "worker_stays_with_a_silent_member", session.LeaderSession, "_maybe_leave_member", faults=()
)
def _worker_stays(old: Any) -> Any:
    return lambda self: None


@mutant("client_stays_with_a_silent_member", ClientMachine, "_check_silence", faults=())
def _client_stays(old: Any) -> Any:
    return lambda self, event: None


@mutant("silent_link_between_members_is_kept", Peers, "_post", faults=())
def _link_is_kept(old: Any) -> Any:
    def post(self: Any, address: str, message: Any) -> None:
        old(self, address, message)
        self._unanswered.clear()

    return post


@mutant("silent_member_is_dialed_again_and_again", Redial, "_advance", faults=())
def _dialed_again(old: Any) -> Any:
    return lambda self: None


@mutant(
    "deaf_worker_counts_as_gone",
    Workers,
    "goodbye",
    faults=(),
    settings=Settings(lease_ms=3_000, worker_grace_ms=500),
)
def _deaf_is_gone(old: Any) -> Any:
    def goodbye(self: Any, leaving: WorkerSession, message: wire.Goodbye) -> None:
        if message.returns:
            self._replies.close(leaving.number, "its connection broke")
        else:
            old(self, leaving, message)

    return goodbye
