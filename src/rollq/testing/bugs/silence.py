"""Bugs of links: members that fell silent are not left, and keep whoever was with them."""

from __future__ import annotations

from typing import Any

from rollq.roles.client.machine import ClientMachine
from rollq.roles.member.peers import Peers
from rollq.roles.redial import Redial
from rollq.roles.worker.session import WorkerSession
from rollq.testing.bugs.registry import mutant


@mutant("worker_stays_with_a_silent_member", WorkerSession, "_maybe_leave_member", faults=())
def _worker_stays(old: Any) -> Any:
    return lambda self: None


@mutant("client_stays_with_a_silent_member", ClientMachine, "_maybe_leave", faults=())
def _client_stays(old: Any) -> Any:
    return lambda self, event: None


@mutant("silent_link_between_members_is_kept", Peers, "_say", faults=())
def _link_is_kept(old: Any) -> Any:
    def say(self: Any, address: str, message: Any) -> None:
        old(self, address, message)
        self._unanswered.clear()

    return say


@mutant("silent_member_is_dialed_again_and_again", Redial, "_go_on", faults=())
def _dialed_again(old: Any) -> Any:
    return lambda self: None
