"""The guard of a running member, put together from what the member knows."""

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
    """Judges what accounts may do at a member.

    Args:
        driver: Of the member.
        given: Blobs that accounts gave here.
        jitter: For the names of clients that have none.
        table_of: The table of a part of an export.
        on_refused: Told of every refusal.
    """
    leader = driver.leader_state
    targets = Targets(
        lambda: driver.state,
        pending=leader.proposals.commands,
        queue_named=leader.addressing.queue_meant,
        table_of=table_of,
        given=given,
    )
    decisions = Decisions(lambda: driver.state.access, on_refused)
    return AccountGuard(decisions, targets, lambda: driver.is_about_to_lead, jitter=jitter)
