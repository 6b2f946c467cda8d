"""Wires up the guard of a running member."""

from __future__ import annotations

from collections.abc import Callable

from rollq.base.access import Principal
from rollq.base.stamp import Jitter
from rollq.roles.access import Decisions
from rollq.roles.member.driver import Driver
from rollq.roles.member.guard.given import GivenBlobs
from rollq.roles.member.guard.guard import AccountGuard
from rollq.roles.member.guard.targets import Targets


def guard_of(
    driver: Driver,
    given: GivenBlobs,
    jitter: Jitter,
    *,
    table_of: Callable[[str, int], str],
    on_refused: Callable[[Principal, str, str], None],
) -> AccountGuard:
    """The guard for the links of a member.

    Args:
        driver: Of the member.
        given: Blobs that accounts uploaded here.
        jitter: For generated client names.
        table_of: The table of a part of an export.
        on_refused: Called with every refusal.
    """
    leader = driver.leader_state
    targets = Targets(
        lambda: driver.state,
        pending=leader.proposals.commands,
        queue_named=leader.addressing.target_queue,
        table_of=table_of,
        given=given,
    )
    decisions = Decisions(lambda: driver.state.access, on_refused)
    return AccountGuard(decisions, targets, lambda: driver.is_about_to_lead, jitter=jitter)
